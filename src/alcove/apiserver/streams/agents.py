"""Requests to nodes' agents over mutual TLS: who this server is to them, and that they are who they should be."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
from cryptography import x509

from alcove.api.errors import ApiError, InternalError, ServiceUnavailable, from_status
from alcove.api.ids import SYSTEM
from alcove.api.node_api import API_SERVER_GROUP, API_SERVER_USER, NODE_GROUP, NODE_USER_PREFIX
from alcove.apiserver.auth import keyfiles, subjects
from alcove.apiserver.auth.certificates import CLIENT_LIFETIME, CertificateAuthority
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.auth.subjects import Subject, SubjectError
from alcove.apiserver.streams.agent_addresses import AgentAddress
from alcove.component import request_ids
from alcove.http.client import HttpClientConnection
from alcove.http.errors import HttpError

CERTIFICATE = "apiserver-node-client.pem"
CONNECT_SECONDS_MAX = 5.0
HEAD_SECONDS_MAX = 30.0
ERROR_BYTES_MAX = 64 << 10
GOODBYE_SECONDS_MAX = 5.0
"""For TLS' own end, which an agent that reads nothing does not answer."""


class AgentConnector:
    """Connections to agents. Holds this server's client certificate, renewed by `renew`."""

    def __init__(self, directory: Path, authority: CertificateAuthority, clock: Callable[[], float]) -> None:
        """Raises KeyFileError."""
        self._path = directory / CERTIFICATE
        self._authority = authority
        self._clock = clock
        self._renew_at = 0.0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        # Nodes are known by their subject, not by the addresses they happen to have: see `_check`.
        self._context.check_hostname = False
        self._context.load_verify_locations(cadata=authority.certificate_pem.decode("ascii"))
        self.renew()

    def renew(self) -> None:
        """Issues a new certificate if the present one has lived two thirds of its life; call it now and then."""
        now = self._clock()
        if now < self._renew_at:
            return
        issued = self._authority.client(Subject(SYSTEM, API_SERVER_USER, (API_SERVER_GROUP,)), now)
        # One file for both: they are never seen to differ.
        keyfiles.replace(self._path, issued.certificate_pem + issued.key_pem)
        try:
            self._context.load_cert_chain(self._path)
        except (ssl.SSLError, OSError) as error:
            raise KeyFileError(f"cannot use {self._path}: {error}") from error
        self._renew_at = now + CLIENT_LIFETIME.total_seconds() * 2 / 3

    async def connect(self, address: AgentAddress) -> HttpClientConnection:
        """A connection to the node's agent. Raises ServiceUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                transport, connection = await loop.create_connection(
                    HttpClientConnection,
                    address.host,
                    address.port,
                    ssl=self._context,
                    server_hostname=address.host,
                    ssl_shutdown_timeout=GOODBYE_SECONDS_MAX,
                )
        except (OSError, TimeoutError) as error:
            raise unreachable(address.node, _why(error)) from error
        if not _is_node(transport.get_extra_info("ssl_object"), address.node):
            transport.abort()
            raise unreachable(address.node, "who answers there is not that node")
        return connection


async def ask(
    agent: HttpClientConnection, address: AgentAddress, method: str, path: str, headers: Mapping[str, str]
) -> None:
    """Sends a request; returns when the head of its response has come. Raises ServiceUnavailable."""
    try:
        async with asyncio.timeout(HEAD_SECONDS_MAX):
            agent.begin(method, path, {"Host": address.node, **request_ids.outgoing(), **headers})
            await agent.response()
    except (ConnectionError, HttpError, TimeoutError) as error:
        raise unreachable(address.node, "it does not answer") from error


async def error_of(agent: HttpClientConnection) -> ApiError:
    """The error that a response's body tells of."""
    try:
        told = orjson.loads(await agent.body(ERROR_BYTES_MAX))
    except (orjson.JSONDecodeError, ConnectionError, HttpError):
        told = None
    if not isinstance(told, dict):
        return InternalError(f"the node's agent answered with status {agent.status}")
    return from_status(told)


def unreachable(node: str, why: str) -> ServiceUnavailable:
    return ServiceUnavailable(f'error dialing backend: node "{node}" cannot be reached: {why}')


def _why(error: Exception) -> str:
    """Without addresses, which are not everybody's business."""
    match error:
        case ssl.SSLCertVerificationError():
            return "its certificate is not one of this cluster"
        case ssl.SSLError():
            return "it does not speak TLS as it should"
        case TimeoutError():
            return "it does not answer"
        case ConnectionRefusedError():
            return "connection refused"
    return "no connection"


def _is_node(tls: ssl.SSLObject | None, node: str) -> bool:
    der = tls.getpeercert(binary_form=True) if tls is not None else None
    if not der:
        return False
    try:
        found = subjects.from_name(x509.load_der_x509_certificate(der).subject)
    except (SubjectError, ValueError):
        return False
    return found == Subject(SYSTEM, f"{NODE_USER_PREFIX}{node}", (NODE_GROUP,))
