"""From credentials to an identity: a client certificate, else a bearer token, else 401.

There is no anonymous identity: it would need a tenant. The few paths that anybody may read are
`PUBLIC_PATHS`; the pipeline answers them before it asks who is there.
"""

import base64
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.apiserver.auth import clientcert
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.auth.statictokens import StaticTokens
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.identity import Identity
from alcove.apiserver.reader import CacheReader

PUBLIC_PATHS = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
"""What `GET` gives to everybody, as Kubernetes gives it to anonymous callers."""

WEBSOCKET_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
"""How a browser sends a token with a WebSocket, which can have no Authorization header."""

_TENANTS = GroupResource("", "tenants")
_NO_CREDENTIALS = "Unauthorized: show a client certificate or a bearer token"


class ReviewedToken(Struct, frozen=True):
    identity: Identity
    audiences: tuple[str, ...]
    """Those of the asked ones that the token is for."""


class Authenticator:
    def __init__(
        self,
        reader: CacheReader,
        tokens: Tokens,
        clock: Callable[[], float],
        static: StaticTokens | None = None,
    ) -> None:
        self._reader = reader
        self._tokens = tokens
        self._clock = clock
        self._static = static
        self._births: dict[str, float] = {}

    def identity_from_certificate(self, der: bytes) -> CertificateIdentity:
        """Whom the certificate of a finished handshake names: ask once per connection, and hand the
        answer to `authenticate` with each of its requests. Raises Unauthorized."""
        return clientcert.identify(der, self._clock())

    def authenticate(self, headers: Mapping[str, str], certificate_identity: Identity | None) -> Identity:
        """The caller. `headers` have lower-case names. Raises Unauthorized.

        A certificate goes before a token, as in Kubernetes; one that ran out during the connection
        counts no more.
        """
        if certificate_identity is not None:
            if isinstance(certificate_identity, CertificateIdentity):
                self._check_certified(certificate_identity)
            return certificate_identity
        token = _bearer(headers)
        if token is None:
            raise Unauthorized(_NO_CREDENTIALS)
        if self._static is not None:
            found = self._static.find(token)
            if found is not None:
                return found
        return self._tokens.authenticate(token)

    def review(self, token: str, tenant: TenantId, audiences: Collection[str]) -> ReviewedToken:
        """Whose token it is, for somebody in `tenant` who was shown it; of another tenant's tokens nothing
        is told. No audiences: this API server's. Raises Unauthorized."""
        served = self._tokens.audiences(tenant)
        asked = audiences or served
        identity = self._static.find(token) if self._static is not None else None
        if identity is None:
            verified = self._tokens.verify(token, tenant)
            identity, meant = verified.identity, verified.claims.aud
        else:
            meant = served
        common = tuple(audience for audience in asked if audience in meant)
        if identity.tenant != tenant or not common:
            raise Unauthorized("Unauthorized: the token is refused: it is for another audience")
        return ReviewedToken(identity, common)

    def _check_certified(self, identity: CertificateIdentity) -> None:
        clientcert.check_current(identity, self._clock())
        if identity.tenant != SYSTEM and identity.issued < self._birth(identity.tenant):
            raise Unauthorized(
                "Unauthorized: the client certificate is from an earlier tenant of this name; get a new one"
            )

    def _birth(self, tenant: TenantId) -> float:
        """When the tenant was created; long ago where this server keeps no such object (a dedicated
        tenant's own server), or there is none: nothing can be done in a tenant that does not exist."""
        found = self._reader.get(SYSTEM, _TENANTS, "", tenant)
        created = found["metadata"].get("creationTimestamp") if found is not None else None
        if created is None:
            return 0.0
        birth = self._births.get(created)
        if birth is None:
            if len(self._births) > 4096:
                self._births.clear()
            birth = self._births[created] = meta.parse_time(created)
        return birth


def _bearer(headers: Mapping[str, str]) -> str | None:
    """The request's bearer token, None if it has none."""
    scheme, _, token = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer":
        return token.strip() or None
    protocols = headers.get("sec-websocket-protocol")
    return None if protocols is None else _websocket_bearer(protocols)


def _websocket_bearer(protocols: str) -> str | None:
    for protocol in protocols.split(","):
        offered = protocol.strip()
        if offered.startswith(WEBSOCKET_TOKEN_PROTOCOL):
            encoded = offered.removeprefix(WEBSOCKET_TOKEN_PROTOCOL)
            try:
                return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii")
            except ValueError as error:
                raise Unauthorized("Unauthorized: the WebSocket's bearer token cannot be decoded") from error
    return None
