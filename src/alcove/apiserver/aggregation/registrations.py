"""The group versions that a tenant's APIServices register for services, derived from the cache.

A group version that this server serves itself, by a built-in kind or a CRD, is never served by an APIService:
admission refuses to register it, and a CRD that ring0 shares later takes it over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import ALL, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES
from alcove.apiserver.paths import RequestTarget
from alcove.apiserver.reader import CacheReader, ServedKinds

TENANTS_KEPT_MAX = 4_096
"""Tenants whose tables are cached; beyond that, the oldest is dropped."""


class ExtensionServer(Struct, frozen=True):
    """The server of an APIService: where it is, and how its certificate is verified."""

    namespace: str
    service: str
    port: int
    authority: str
    """The CA bundle in base64; empty for the machine's authorities."""
    is_unverified: bool
    """Whether its certificate is not verified (`insecureSkipTLSVerify`)."""

    @property
    def name(self) -> str:
        """The name that its certificate must have."""
        return f"{self.service}.{self.namespace}.svc"


class Registration(Struct, frozen=True):
    """An APIService with a service."""

    name: str
    uid: str
    group: str
    version: str
    server: ExtensionServer
    group_priority: int
    version_priority: int
    is_available: bool

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}"


_ByVersion = Mapping[tuple[str, str], Registration]
_NONE: _ByVersion = {}


class _Table(Struct, frozen=True):
    generation: int
    kinds: Sequence[Kind]
    by_version: _ByVersion


class Registrations:
    def __init__(self, reader: CacheReader, kinds: ServedKinds) -> None:
        self._reader = reader
        self._kinds = kinds
        self._tables: dict[TenantId, _Table] = {}

    def find(self, tenant: TenantId, target: RequestTarget) -> Registration | None:
        """The registration of the group version that a path names; None if this server answers itself."""
        if target.is_resource:
            return self._of(tenant).get((target.group, target.version)) if target.group else None
        match target.path.split("/"):
            case ["", "apis", group, version]:
                return self._of(tenant).get((group, version))
        return None

    def every(self, tenant: TenantId) -> Sequence[Registration]:
        """All registrations of a tenant, by the names of their APIServices."""
        return tuple(self._of(tenant).values())

    def _of(self, tenant: TenantId) -> _ByVersion:
        generation = self._reader.generation(tenant, API_SERVICES)
        if not generation or tenant == ALL:
            return _NONE
        kinds = self._kinds.all(tenant)
        table = self._tables.get(tenant)
        if table is None or table.generation != generation or table.kinds is not kinds:
            if table is None and len(self._tables) >= TENANTS_KEPT_MAX:
                del self._tables[next(iter(self._tables))]
            local = {(kind.group, kind.version) for kind in kinds}
            found = map(_registration, self._reader.list(tenant, API_SERVICES))
            by_version = {
                (each.group, each.version): each
                for each in found
                if each is not None and (each.group, each.version) not in local
            }
            table = self._tables[tenant] = _Table(generation, kinds, by_version)
        return table.by_version


def has_service(obj: Object) -> bool:
    return objects.get(obj, "spec", "service") is not None


def group_version(obj: Object) -> tuple[str, str]:
    spec = obj.get("spec") or {}
    return spec.get("group", ""), spec.get("version", "")


def _registration(obj: Object) -> Registration | None:
    if not has_service(obj):
        return None
    spec = obj["spec"]
    service = spec["service"]
    server = ExtensionServer(
        service.get("namespace", ""),
        service.get("name", ""),
        service.get("port") or 443,
        spec.get("caBundle") or "",
        bool(spec.get("insecureSkipTLSVerify")),
    )
    return Registration(
        objects.name(obj),
        obj["metadata"].get("uid", ""),
        *group_version(obj),
        server,
        spec.get("groupPriorityMinimum", 0),
        spec.get("versionPriority", 0),
        is_available(obj),
    )


def is_available(obj: Object) -> bool:
    conditions = objects.get(obj, "status", "conditions", default=())
    return any(each.get("type") == "Available" and each.get("status") == "True" for each in conditions)
