"""The front proxy: how this server identifies itself, and its callers, to extension servers.

Extension servers believe the X-Remote-… headers of a client whose certificate is of the front proxy's authority.
Each tenant has an authority of its own, derived from the cluster's key and the tenant's uid, which signs this one
certificate only. So a certificate is of no use at another tenant's extension server; and this server trusts no
such authority, so it is of no use here.

Extension servers also read an authority of users' client certificates. All tenants' users have certificates of one
authority, whose names mean nothing without the tenant in them, which extension servers do not look at: a tenant's
`admin` would be the `admin` of every other. So they are given an authority that has signed nothing: users reach
them through this server, or with tokens, which are reviewed in the tenant.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import quote

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import BadRequest
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import TENANTS
from alcove.apiserver.auth.certificates import (
    CertificateAuthority,
    CertificateProfile,
    IssuedCertificate,
    new_key,
    pem,
    to_pem,
)
from alcove.apiserver.identity import ALL_AUTHENTICATED, MASTERS, Identity
from alcove.apiserver.reader import CacheReader

COMMON_NAME = "front-proxy-client"
LIFETIME = timedelta(days=30)
KEPT_MAX = 1_024
"""Tenants whose certificates are kept; another one is issued for the next connection."""
RING0_USER_PREFIX = "system:ring0:"
"""Users of ring0 are other users than those of the same names in a tenant."""

HeaderField = tuple[str, str]


class ProxyCredentials(Struct, frozen=True):
    """What this server needs for one tenant's extension servers."""

    tenant_uid: str
    authority: CertificateAuthority
    client_authority: CertificateAuthority
    issued: IssuedCertificate
    renew_at: float


class FrontProxy:
    def __init__(
        self, authority: CertificateAuthority, reader: CacheReader, clock: Callable[[], float]
    ) -> None:
        self._authority = authority
        self._reader = reader
        self._clock = clock
        self._kept: OrderedDict[TenantId, ProxyCredentials] = OrderedDict()

    def credentials(self, tenant: TenantId) -> ProxyCredentials:
        kept, now = self._kept.get(tenant), self._clock()
        uid = self._uid(tenant)
        if kept is None or kept.tenant_uid != uid or now >= kept.renew_at:
            kept = self._kept[tenant] = self._issue(tenant, uid, now)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(tenant)
        return kept

    def _uid(self, tenant: TenantId) -> str:
        """Empty for ring0 and on a tenant's own server, which have no tenant to be confused with."""
        obj = self._reader.get(SYSTEM, TENANTS, "", tenant) if tenant != SYSTEM else None
        return str(objects.get(obj, "metadata", "uid", default="")) if obj is not None else ""

    def _issue(self, tenant: TenantId, uid: str, now: float) -> ProxyCredentials:
        def derived(name: str) -> CertificateAuthority:
            return self._authority.derived(f"alcove-{name}", f"alcove-{name}:{tenant}:{uid}".encode(), now)

        authority, key = derived("front-proxy-ca"), new_key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, COMMON_NAME)])
        profile = CertificateProfile(usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = authority.sign(key.public_key(), subject, profile, now, LIFETIME)
        issued = IssuedCertificate(pem(signed), to_pem(key))
        renew_at = now + LIFETIME.total_seconds() * 2 / 3
        return ProxyCredentials(uid, authority, derived("extension-client-ca"), issued, renew_at)


def is_own_header(name: str) -> bool:
    """Whether a header, in lower case, is one that only a front proxy may set."""
    return name.startswith("x-remote-")


def identity_headers(identity: Identity, tenant: TenantId) -> Iterator[HeaderField]:
    """The caller for a tenant's extension server. Raises BadRequest for names that no header can have.

    A caller of ring0 has been authorized by ring0's roles, which the tenant's do not mention: for the extension
    server, which asks about the tenant's, it is an administrator.
    """
    user, groups = identity.user, identity.groups
    if identity.is_system and tenant != SYSTEM:
        user, groups = RING0_USER_PREFIX + user, (MASTERS, ALL_AUTHENTICATED)
    yield "X-Remote-User", _value(user)
    if identity.uid:
        yield "X-Remote-Uid", _value(identity.uid)
    for group in groups:
        yield "X-Remote-Group", _value(group)
    for key, values in identity.extra.items():
        for value in values:
            yield f"X-Remote-Extra-{quote(key, safe='')}", _value(value)


def _value(text: str) -> str:
    """As bytes of UTF-8, which Kubernetes reads, in a header that is written as Latin-1."""
    if any(ord(char) < 0x20 or ord(char) == 0x7F for char in text):
        raise BadRequest("names with control characters cannot be sent to an aggregated API")
    return text.encode("utf-8", "surrogateescape").decode("latin-1")
