"""Requests to nodes' agents over mutual TLS: this server's client certificate, and the check of the
node's."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import orjson
from cryptography import x509

from alcove.api.errors import ApiError, InternalError, ServiceUnavailable, from_status
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER, NODE_GROUP, NODE_USER_PREFIX
from alcove.apiserver.auth import keyfiles, subjects
from alcove.apiserver.auth.certificates import CLIENT_LIFETIME, CertificateAuthority
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.subjects import Subject, SubjectError
from alcove.apiserver.streams.agent_addresses import AgentAddress
from alcove.component import request_ids
from alcove.http.byte_streams import TransportStream
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError
from alcove.http.handshakes import Handshakes
from alcove.http.tls_transport import TlsSession, TlsTransport
from alcove.http.turns import ReadingTurns

CERTIFICATE = "apiserver-node-client.pem"
CONNECT_SECONDS_MAX = 5.0
HEAD_SECONDS_MAX = 30.0
ERROR_BYTES_MAX = 64 << 10


class AgentConnector:
    """Connections to agents. Holds this server's client certificate, renewed by `renew`."""

    def __init__(
        self,
        directory: Path,
        authority: CertificateAuthority,
        clock: Callable[[], float],
        node_authority: bytes = b"",
        reading: ReadingTurns | None = None,
    ) -> None:
        """`node_authority`, in PEM, signs nodes' certificates if `authority` does not: ring0's, on a dedicated plane.
        `reading` lets tenants' streams have their part of the time for received data. Raises KeyFileError."""
        self._path = directory / CERTIFICATE
        self._authority = authority
        self._clock = clock
        self._renew_at = 0.0
        self._handshakes = Handshakes()
        self._reading = reading or ReadingTurns()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Nodes are identified by their certificate's subject, not by their address: see `_is_node`.
        self._context.check_hostname = False
        # Nodes that joined with an earlier version have a certificate of the authority itself until its renewal.
        own = authority.certificate_pem + authority.for_nodes(clock()).certificate_pem
        trusted = node_authority or own
        self._context.load_verify_locations(cadata=trusted.decode("ascii"))
        self.renew()

    def renew(self) -> None:
        """Issues a new certificate once two thirds of the current one's lifetime are over; call it
        periodically.

        Raises KeyFileError.
        """
        now = self._clock()
        if now < self._renew_at:
            return
        issued = self._authority.client(Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP,)), now)
        # One file for both, so that certificate and key always match.
        keyfiles.replace(self._path, issued.certificate_pem + issued.key_pem)
        try:
            self._context.load_cert_chain(self._path)
        except (ssl.SSLError, OSError) as error:
            raise KeyFileError(f"cannot use {self._path}: {error}") from error
        self._renew_at = now + CLIENT_LIFETIME.total_seconds() * 2 / 3

    async def connect(self, tenant: TenantId, address: AgentAddress) -> HttpClientConnection:
        """A connection to the node's agent for the tenant, which is charged for what is received. Raises
        ServiceUnavailable."""
        connection = HttpClientConnection()
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                session = await self._open(tenant, address, connection)
        except (HttpError, OSError, TimeoutError) as error:
            raise unreachable(address.node, _message(error)) from error
        if not _is_node(session.tls, address.node):
            connection.abort()
            raise unreachable(address.node, "the server at its address has another node's certificate")
        return connection

    async def _open(
        self, tenant: TenantId, address: AgentAddress, connection: HttpClientConnection
    ) -> TlsSession:
        loop = asyncio.get_running_loop()
        _, stream = await loop.create_connection(TransportStream, address.host, address.port)
        try:
            session = await self._handshakes.perform(tenant, stream, lambda: self._context, address.host)
            schedule = partial(self._reading.read, tenant)
            await stream.hand_over(TlsTransport(session, connection, schedule=schedule))
        except BaseException:
            stream.abort()
            raise
        return session

    def close(self) -> None:
        self._handshakes.close()


async def ask(
    agent: HttpClientConnection, address: AgentAddress, method: str, path: str, headers: Mapping[str, str]
) -> None:
    """Sends a request; returns when the head of its response has arrived. Raises ServiceUnavailable."""
    try:
        async with asyncio.timeout(HEAD_SECONDS_MAX):
            agent.begin(method, path, {"Host": address.node, **request_ids.outgoing(), **headers})
            await agent.response()
    except (ConnectionError, HttpError, TimeoutError) as error:
        raise unreachable(address.node, "no response from its agent") from error


async def error_of(agent: HttpClientConnection) -> ApiError:
    """The error in a response's body."""
    try:
        body = orjson.loads(await agent.body(ERROR_BYTES_MAX))
    except (orjson.JSONDecodeError, ConnectionError, HttpError):
        body = None
    if not isinstance(body, dict):
        return InternalError(f"the node's agent responded with status {agent.status}")
    return from_status(body)


def unreachable(node: str, message: str) -> ServiceUnavailable:
    return ServiceUnavailable(f'error dialing backend: node "{node}" cannot be reached: {message}')


def _message(error: Exception) -> str:
    """The error without addresses, which tenants may not see."""
    match error:
        case ssl.SSLCertVerificationError():
            return "its certificate is not signed by this cluster's authority"
        case ssl.SSLError():
            return "TLS handshake failed"
        case TimeoutError():
            return "connection timed out"
        case ConnectionRefusedError():
            return "connection refused"
    return "connection failed"


def _is_node(tls: ssl.SSLObject | None, node: str) -> bool:
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return False
    try:
        subject = subjects.from_name(x509.load_der_x509_certificate(der).subject)
    except (SubjectError, ValueError):
        return False
    return subject == Subject(SYSTEM, f"{NODE_USER_PREFIX}{node}", (NODE_GROUP,))
