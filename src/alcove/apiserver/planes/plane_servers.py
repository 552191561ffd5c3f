"""The API servers of dedicated tenants, as the status of ring0's Tenants says, and whom their authorities may vouch for.

Users of a dedicated tenant have certificates of its plane's authority, and may call the home plane with them. There
such an authority vouches for its own tenant only.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from cryptography import x509
from msgspec import Struct

from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import is_dedicated
from alcove.api.objects import Object, get
from alcove.api.resources import TENANTS
from alcove.apiserver.auth.certificates import issued_by
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.identity import Identity

log = logging.getLogger(__name__)

AUTHORITIES_KEPT_MAX = 64
"""Authorities of dedicated planes that are kept decoded."""


class PlaneServer(Struct, frozen=True):
    host: str
    port: int
    authority: str
    """Its certificate authority, in PEM."""


class PlaneServers:
    def __init__(
        self, cache: Cache, own_authority: x509.Certificate, trust: Callable[[Collection[str]], None]
    ) -> None:
        """`trust` makes TLS accept client certificates of these authorities, in PEM, and of no others."""
        self._cache = cache
        self._own_authority = own_authority
        self._trust = trust
        self._trusted: frozenset[str] = frozenset()
        self._servers: dict[TenantId, PlaneServer] = {}

    def load(self) -> None:
        """Call it once the cache is filled."""
        for entry in self._cache.entries(SYSTEM, TENANTS):
            self._set(entry.decode())
        self._update_trust()

    def notice(self, events: Sequence[CacheEvent]) -> None:
        """Called with every change of objects, after the cache has it."""
        has_changed = False
        for event in events:
            key = event.entry.key
            if key.resource == TENANTS and key.tenant == SYSTEM:
                has_changed = True
                if event.kind is CacheEventType.DELETED:
                    self._servers.pop(TenantId(key.name), None)
                else:
                    self._set(event.entry.object)
        if has_changed:
            self._update_trust()

    def of(self, tenant: TenantId) -> PlaneServer | None:
        """None if this server serves the tenant."""
        return self._servers.get(tenant)

    def check(self, der: bytes, identity: Identity) -> None:
        """Raises Unauthorized for a certificate of a plane's authority that is not of its tenant."""
        if not self._trusted:
            return
        certificate = x509.load_der_x509_certificate(der)
        if issued_by(certificate, self._own_authority):
            return
        server = self._servers.get(identity.tenant)
        if server is None or not issued_by(certificate, _decoded(server.authority)):
            raise Unauthorized(
                "Unauthorized: the client certificate's authority may not vouch for this tenant"
            )

    def _set(self, tenant: Object) -> None:
        name = TenantId(tenant["metadata"]["name"])
        server = _server(tenant)
        if server is None:
            self._servers.pop(name, None)
        elif server != self._servers.get(name) and _is_valid(server.authority):
            self._servers[name] = server

    def _update_trust(self) -> None:
        """An authority is trusted as long as a plane has it."""
        authorities = frozenset(server.authority for server in self._servers.values())
        if authorities != self._trusted:
            self._trust(authorities)
            self._trusted = authorities


def _is_valid(authority: str) -> bool:
    try:
        _decoded(authority)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        log.warning("invalid authority of a dedicated plane; ignoring it", extra={"error": str(error)})
        return False
    return True


def _server(tenant: Object) -> PlaneServer | None:
    status = tenant.get("status") or {}
    authority = get(status, "controlPlane", "certificateAuthority", default="")
    if not is_dedicated(tenant) or not authority or tenant["metadata"]["name"] == SYSTEM:
        return None
    try:
        url = urlsplit(status.get("endpoint") or "")
        return PlaneServer(url.hostname, url.port or 443, authority) if url.hostname else None
    except ValueError:
        return None


@lru_cache(maxsize=AUTHORITIES_KEPT_MAX)
def _decoded(authority: str) -> x509.Certificate:
    """Raises ValueError."""
    return x509.load_pem_x509_certificate(authority.encode())
