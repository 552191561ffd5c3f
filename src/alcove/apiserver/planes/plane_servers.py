"""The API servers of dedicated tenants, as the status of ring0's Tenants says, and whom their authorities and keys may vouch
for. These stay valid when the tenant moves to the home plane.

The server of a tenant that is asleep may be stopped; `running` waits for it.

Users of a dedicated tenant have certificates of its plane's authority, and may call the home plane with them. There
such an authority vouches for its own tenant only.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from cryptography import x509
from msgspec import Struct

from alcove.api.errors import Unauthorized
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import is_dedicated, is_foreign
from alcove.api.kinds.core.plane_sleep import is_stopped
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object, get
from alcove.api.resources import TENANTS
from alcove.apiserver.auth import signingkeys
from alcove.apiserver.auth.certificates import PublicKey, issued_by
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.identity import Identity

log = logging.getLogger(__name__)

AUTHORITIES_KEPT_MAX = 64
"""Authorities of dedicated planes that are kept decoded."""


class ServerAddress(Struct, frozen=True):
    host: str
    port: int


class PlaneServer(Struct, frozen=True):
    """The API server of a plane, or several ones that share a store."""

    addresses: tuple[ServerAddress, ...]
    authority: str
    """Its certificate authorities, in PEM."""


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
        self._foreign: set[TenantId] = set()
        self._authorities: dict[TenantId, str] = {}
        """Of tenants that have or had a server of their own, in PEM."""
        self._token_keys: dict[str, tuple[TenantId, PublicKey]] = {}
        """By id: the keys of service account tokens that these servers have issued."""
        self._asleep: set[TenantId] = set()
        self._stopped: dict[TenantId, asyncio.Event] = {}
        """Set when the server runs, or the tenant has none any more."""

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
                    self._foreign.discard(TenantId(key.name))
                    self._set_credentials(TenantId(key.name), "", "")
                    self._set_sleep(TenantId(key.name), asleep=False, stopped=False)
                else:
                    self._set(event.entry.object)
        if has_changed:
            self._update_trust()

    def of(self, tenant: TenantId) -> PlaneServer | None:
        """None if this server serves the tenant."""
        return self._servers.get(tenant)

    def is_foreign(self, tenant: TenantId) -> bool:
        """Whether its objects are on an API server that ring0 does not run."""
        return tenant in self._foreign

    def is_asleep(self, tenant: TenantId) -> bool:
        """Whether it is asleep, and so its server stopped, or soon to be."""
        return tenant in self._asleep

    def is_stopped(self, tenant: TenantId) -> bool:
        return tenant in self._stopped

    async def running(self, tenant: TenantId) -> PlaneServer | None:
        """Waits until the tenant's server is not stopped; None if it has none any more."""
        while (stopped := self._stopped.get(tenant)) is not None:
            await stopped.wait()
        return self._servers.get(tenant)

    def check(self, der: bytes, identity: Identity) -> None:
        """Raises Unauthorized for a certificate of a plane's authority that is not of its tenant."""
        if not self._trusted:
            return
        certificate = x509.load_der_x509_certificate(der)
        if issued_by(certificate, self._own_authority):
            return
        authority = self._authorities.get(identity.tenant)
        if authority is None or not any(issued_by(certificate, each) for each in _decoded(authority)):
            raise Unauthorized(
                "Unauthorized: the client certificate's authority may not vouch for this tenant"
            )

    def token_key(self, id: str) -> tuple[TenantId, PublicKey] | None:
        """The key with this id, and the only tenant whose tokens it may have signed."""
        return self._token_keys.get(id)

    def _set(self, tenant: Object) -> None:
        name = TenantId(tenant["metadata"]["name"])
        observed = get(tenant, "status", "controlPlane", default=None) or {}
        if name != SYSTEM:
            authority, keys = (
                observed.get("certificateAuthority") or "",
                observed.get("serviceAccountKeys") or "",
            )
            self._set_credentials(name, authority, keys)
        server = _server(tenant)
        (self._foreign.add if is_foreign(tenant) else self._foreign.discard)(name)
        if server is None:
            self._servers.pop(name, None)
        elif server != self._servers.get(name) and name in self._authorities:
            self._servers[name] = server
        has_server = server is not None
        self._set_sleep(
            name, asleep=has_server and is_asleep(tenant), stopped=has_server and is_stopped(tenant)
        )

    def _set_credentials(self, tenant: TenantId, authority: str, keys: str) -> None:
        if authority != self._authorities.get(tenant, ""):
            self._authorities.pop(tenant, None)
            if authority and _is_valid(authority):
                self._authorities[tenant] = authority
        found = {signingkeys.key_id(key): (tenant, key) for key in _public_keys(keys)}
        if found or any(each == tenant for each, _ in self._token_keys.values()):
            others = {id: each for id, each in self._token_keys.items() if each[0] != tenant}
            self._token_keys = {**found, **others}

    def _set_sleep(self, tenant: TenantId, *, asleep: bool, stopped: bool) -> None:
        (self._asleep.add if asleep else self._asleep.discard)(tenant)
        if stopped:
            self._stopped.setdefault(tenant, asyncio.Event())
        elif (event := self._stopped.pop(tenant, None)) is not None:
            event.set()

    def _update_trust(self) -> None:
        """An authority is trusted as long as its tenant exists."""
        authorities = frozenset(self._authorities.values())
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


def _public_keys(keys: str) -> Sequence[PublicKey]:
    try:
        return list(signingkeys.read_public_keys("status.controlPlane.serviceAccountKeys", keys.encode()))
    except KeyFileError as error:
        log.warning("invalid keys of a dedicated plane; ignoring them", extra={"error": str(error)})
        return ()


def _server(tenant: Object) -> PlaneServer | None:
    status = tenant.get("status") or {}
    authority = get(status, "controlPlane", "certificateAuthority", default="")
    if not is_dedicated(tenant) or not authority or tenant["metadata"]["name"] == SYSTEM:
        return None
    urls = get(status, "controlPlane", "endpoints", default=()) or (status.get("endpoint") or "",)
    addresses = tuple(each for each in map(_address, urls) if each is not None)
    return PlaneServer(addresses, authority) if addresses else None


def _address(url: str) -> ServerAddress | None:
    try:
        parts = urlsplit(url)
        return ServerAddress(parts.hostname, parts.port or 443) if parts.hostname else None
    except ValueError:
        return None


@lru_cache(maxsize=AUTHORITIES_KEPT_MAX)
def _decoded(authority: str) -> Sequence[x509.Certificate]:
    """Raises ValueError."""
    return x509.load_pem_x509_certificates(authority.encode())
