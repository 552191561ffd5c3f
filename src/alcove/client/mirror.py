"""A local copy of a resource's objects, over all planes and tenants, with indexes.

Informers write it, everybody else reads. Objects are kept encoded and decoded anew for each reader: a
decoded object takes five times the memory, and what a reader gets is its own to change. Everything is
found by plane and tenant first, so two tenants' objects are never mixed up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

import orjson

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
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
from alcove.client.plane_mirror import Name, PlaneMirror
from alcove.client.resources import TENANTS

CAUGHT_UP_SECONDS_MAX = 5.0
OWED_MAX = 64
"""So many debts are noted before those that were paid are looked for."""

Keys = list[ObjectKey]
Objects = list[Object]
Spaces = list[TenantKey]


class Mirror:
    def __init__(
        self,
        selection: ListSelection,
        indexes: Mapping[str, Index] | None = None,
        trim: Trim = without_managed_fields,
    ) -> None:
        self.selection = selection
        self._trim = trim
        self._indexes: list[Index] = []
        self._places: dict[str, int] = {}
        self._parts: dict[PlaneId, PlaneMirror] = {}
        self._subscribers: list[Subscriber] = []
        self._owed: dict[tuple[PlaneId, TenantId], Revision] = {}
        self._owed_max = OWED_MAX
        self._silent: set[PlaneId] = set()
        """Planes of which nothing is told yet."""
        for name, index in (indexes or {}).items():
            self.add_index(name, index)

    @property
    def resource(self) -> str:
        return str(self.selection.resource)

    # Reading

    def get(self, key: ObjectKey) -> Object | None:
        part = self._parts.get(key.plane)
        body = part.get(key.tenant, (key.namespace, key.name)) if part else None
        return orjson.loads(body) if body is not None else None

    def __contains__(self, key: ObjectKey) -> bool:
        part = self._parts.get(key.plane)
        return part is not None and part.get(key.tenant, (key.namespace, key.name)) is not None

    def keys(self, plane: PlaneId, tenant: TenantId, namespace: str | None = None) -> Keys:
        part = self._parts.get(plane)
        names = part.names(tenant, namespace) if part else []
        return [ObjectKey(plane, tenant, *name) for name in names]

    def list(self, plane: PlaneId, tenant: TenantId, namespace: str | None = None) -> Objects:
        part = self._parts.get(plane)
        return self._decoded(part, tenant, part.names(tenant, namespace)) if part else []

    def find(self, index: str, plane: PlaneId, tenant: TenantId, value: str) -> Objects:
        """The tenant's objects that have this value in an index."""
        part = self._parts.get(plane)
        names = part.found(self._places[index], tenant, value) if part else []
        return self._decoded(part, tenant, names) if part else []

    def find_keys(self, index: str, plane: PlaneId, tenant: TenantId, value: str) -> Keys:
        part = self._parts.get(plane)
        names = part.found(self._places[index], tenant, value) if part else []
        return [ObjectKey(plane, tenant, *name) for name in names]

    def everything(self) -> Iterator[ObjectKey]:
        """The keys of all objects, of a moment."""
        for plane, part in list(self._parts.items()):
            for tenant in part.tenants():
                yield from self.keys(plane, tenant)

    def spaces(self) -> Spaces:
        """Every tenant of every plane that has objects here."""
        return [TenantKey(plane, tenant) for plane, part in self._parts.items() for tenant in part.tenants()]

    def count(self) -> int:
        return sum(part.count() for part in self._parts.values())

    @staticmethod
    def _decoded(part: PlaneMirror, tenant: TenantId, names: Iterable[Name]) -> Objects:
        bodies = (part.get(tenant, name) for name in names)
        return [orjson.loads(body) for body in bodies if body is not None]

    # Being told

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls it with every change from now on, and first with what is here, as added."""
        for key in self.everything():
            if key.plane not in self._silent and (obj := self.get(key)) is not None:
                call(subscriber, ObjectChange(ChangeType.ADDED, key, obj))
        self._subscribers.append(subscriber)

    def _tell(self, change: ObjectChange) -> None:
        if change.key.plane not in self._silent:
            for subscriber in self._subscribers:
                call(subscriber, change)

    def add_index(self, name: str, index: Index) -> None:
        """Adding one that is there already, by its name, changes nothing."""
        if name in self._places:
            return
        self._places[name] = len(self._indexes)
        self._indexes.append(index)
        for part in self._parts.values():
            part.add_index(index)

    # Freshness

    def owe(self, plane: PlaneId, tenant: TenantId, revision: Revision) -> None:
        """This process wrote such an object: a reader who waits for `caught_up` will see it."""
        part = self._parts.get(plane)
        if part is not None and part.revision < revision and not self._is_filtered:
            self._owed[plane, tenant] = revision
            if len(self._owed) > self._owed_max:
                self._forget_paid()

    def _forget_paid(self) -> None:
        """What has come meanwhile, and nobody waited for: of tenants that are gone nobody ever will."""
        self._owed = {
            (plane, tenant): revision
            for (plane, tenant), revision in self._owed.items()
            if plane in self._parts and self._parts[plane].revision < revision
        }
        self._owed_max = 2 * len(self._owed) + OWED_MAX

    def owes(self, plane: PlaneId, tenant: TenantId) -> bool:
        """Whether `caught_up` could have to wait."""
        return (plane, tenant) in self._owed

    @property
    def _is_filtered(self) -> bool:
        """What was written may not be selected, and would be waited for in vain."""
        selection = self.selection
        return bool(selection.labels or selection.fields or selection.namespace)

    async def caught_up(self, plane: PlaneId, tenant: TenantId) -> None:
        """Waits until this process' own writes in the tenant are seen. Raises Behind after some seconds."""
        owed = self._owed.get((plane, tenant))
        if owed is None:
            return
        part = self._parts.get(plane)
        if part is not None and part.revision < owed:
            try:
                async with asyncio.timeout(CAUGHT_UP_SECONDS_MAX):
                    await part.reached(owed)
            except TimeoutError as error:
                raise ServerBehind(
                    f"{self.resource} of {plane} is at {part.revision}, not yet at {owed}"
                ) from error
        if self._owed.get((plane, tenant)) == owed:
            del self._owed[plane, tenant]

    async def synced(self) -> None:
        """Waits until all planes that have joined are listed once."""
        for part in list(self._parts.values()):
            await part.synced.wait()

    def is_synced(self, plane: PlaneId) -> bool:
        part = self._parts.get(plane)
        return part is not None and part.synced.is_set()

    # The plane set's side

    def add_plane(self, plane: PlaneId, is_silent: bool = False) -> PlaneMirror:
        """`is_silent`: nothing of it is told before `speak`. The home plane speaks for everybody, any other
        for the tenant whose name it has."""
        if is_silent:
            self._silent.add(plane)

        def accepts(tenant: TenantId, name: Name) -> bool:
            is_tenant = self.selection.resource == TENANTS and name[1] == plane
            return plane in (HOME, tenant) or is_tenant

        part = self._parts[plane] = PlaneMirror(plane, self._trim, self._indexes, self._tell, accepts)
        return part

    def speak(self, plane: PlaneId) -> None:
        """What is here of the plane is told, as added."""
        if plane in self._silent:
            self._silent.discard(plane)
            part = self._parts[plane]
            for tenant in list(part.tenants()):
                for key in self.keys(plane, tenant):
                    if (obj := self.get(key)) is not None:
                        self._tell(ObjectChange(ChangeType.ADDED, key, obj))

    def remove_plane(self, plane: PlaneId) -> None:
        part = self._parts.get(plane)
        if part is not None:
            part.forget()
            del self._parts[plane]
            self._silent.discard(plane)
            self._owed = {key: revision for key, revision in self._owed.items() if key[0] != plane}
