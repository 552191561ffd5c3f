"""Authentication: a client certificate, else a bearer token, else 401.

There is no anonymous identity: it would need a tenant. The pipeline serves the few `PUBLIC_PATHS` before
authentication.
"""

import base64
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, get
from alcove.api.resources import TENANTS
from alcove.apiserver.auth import clientcert
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.auth.oidc.oidc_tokens import OidcTokens, TokenNotVerified
from alcove.apiserver.auth.revocations import Revocations
from alcove.apiserver.auth.statictokens import StaticTokens
from alcove.apiserver.auth.tokens import Tokens
from alcove.apiserver.identity import Identity
from alcove.apiserver.reader import CacheReader

VERSION_PATHS = ("/version", "/version/")
PUBLIC_PATHS = frozenset(("/healthz", "/livez", "/readyz", *VERSION_PATHS))
"""Paths that need no credentials; Kubernetes serves them to anonymous users."""

WEBSOCKET_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
"""The subprotocol by which a browser sends a token with a WebSocket, which cannot have an Authorization
header."""

RULES_KEPT_MAX = 4096
"""Tenants whose rules are kept in parsed form."""
_NO_CREDENTIALS = "Unauthorized: a client certificate or a bearer token is required"


class ReviewedToken(Struct, frozen=True):
    identity: Identity
    audiences: tuple[str, ...]
    """The requested audiences that the token is for."""


class _TenantRules(Struct, frozen=True):
    """What a Tenant object says of its users' certificates."""

    resource_version: str | None
    issued_from: float
    """Those issued before are of an earlier tenant of its name."""
    has_revoked: bool

    @classmethod
    def of(cls, tenant: Object) -> "_TenantRules":
        metadata = tenant["metadata"]
        created = metadata.get("creationTimestamp") if metadata["name"] != SYSTEM else None
        issued_from = 0.0 if created is None else meta.parse_time(created)
        has_revoked = bool(get(tenant, "spec", "revokedCertificates"))
        return cls(metadata.get("resourceVersion"), issued_from, has_revoked)


class Authenticator:
    def __init__(
        self,
        reader: CacheReader,
        tokens: Tokens,
        clock: Callable[[], float],
        static: StaticTokens | None = None,
        check_authority: Callable[[bytes, Identity], None] = lambda _der, _identity: None,
        oidc: OidcTokens | None = None,
        home: TenantId = SYSTEM,
    ) -> None:
        """`check_authority` raises Unauthorized if the authority of a certificate may not vouch for the identity: the
        home plane and dedicated planes trust several authorities. `home` is the tenant whose server this is."""
        self._reader = reader
        self._tokens = tokens
        self._clock = clock
        self._static = static
        self._check_authority = check_authority
        self._oidc = oidc
        self._home = home
        self._rules: dict[TenantId, _TenantRules] = {}
        self._revocations = Revocations()

    def identity_from_certificate(self, der: bytes) -> CertificateIdentity:
        """The identity in a certificate after the TLS handshake. Call it once per connection, and pass the
        result to `authenticate` with each request. Raises Unauthorized."""
        identity = clientcert.identify(der, self._clock())
        self._check_authority(der, identity)
        return identity

    def authenticate(
        self,
        headers: Mapping[str, str],
        certificate_identity: Identity | None,
        requested: TenantId | None = None,
    ) -> Identity:
        """The caller. `headers` have lower-case names; `requested` is the tenant that the path names, which may trust
        OIDC issuers. Raises Unauthorized, and TokenNotVerified if `verify` has to be awaited first.

        A certificate takes precedence over a token, as in Kubernetes. One that has expired or was revoked
        during the connection is rejected.
        """
        if certificate_identity is not None:
            if isinstance(certificate_identity, CertificateIdentity):
                self._check_certified(certificate_identity)
            return certificate_identity
        token = _bearer(headers)
        if token is None:
            raise Unauthorized(_NO_CREDENTIALS)
        if self._static is not None:
            identity = self._static.find(token)
            if identity is not None:
                return identity
        if self._oidc is not None:
            verified = self._oidc.find(token, (SYSTEM, requested or self._home))
            if verified is not None:
                return verified.identity
        return self._tokens.authenticate(token)

    async def verify(self, error: TokenNotVerified, client: str) -> None:
        """Has an OIDC token verified that a client at this address has sent; then authenticate again. Raises
        ApiError."""
        assert self._oidc is not None
        await self._oidc.verify(error.token, error.tenants, client)

    async def review(self, token: str, tenant: TenantId, audiences: Collection[str]) -> ReviewedToken:
        """Reviews a token for a client of `tenant`; a token of another tenant is Unauthorized, whatever it
        is.

        Without `audiences`, the token must be for this API server. Raises ApiError.
        """
        served = self._tokens.audiences(tenant)
        requested = audiences or served
        identity = self._static.find(token) if self._static is not None else None
        if identity is None and self._oidc is not None:
            identity = await self._review_oidc(self._oidc, token, tenant)
        if identity is None:
            verified = self._tokens.verify(token, tenant)
            identity, token_audiences = verified.identity, verified.claims.aud
        else:
            token_audiences = served
        common = tuple(audience for audience in requested if audience in token_audiences)
        if identity.tenant != tenant or not common:
            raise Unauthorized("Unauthorized: invalid token: it is for another audience")
        return ReviewedToken(identity, common)

    async def _review_oidc(self, oidc: OidcTokens, token: str, tenant: TenantId) -> Identity | None:
        try:
            verified = oidc.find(token, (tenant,))
        except TokenNotVerified as error:
            await oidc.verify(token, error.tenants, f"tenant:{tenant}")
            verified = oidc.find(token, (tenant,))
        return None if verified is None else verified.identity

    def is_revoked(self, identity: CertificateIdentity) -> bool:
        tenant = self._reader.get(SYSTEM, TENANTS, "", identity.tenant)
        return tenant is not None and self._revocations.has(tenant, identity)

    def _check_certified(self, identity: CertificateIdentity) -> None:
        clientcert.check_current(identity, self._clock())
        # None on a server without this Tenant object; if the tenant does not exist, all requests to it fail
        # anyway.
        tenant = self._reader.get(SYSTEM, TENANTS, "", identity.tenant)
        if tenant is None:
            return
        rules = self._rules.get(identity.tenant)
        version = tenant["metadata"].get("resourceVersion")
        if rules is None or version is None or rules.resource_version != version:
            if len(self._rules) >= RULES_KEPT_MAX:
                self._rules.clear()
            rules = self._rules[identity.tenant] = _TenantRules.of(tenant)
        if identity.issued < rules.issued_from:
            raise Unauthorized(
                "Unauthorized: the client certificate is from an earlier tenant of this name; get a new one"
            )
        if rules.has_revoked and self._revocations.has(tenant, identity):
            raise Unauthorized("Unauthorized: the client certificate was revoked; get a new one")


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
