"""The requests to OIDC issuers, on behalf of the tenant that named them.

A tenant's issuer is dialled as its webhooks are (`outbound/`): at public addresses that are not the cluster's, or where
ring0 allows it. Redirects are not followed. Each request has its own connection: there are few of them.
"""

from __future__ import annotations

import asyncio
import base64
from functools import partial
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import TEXT_LENGTH_MAX, JwtIssuer, https_url_error
from alcove.apiserver.auth.oidc import jwk_sets
from alcove.apiserver.auth.oidc.jwk_sets import JwkSet
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.outbound.authorities import context_of
from alcove.apiserver.outbound.errors import WebhookError, connection_message
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer, WebhookTarget
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import HttpError
from alcove.http.handshakes import Handshakes
from alcove.http.tls_transport import TlsTransport
from alcove.http.turns import ReadingTurns

DOCUMENT_BYTES_MAX = 128 << 10
"""Of a discovery document, a key set, and the answer of a token endpoint; a longer one is refused."""
REQUEST_SECONDS_MAX = 10.0
DISCOVERY_PATH = "/.well-known/openid-configuration"


class IssuerError(Exception):
    """The issuer could not be reached, or its answer is invalid. The message says why."""


class DiscoveryDocument(Struct, frozen=True):
    """What an issuer says of itself."""

    jwks_uri: str
    authorization_endpoint: str = ""
    token_endpoint: str = ""


class IssuerClient:
    def __init__(self, dialer: WebhookDialer, reading: ReadingTurns, threads: ComputeThreads) -> None:
        self._dialer = dialer
        self._reading = reading
        self._threads = threads
        self._handshakes = Handshakes()

    def close(self) -> None:
        self._handshakes.close()

    async def discover(self, tenant: TenantId, issuer: JwtIssuer) -> DiscoveryDocument:
        """Raises IssuerError."""
        url = issuer.discovery_url or issuer.url.rstrip("/") + DISCOVERY_PATH
        data = await self._request(tenant, issuer, "GET", url)
        try:
            fields = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise IssuerError(f"{url}: the document is not JSON") from error
        if not isinstance(fields, dict) or fields.get("issuer") != issuer.url:
            raise IssuerError(f'{url}: the document is not of the issuer "{issuer.url}"')
        endpoints = [
            str(fields.get(name) or "") for name in ("jwks_uri", "authorization_endpoint", "token_endpoint")
        ]
        if any(len(each) > TEXT_LENGTH_MAX for each in endpoints):
            # They are kept, logged, and sent to browsers.
            raise IssuerError(f"{url}: an endpoint has more than {TEXT_LENGTH_MAX} characters")
        if https_url_error(endpoints[0].partition("?")[0]):
            raise IssuerError(f"{url}: jwks_uri is not an https URL")
        return DiscoveryDocument(*endpoints)

    async def keys(self, tenant: TenantId, issuer: JwtIssuer, url: str) -> JwkSet:
        """Raises IssuerError."""
        data = await self._request(tenant, issuer, "GET", url)
        try:
            keys: JwkSet = await self._threads.run(tenant, partial(jwk_sets.parse, data))
        except ValueError as error:
            raise IssuerError(f"{url}: not a JSON Web Key Set: {error}") from error
        except ApiError as error:
            raise IssuerError(f"{url}: {error.message}") from error
        return keys

    async def post_form(self, tenant: TenantId, issuer: JwtIssuer, url: str, form: bytes) -> bytes:
        """The body of a token endpoint's answer. Raises IssuerError."""
        return await self._request(tenant, issuer, "POST", url, form)

    async def _request(
        self, tenant: TenantId, issuer: JwtIssuer, method: str, url: str, body: bytes = b""
    ) -> bytes:
        if message := https_url_error(url.partition("?")[0]):
            raise IssuerError(f"{url[:256]}: {message}")
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                response = await self._exchange(tenant, issuer, method, url, body)
        except TimeoutError as error:
            raise IssuerError(f"{url}: no answer within {REQUEST_SECONDS_MAX:g} s") from error
        except OSError as error:
            raise IssuerError(f"{url}: {connection_message(error)}") from error
        except (WebhookError, HttpError, ValueError) as error:
            raise IssuerError(f"{url}: {error}") from error
        if response.status != 200:
            raise IssuerError(f"{url}: the issuer answered with status {response.status}, not 200")
        return response.body

    async def _exchange(
        self, tenant: TenantId, issuer: JwtIssuer, method: str, url: str, body: bytes
    ) -> ReceivedResponse:
        parts = urlsplit(url)
        assert parts.hostname is not None
        authority = base64.b64encode(issuer.certificate_authority.encode()).decode()
        stream = await self._dialer.dial(tenant, WebhookTarget(parts.hostname, parts.port or 443))
        connection = HttpClientConnection()
        try:
            session = await self._handshakes.perform(
                tenant, stream, partial(context_of, authority), parts.hostname
            )
            schedule = partial(self._reading.read, tenant)
            await stream.hand_over(TlsTransport(session, connection, schedule=schedule))
        except BaseException:
            stream.abort()
            raise
        headers = {"Host": parts.netloc, "User-Agent": "alcove", "Accept": "application/json"}
        if method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            headers["Content-Length"] = str(len(body))
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            return await connection.exchange(method, target, headers, body, bytes_max=DOCUMENT_BYTES_MAX)
        finally:
            connection.close()
