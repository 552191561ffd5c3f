"""The plane set: which API servers there are, a client for each, and the mirrors that span them.

    async with Planes() as planes:
        pods = planes.mirror(Selection(PODS))
        planes.join(HOME, transport)
        await planes.synced()

Planes join and leave while everything runs. A mirror has an informer per plane; when a plane leaves,
its objects are told as deleted. A plane that cannot be reached stays: its informers go on trying. Who acts
on what mirrors tell lets a plane join whole: else, while some of it is listed, the rest looks as if it were gone.
A plane other than home speaks for the tenant whose name it has: whatever else is there, mirrors do not show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType

from msgspec import Struct

from alcove.api.ids import ALL, Revision, TenantId
from alcove.client.changes import Index, Trim, without_managed_fields
from alcove.client.client import Client, ListSelection, Permitted
from alcove.client.errors import PlaneLeft
from alcove.client.informer import Informer
from alcove.client.keys import PlaneId
from alcove.client.mirror import Mirror
from alcove.client.resources import Resource
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks

WHOLE_SECONDS = 0.05


class _Plane(Struct):
    client: Client
    informers: dict[Mirror, asyncio.Task[None]]


class _Wanted(Struct, frozen=True):
    """What makes two mirrors the same."""

    selection: ListSelection
    tenant: TenantId
    trim: Trim
    only: PlaneId | None


class Planes:
    def __init__(
        self, *, user_agent: str = "alcove", permitted: Permitted = lambda: None, fence: str = ""
    ) -> None:
        """`permitted` is asked before every write to any plane; it raises where this process may not.
        `fence` is what planes hold every write against (`fencing`)."""
        self.user_agent = user_agent
        self.permitted = permitted
        self._fence = fence
        self._planes: dict[PlaneId, _Plane] = {}
        self._partial: set[PlaneId] = set()
        """Planes that join whole, and are not yet."""
        self.awaited: set[PlaneId] = set()
        """Planes that are to join, or have (`joining`): one that is away is not one that is no more."""
        self._mirrors: dict[_Wanted, Mirror] = {}
        self._by_resource: dict[Resource, list[Mirror]] = {}
        self._tasks = BackgroundTasks()

    async def __aenter__(self) -> Planes:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for plane in self._planes.values():
            for task in plane.informers.values():
                task.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    # Planes

    def join(self, plane: PlaneId, transport: Transport) -> Client:
        """The transport stays the caller's: it closes it after the plane has left."""
        if plane in self._planes:
            raise ValueError(f"the plane {plane} has joined already")

        def wrote(tenant: TenantId, resource: Resource, revision: Revision) -> None:
            for mirror in self._by_resource.get(resource, ()):
                mirror.owe(plane, tenant, revision)

        client = Client(
            transport,
            user_agent=self.user_agent,
            wrote=wrote,
            permitted=self.permitted,
            fence=self._fence,
        )
        joined = self._planes[plane] = _Plane(client, {})
        for wanted, mirror in self._mirrors.items():
            self._start(plane, joined, wanted, mirror)
        return client

    async def join_whole(self, plane: PlaneId, transport: Transport) -> Client:
        """As `join`, but mirrors tell nothing of the plane before all of them have all of it. Cancelled, the
        plane has joined nevertheless."""
        self._partial.add(plane)
        try:
            client = self.join(plane, transport)
            while not self.is_synced(plane):  # noqa: ASYNC110 - mirrors come and go meanwhile
                await asyncio.sleep(WHOLE_SECONDS)
        finally:
            self._partial.discard(plane)
        for mirror in self.mirrors():
            mirror.speak(plane)
        return client

    def is_synced(self, plane: PlaneId) -> bool:
        """Whether every mirror has listed the plane once."""
        wanted = [mirror for each, mirror in self._mirrors.items() if each.only in (None, plane)]
        return all(mirror.is_synced(plane) for mirror in wanted)

    async def leave(self, plane: PlaneId) -> None:
        left = self._planes.pop(plane)
        for mirror, task in left.informers.items():
            await _stop(task)
            mirror.remove_plane(plane)

    def client(self, plane: PlaneId) -> Client:
        """Raises PlaneLeft."""
        joined = self._planes.get(plane)
        if joined is None:
            raise PlaneLeft(f"the plane {plane} has left")
        return joined.client

    def ids(self) -> list[PlaneId]:
        """Those that have joined, without what is not yet whole."""
        return [plane for plane in self._planes if plane not in self._partial]

    def __contains__(self, plane: PlaneId) -> bool:
        return plane in self._planes

    # Mirrors

    def mirror(
        self,
        selection: ListSelection,
        indexes: Mapping[str, Index] | None = None,
        *,
        tenant: TenantId = ALL,
        trim: Trim = without_managed_fields,
        only: PlaneId | None = None,
    ) -> Mirror:
        """One mirror for all who ask for the same; their indexes are joined by name.

        `only` one plane, for a resource that the others may not have.
        """
        wanted = _Wanted(selection, tenant, trim, only)
        mirror = self._mirrors.get(wanted)
        if mirror is None:
            mirror = self._mirrors[wanted] = Mirror(selection, indexes, trim)
            self._by_resource.setdefault(selection.resource, []).append(mirror)
            for plane, joined in self._planes.items():
                self._start(plane, joined, wanted, mirror)
        for name, index in (indexes or {}).items():
            mirror.add_index(name, index)
        return mirror

    async def drop(self, mirror: Mirror) -> None:
        """Stops a mirror that nobody reads any more; its objects are told as deleted."""
        self._mirrors = {wanted: kept for wanted, kept in self._mirrors.items() if kept is not mirror}
        self._by_resource[mirror.selection.resource].remove(mirror)
        for plane, joined in self._planes.items():
            if task := joined.informers.pop(mirror, None):
                await _stop(task)
                mirror.remove_plane(plane)

    def mirrors(self) -> list[Mirror]:
        return list(self._mirrors.values())

    async def synced(self) -> None:
        """Waits until every mirror has listed every plane once."""
        for mirror in self.mirrors():
            await mirror.synced()

    def _start(self, plane: PlaneId, joined: _Plane, wanted: _Wanted, mirror: Mirror) -> None:
        if wanted.only not in (None, plane):
            return
        part = mirror.add_plane(plane, is_silent=plane in self._partial)
        informer = Informer(joined.client, mirror, part, wanted.tenant)
        name = f"informer {plane} {mirror.resource}"
        joined.informers[mirror] = self._tasks.fatal(name, informer.run())


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
