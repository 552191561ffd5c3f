"""A local copy of a resource's objects, over all planes and tenants, with indexes.

Informers write it, all others read. Objects are stored encoded and decoded for each reader: a decoded object
takes five times the memory, and a reader may modify its copy. What many objects have in common is stored once
(`api/shared_bodies.py`). Every lookup starts with plane and tenant, so
objects of two tenants are never mixed up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from time import perf_counter

import orjson

from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.client.changes import (
    ChangeType,
    Index,
    ObjectChange,
    Subscriber,
    Trim,
    call,
    without_managed_fields,
)
from alcove.client.client import ListSelection
from alcove.client.errors import ServerBehind
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey
from alcove.client.mirror_entries import Name
from alcove.client.plane_mirror import PlaneMirror, UntrustedPlane
from alcove.client.plane_objects import check_for
from alcove.client.plane_share import PlaneShare
from alcove.client.resources import CUSTOM_RESOURCE_DEFINITIONS, TENANTS
from alcove.client.watch_events import revision_of

CAUGHT_UP_SECONDS_MAX = 5.0
TURN_SECONDS = 0.001
"""For which existing objects are reported before other tasks run: at a start every controller does so."""
OWED_MAX = 64
"""Number of pending revisions at which those that the mirror has reached are removed."""

Keys = list[ObjectKey]
Objects = list[Object]
Spaces = list[TenantKey]


class Mirror:
    def __init__(
        self,
        selection: ListSelection,
        indexes: Mapping[str, Index] | None = None,
        trim: Trim = without_managed_fields,
        shard: TenantShard | None = None,
    ) -> None:
        """`shard`: the tenants whose objects of the home plane it has; None for all."""
        self.selection = selection
        self.shard = shard
        self._trim = trim
        self._indexes: list[Index] = []
        self._index_positions: dict[str, int] = {}
        self._all_tenants: set[int] = set()
        """Positions of the indexes that are searched over all tenants."""
        self._plane_mirrors: dict[PlaneId, PlaneMirror] = {}
        self._subscribers: list[Subscriber] = []
        self._owed: dict[tuple[PlaneId, TenantId], Revision] = {}
        self._owed_max = OWED_MAX
        self._silent: set[PlaneId] = set()
        """Planes whose changes are not reported to subscribers yet."""
        self._arriving: set[TenantId] = set()
        """Tenants that move to the home plane: their changes there are not reported yet."""
        for name, index in (indexes or {}).items():
            self.add_index(name, index)

    @property
    def resource(self) -> str:
        return str(self.selection.resource)

    # Reading

    def get(self, key: ObjectKey) -> Object | None:
        plane_mirror = self._plane_mirrors.get(key.plane)
        body = plane_mirror.get(key.tenant, (key.namespace, key.name)) if plane_mirror else None
        return orjson.loads(body) if body is not None else None

    def __contains__(self, key: ObjectKey) -> bool:
        plane_mirror = self._plane_mirrors.get(key.plane)
        return (
            plane_mirror is not None and plane_mirror.get(key.tenant, (key.namespace, key.name)) is not None
        )

    def keys(self, plane: PlaneId, tenant: TenantId, namespace: str | None = None) -> Keys:
        plane_mirror = self._plane_mirrors.get(plane)
        names = plane_mirror.names(tenant, namespace) if plane_mirror else []
        return [ObjectKey(plane, tenant, *name) for name in names]

    def list(self, plane: PlaneId, tenant: TenantId, namespace: str | None = None) -> Objects:
        plane_mirror = self._plane_mirrors.get(plane)
        return (
            self._decoded(plane_mirror, tenant, plane_mirror.names(tenant, namespace)) if plane_mirror else []
        )

    def find(self, index: str, plane: PlaneId, tenant: TenantId, value: str) -> Objects:
        """The tenant's objects with this value in the index."""
        plane_mirror = self._plane_mirrors.get(plane)
        names = plane_mirror.found(self._index_positions[index], tenant, value) if plane_mirror else []
        return self._decoded(plane_mirror, tenant, names) if plane_mirror else []

    def find_keys(self, index: str, plane: PlaneId, tenant: TenantId, value: str) -> Keys:
        plane_mirror = self._plane_mirrors.get(plane)
        names = plane_mirror.found(self._index_positions[index], tenant, value) if plane_mirror else []
        return [ObjectKey(plane, tenant, *name) for name in names]

    def find_keys_of_all(self, index: str, value: str) -> Iterator[ObjectKey]:
        """The objects of all planes and tenants with this value in an index for which `index_tenants` was called.
        The cost depends on their number only."""
        position = self._index_positions[index]
        for plane, plane_mirror in list(self._plane_mirrors.items()):
            for tenant in plane_mirror.tenants_with(position, value):
                for name in plane_mirror.found(position, tenant, value):
                    yield ObjectKey(plane, tenant, *name)

    def everything(self) -> Iterator[ObjectKey]:
        """The keys of all objects."""
        for plane, plane_mirror in list(self._plane_mirrors.items()):
            for tenant in plane_mirror.tenants():
                yield from self.keys(plane, tenant)

    def spaces(self) -> Spaces:
        """Every tenant of every plane that has objects in the mirror."""
        return [
            TenantKey(plane, tenant)
            for plane, plane_mirror in self._plane_mirrors.items()
            for tenant in plane_mirror.tenants()
        ]

    def count(self) -> int:
        return sum(plane_mirror.count() for plane_mirror in self._plane_mirrors.values())

    @staticmethod
    def _decoded(plane_mirror: PlaneMirror, tenant: TenantId, names: Iterable[Name]) -> Objects:
        bodies = (plane_mirror.get(tenant, name) for name in names)
        return [orjson.loads(body) for body in bodies if body is not None]

    # Subscribing

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call the subscriber with all existing objects as added, then with every change."""
        for key in self.everything():
            if not self._is_silent(key) and (obj := self.get(key)) is not None:
                call(subscriber, ObjectChange(ChangeType.ADDED, key, obj))
        self._subscribers.append(subscriber)

    async def subscribe_in_turns(self, *subscribers: Subscriber) -> None:
        """As `subscribe`, with other tasks in between: there may be millions of objects. An object that changes meanwhile is
        reported as changed before it is reported as added, with its newest state; one that is deleted is not added after that.
        Each object is decoded once for all of the subscribers."""
        self._subscribers += subscribers
        began = perf_counter()
        for key in self.everything():
            if not self._is_silent(key) and (obj := self.get(key)) is not None:
                change = ObjectChange(ChangeType.ADDED, key, obj)
                for subscriber in subscribers:
                    call(subscriber, change)
            if perf_counter() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = perf_counter()

    def _is_silent(self, key: ObjectKey) -> bool:
        return key.plane in self._silent or (key.plane == HOME and key.tenant in self._arriving)

    def _notify(self, change: ObjectChange) -> None:
        if not self._is_silent(change.key):
            for subscriber in self._subscribers:
                call(subscriber, change)

    def add_index(self, name: str, index: Index) -> None:
        """Add an index; does nothing if there is an index of this name."""
        if name in self._index_positions:
            return
        self._index_positions[name] = len(self._indexes)
        self._indexes.append(index)
        for plane_mirror in self._plane_mirrors.values():
            plane_mirror.add_index(index)

    def index_tenants(self, name: str) -> None:
        """Allow `find_keys_of_all` for an index."""
        position = self._index_positions[name]
        self._all_tenants.add(position)
        for plane_mirror in self._plane_mirrors.values():
            plane_mirror.index_tenants(position)

    # Freshness

    def owe(self, plane: PlaneId, tenant: TenantId, revision: Revision) -> None:
        """Record a write of this process: `caught_up` waits until the mirror has reached its revision."""
        if plane == HOME and self.shard is not None and tenant not in self.shard:
            return
        plane_mirror = self._plane_mirrors.get(plane)
        if plane_mirror is not None and plane_mirror.revision < revision and not self._is_filtered:
            self._owed[plane, tenant] = revision
            if len(self._owed) > self._owed_max:
                self._forget_reached()

    def _forget_reached(self) -> None:
        """Remove revisions that the mirror has reached: for deleted tenants no reader will ever wait."""
        self._owed = {
            (plane, tenant): revision
            for (plane, tenant), revision in self._owed.items()
            if plane in self._plane_mirrors and self._plane_mirrors[plane].revision < revision
        }
        self._owed_max = 2 * len(self._owed) + OWED_MAX

    def owes(self, plane: PlaneId, tenant: TenantId) -> bool:
        """Whether `caught_up` may have to wait."""
        return (plane, tenant) in self._owed

    @property
    def _is_filtered(self) -> bool:
        """Whether the mirror selects only some objects: a written object may never appear, so it is not
        waited for."""
        selection = self.selection
        return bool(selection.labels or selection.fields or selection.namespace)

    async def caught_up(self, plane: PlaneId, tenant: TenantId) -> None:
        """Wait until the mirror has received this process' own writes in the tenant.

        Raises ServerBehind after CAUGHT_UP_SECONDS_MAX.
        """
        owed = self._owed.get((plane, tenant))
        if owed is None:
            return
        plane_mirror = self._plane_mirrors.get(plane)
        if plane_mirror is not None and plane_mirror.revision < owed:
            try:
                async with asyncio.timeout(CAUGHT_UP_SECONDS_MAX):
                    await plane_mirror.reached(owed)
            except TimeoutError as error:
                raise ServerBehind(
                    f"{self.resource} of plane {plane} is at revision {plane_mirror.revision}, "
                    f"not yet at {owed}"
                ) from error
        if self._owed.get((plane, tenant)) == owed:
            del self._owed[plane, tenant]

    async def synced(self) -> None:
        """Wait until all joined planes are listed once."""
        for plane_mirror in list(self._plane_mirrors.values()):
            await plane_mirror.synced.wait()

    def is_synced(self, plane: PlaneId) -> bool:
        plane_mirror = self._plane_mirrors.get(plane)
        return plane_mirror is not None and plane_mirror.synced.is_set()

    # For Planes

    def add_plane(
        self,
        plane: PlaneId,
        is_silent: bool = False,
        share: PlaneShare | None = None,
        elsewhere: Collection[TenantId] = (),
    ) -> PlaneMirror:
        """Add a plane. If `is_silent`, its changes are not reported before `speak`. The home plane may have
        objects of all tenants that are not `elsewhere`, a dedicated plane only of the tenant with its name, the CRDs that it
        shares with it, and only what its share allows."""
        if is_silent:
            self._silent.add(plane)

        def accepts(tenant: TenantId, name: Name) -> bool:
            resource = self.selection.resource
            is_tenant = resource == TENANTS and name[1] == plane
            is_shared = resource == CUSTOM_RESOURCE_DEFINITIONS and tenant == SYSTEM
            if plane == HOME:
                return tenant not in elsewhere or tenant in self._arriving
            return plane == PlaneId(tenant) or is_tenant or is_shared

        untrusted = None
        if share is not None:
            selection = self.selection
            check = check_for(selection.resource, metadata_only=selection.metadata_only)
            untrusted = UntrustedPlane(share, check)
        plane_mirror = self._plane_mirrors[plane] = PlaneMirror(
            plane, self._trim, self._indexes, self._notify, accepts, untrusted
        )
        for position in self._all_tenants:
            plane_mirror.index_tenants(position)
        return plane_mirror

    def speak(self, plane: PlaneId) -> None:
        """Report the existing objects of a silent plane as added, and its changes from now on."""
        if plane in self._silent:
            self._silent.discard(plane)
            plane_mirror = self._plane_mirrors[plane]
            for tenant in list(plane_mirror.tenants()):
                for key in self.keys(plane, tenant):
                    if (obj := self.get(key)) is not None:
                        self._notify(ObjectChange(ChangeType.ADDED, key, obj))

    def begin_arrival(self, tenant: TenantId, *, is_silent: bool) -> None:
        """Accept the tenant's objects from the home plane. If `is_silent`, they are not reported before `arrived`."""
        if is_silent:
            self._arriving.add(tenant)
        self._plane_mirrors[HOME].begin_arrival(tenant)

    def arrive(self, tenant: TenantId, listed: Iterable[Object], at: Revision | None) -> None:
        """The tenant's objects on the home plane as they were at a revision; None: it has none."""
        self._plane_mirrors[HOME].arrive(tenant, [(each, revision_of(each)) for each in listed], at)

    def arrived(self, tenant: TenantId) -> None:
        """Report the tenant's objects on the home plane as added, if they were not."""
        self._plane_mirrors[HOME].end_arrival(tenant)
        if tenant in self._arriving:
            self._arriving.discard(tenant)
            for key in self.keys(HOME, tenant):
                if (obj := self.get(key)) is not None:
                    self._notify(ObjectChange(ChangeType.ADDED, key, obj))

    def forget_tenant(self, tenant: TenantId) -> None:
        """Report the tenant's objects on the home plane as deleted."""
        if HOME in self._plane_mirrors:
            self._plane_mirrors[HOME].forget_tenant(tenant)

    def remove_plane(self, plane: PlaneId) -> None:
        plane_mirror = self._plane_mirrors.get(plane)
        if plane_mirror is not None:
            plane_mirror.forget()
            del self._plane_mirrors[plane]
            self._silent.discard(plane)
            self._owed = {key: revision for key, revision in self._owed.items() if key[0] != plane}
