"""Revoked client certificates: `spec.revokedCertificates` of a Tenant, which only ring0 writes.

An entry names a certificate by its serial number, or all certificates that a user (without `user`: every user
of the tenant) was issued before a time. The lists are read from the cache at every request, and open connections
are closed when a list changes (`RevokedConnections`), so a revocation is effective at once, also for watches and
streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.api.resources import TENANTS
from alcove.apiserver.auth.clientcert import CertificateIdentity
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent

LISTS_MAX = 1_024
"""Tenants whose lists are kept in parsed form."""
_EVERY_USER = ""


class RevocationList(Struct, frozen=True):
    issued_before: dict[str, float]
    """By user; `_EVERY_USER` for all of them."""
    serials: frozenset[int]

    @classmethod
    def of(cls, entries: Sequence[Object]) -> RevocationList:
        issued_before: dict[str, float] = {}
        serials = set()
        for entry in entries:
            if serial := entry.get("serialNumber"):
                serials.add(int(serial.replace(":", ""), 16))
            else:
                user = entry.get("user") or _EVERY_USER
                moment = meta.parse_time(entry["issuedBefore"])
                issued_before[user] = max(moment, issued_before.get(user, 0.0))
        return cls(issued_before, frozenset(serials))

    def has(self, identity: CertificateIdentity) -> bool:
        bounds = (self.issued_before.get(_EVERY_USER, 0.0), self.issued_before.get(identity.user, 0.0))
        return identity.issued < max(bounds) or identity.serial in self.serials


class Revocations:
    """The lists in parsed form."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[Sequence[Object], RevocationList]] = {}

    def has(self, tenant: Object, identity: CertificateIdentity) -> bool:
        """Whether the certificate is on the list of its Tenant object."""
        entries = get(tenant, "spec", "revokedCertificates")
        return bool(entries) and self._list(identity.tenant, entries).has(identity)

    def _list(self, tenant: str, entries: Sequence[Object]) -> RevocationList:
        cached = self._parsed.get(tenant)
        # The same object in the cache: its list has not changed.
        if cached is None or cached[0] is not entries:
            if len(self._parsed) >= LISTS_MAX:
                self._parsed.clear()
            cached = self._parsed[tenant] = (entries, RevocationList.of(entries))
        return cached[1]


class _Server(Protocol):
    def close_peers(self, selects: Callable[[object], bool]) -> int: ...


class RevokedConnections:
    """Closes the open connections of certificates that are revoked."""

    def __init__(self) -> None:
        self._close: Callable[[], object] | None = None

    def serve(self, server: _Server, is_revoked: Callable[[CertificateIdentity], bool]) -> None:
        def selects(peer: object) -> bool:
            return isinstance(peer, CertificateIdentity) and is_revoked(peer)

        self._close = lambda: server.close_peers(selects)

    def notice(self, events: Iterable[CacheEvent]) -> None:
        """Called with every change of objects, after the cache has it."""
        if self._close is not None and any(map(_changes_list, events)):
            self._close()


def _changes_list(event: CacheEvent) -> bool:
    if event.entry.key.resource != TENANTS:
        return False
    return bool(_entries(event.entry) != _entries(event.previous))


def _entries(entry: CacheEntry | None) -> Any:
    return None if entry is None else get(entry.object, "spec", "revokedCertificates")
