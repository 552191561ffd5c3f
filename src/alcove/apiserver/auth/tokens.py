"""Service account tokens: JWTs with a tenant, a service account, and the object that they are bound to.

A token is valid while its signature, dates, issuer and audience are valid, and while the account and the
bound object exist with the uids in its claims. The first part never changes for a token and is cached by the
token's digest; the second is looked up in memory at every use. Each tenant is a separate issuer
(`{base}/tenants/T`), so that external verifiers can tell equal account names of two tenants apart.
"""

import base64
import hashlib
import hmac
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from alcove.api import meta, objects
from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from alcove.apiserver.auth import serviceaccounts, subjects
from alcove.apiserver.auth.clientcert import CREDENTIAL_ID
from alcove.apiserver.auth.signingkeys import BadSignature, ForeignKeys, SigningKeys
from alcove.apiserver.auth.subjects import SubjectError
from alcove.apiserver.identity import Identity
from alcove.apiserver.reader import CacheReader

DEFAULT_BASE_URL = "https://kubernetes.default.svc.cluster.local"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"

REMEMBERED_MAX = 16_384
REFUSED_MAX = 4_096
REFUSED_SECONDS = 10.0
LEEWAY_SECONDS = 60
"""Tolerance for clock skew, and for bound objects that are being deleted."""


class TokenObjectRef(Struct, frozen=True, omit_defaults=True):
    name: str
    uid: str = ""


class BoundObject(Struct, frozen=True, omit_defaults=True):
    """The private claims: the token's account, and the object it is bound to."""

    tenant: str
    namespace: str
    serviceaccount: TokenObjectRef
    pod: TokenObjectRef | None = None
    secret: TokenObjectRef | None = None
    node: TokenObjectRef | None = None
    warnafter: int | None = None


class TokenClaims(Struct, frozen=True, omit_defaults=True):
    iss: str
    sub: str
    aud: list[str]
    iat: int
    nbf: int
    jti: str
    bound: BoundObject = field(name="kubernetes.io")
    exp: int | None = None
    """None only for a token in a Secret, which is valid as long as the Secret contains it."""


class VerifiedToken(Struct, frozen=True):
    """A token whose signature and claims are valid."""

    claims: TokenClaims
    identity: Identity
    expires: float
    serves_api: bool
    """Whether this API server is in its audiences."""


_INVALID = "Unauthorized: invalid token: {}"
_V = TypeVar("_V")
_decode = msgspec.json.Decoder(TokenClaims).decode
_encode = msgspec.json.Encoder().encode


class Tokens:
    """Issues and verifies tokens. One per server."""

    def __init__(
        self,
        keys: SigningKeys,
        reader: CacheReader,
        clock: Callable[[], float],
        base_url: str = DEFAULT_BASE_URL,
        foreign: ForeignKeys = lambda _id: None,
    ) -> None:
        """`foreign`: keys of the API servers that have served tenants before."""
        self._foreign = foreign
        self._keys = keys
        self._reader = reader
        self._clock = clock
        self._base_url = base_url.rstrip("/")
        self._verified: OrderedDict[bytes, VerifiedToken] = OrderedDict()
        self._refused: OrderedDict[bytes, tuple[float, str]] = OrderedDict()
        self.stale_uses = 0
        """Uses of tokens past their `warnafter`, by clients that do not reread their token."""

    def issuer(self, tenant: TenantId) -> str:
        return f"{self._base_url}/tenants/{tenant}"

    def audiences(self, tenant: TenantId) -> list[str]:
        """The default audiences: this API server, by the tenant's issuer."""
        return [self.issuer(tenant)]

    def issue(self, bound: BoundObject, audiences: Sequence[str], lifetime_seconds: int | None) -> str:
        """A signed token. If `lifetime_seconds` is None it does not expire, and is valid while its Secret
        contains it."""
        now = int(self._clock())
        account = serviceaccounts.user_name(bound.namespace, bound.serviceaccount.name)
        claims = TokenClaims(
            iss=self.issuer(TenantId(bound.tenant)),
            sub=account,
            aud=list(audiences),
            iat=now,
            nbf=now,
            jti=str(uuid.uuid4()),
            bound=bound,
            exp=None if lifetime_seconds is None else now + lifetime_seconds,
        )
        return self._keys.sign(_encode(claims))

    def authenticate(self, token: str) -> Identity:
        """The identity of a token for this API server. Raises Unauthorized."""
        verified = self.verify(token)
        if not verified.serves_api:
            raise _invalid_token("it is for another audience")
        return verified.identity

    def verify(self, token: str, tenant: TenantId | None = None) -> VerifiedToken:
        """Verifies a token of any audience. Raises Unauthorized.

        With a `tenant`, another tenant's token is rejected before any object of that tenant is read.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        verified = self._verified.get(digest)
        if verified is None:
            verified = self._verify_and_cache(digest, token)
        else:
            self._verified.move_to_end(digest)
        if tenant is not None and verified.identity.tenant != tenant:
            raise _invalid_token("it is for another audience")
        now = self._clock()
        if now >= verified.expires:
            raise _invalid_token(f"it expired at {meta.format_time(verified.expires)}; get a new one")
        try:
            self._check_bound(verified, token, now)
        except _Unbound as error:
            raise BoundObjectMissing(str(error), verified.identity.tenant) from error
        return verified

    def _verify_and_cache(self, digest: bytes, token: str) -> VerifiedToken:
        """Verifies a token and caches the result; failures are cached too, for REFUSED_SECONDS."""
        now = self._clock()
        until, message = self._refused.get(digest, (0.0, ""))
        if now < until:
            raise _invalid_token(message)
        try:
            verified = self._verify(token, now)
        except (BadSignature, _BadClaims) as error:
            _put(self._refused, digest, (now + REFUSED_SECONDS, str(error)), REFUSED_MAX)
            raise _invalid_token(str(error)) from error
        _put(self._verified, digest, verified, REMEMBERED_MAX)
        return verified

    def _verify(self, token: str, now: float) -> VerifiedToken:
        try:
            verified = self._keys.verify(token, self._foreign)
            claims = _decode(verified.payload)
            tenant = subjects.checked_tenant(claims.bound.tenant)
        except (msgspec.DecodeError, SubjectError) as error:
            raise _BadClaims("its claims are not those of a service account's token") from error
        bound = claims.bound
        if verified.tenant not in (None, tenant):
            raise _BadClaims("its key may not vouch for this tenant")
        if claims.iss != self.issuer(tenant):
            raise _BadClaims("it is from another issuer")
        if claims.sub != serviceaccounts.user_name(bound.namespace, bound.serviceaccount.name):
            raise _BadClaims("its subject is not its service account")
        if not bound.serviceaccount.uid or (claims.exp is None and bound.secret is None):
            raise _BadClaims("it has no service account uid, or neither an expiry nor a Secret")
        if claims.nbf > now + LEEWAY_SECONDS or claims.iat > now + LEEWAY_SECONDS:
            raise _BadClaims("it is not valid yet; check the clocks")
        return VerifiedToken(
            claims=claims,
            identity=_identity(tenant, claims),
            expires=float("inf") if claims.exp is None else claims.exp,
            serves_api=self.issuer(tenant) in claims.aud,
        )

    def _check_bound(self, verified: VerifiedToken, token: str, now: float) -> None:
        bound, tenant = verified.claims.bound, verified.identity.tenant
        self._existing(tenant, SERVICE_ACCOUNTS, bound.namespace, bound.serviceaccount, now)
        if bound.pod is not None:
            self._existing(tenant, PODS, bound.namespace, bound.pod, now)
        elif bound.secret is not None:
            secret = self._existing(tenant, SECRETS, bound.namespace, bound.secret, now)
            if verified.claims.exp is None:
                _check_secret(secret, token)
        elif bound.node is not None:
            self._existing(SYSTEM, NODES, "", bound.node, now)
        if bound.warnafter is not None and now > bound.warnafter:
            self.stale_uses += 1

    def _existing(
        self, tenant: TenantId, resource: GroupResource, namespace: str, reference: TokenObjectRef, now: float
    ) -> Object:
        obj = self._reader.get(tenant, resource, namespace, reference.name)
        if obj is None or (reference.uid and obj["metadata"].get("uid") != reference.uid):
            raise _Unbound(f"the {resource.resource.removesuffix('s')} that it is bound to does not exist")
        deleted = obj["metadata"].get("deletionTimestamp")
        if deleted is not None and meta.parse_time(deleted) + LEEWAY_SECONDS < now:
            raise _Unbound(f"the {resource.resource.removesuffix('s')} that it is bound to is being deleted")
        return obj


class BoundObjectMissing(Unauthorized):
    """A token with a valid signature, whose account or bound object does not exist (yet, or any more)."""

    def __init__(self, message: str, tenant: TenantId) -> None:
        super().__init__(_INVALID.format(message))
        self.tenant = tenant
        """The token's tenant; it can be trusted because the signature is valid."""


class _BadClaims(Exception):
    """Claims that this server never issues."""


class _Unbound(Exception):
    """The object that a token is bound to does not exist, or no longer contains it."""


def _invalid_token(message: str) -> Unauthorized:
    return Unauthorized(_INVALID.format(message))


def _check_secret(secret: Object, token: str) -> None:
    """A token without expiry is valid only while its Secret contains it."""
    stored = objects.get(secret, "data", "token", default="")
    if not hmac.compare_digest(str(stored).encode(), base64.b64encode(token.encode())):
        raise _Unbound("its secret no longer contains it")
    if INVALID_SINCE in objects.labels(secret):
        raise _Unbound("its secret is marked invalid")


def _identity(tenant: TenantId, claims: TokenClaims) -> Identity:
    bound = claims.bound
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.jti}",)}
    for kind, reference in (("pod", bound.pod), ("node", bound.node)):
        if reference is not None:
            extra[f"authentication.kubernetes.io/{kind}-name"] = (reference.name,)
            if reference.uid:
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (reference.uid,)
    groups = serviceaccounts.groups(bound.namespace)
    return Identity(tenant, claims.sub, groups, bound.serviceaccount.uid, extra)


def _put(cache: OrderedDict[bytes, _V], key: bytes, value: _V, entries_max: int) -> None:
    cache[key] = value
    if len(cache) > entries_max:
        cache.popitem(last=False)
