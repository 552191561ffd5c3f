"""The plane set: which API servers there are, a client for each, and the mirrors that span them.

    async with Planes() as planes:
        pods = planes.mirror(ListSelection(PODS))
        planes.join(HOME, transport)
        await planes.synced()

Planes join and leave at run time. A mirror has an informer per plane; when a plane leaves, its objects are
reported as deleted. A plane that cannot be reached stays joined: its informers keep retrying. Processes that
act on the absence of objects use `join_whole`: otherwise objects look deleted while the plane is only partly
listed. A dedicated plane has only the objects of the tenant with its name: mirrors ignore all others. Its API server
may be anybody's: what is read from it is checked (`plane_objects`) and bounded (`plane_share`).

While a tenant's own plane has joined, mirrors of all tenants ignore what the home plane has of it. When the tenant moves, its
objects are added on the one plane and deleted on the other at once, in this order and without waiting in between: whoever
looks at the mirrors finds them on one of the two at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType

from msgspec import Struct, structs

from alcove.api.errors import ApiError, Forbidden, NotFound
from alcove.api.ids import ALL, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.client.changes import Index, Trim, without_managed_fields
from alcove.client.client import DEDICATED, Client, ListSelection, Page, Permitted
from alcove.client.errors import ClientError, PlaneLeft
from alcove.client.informer import Informer
from alcove.client.keys import HOME, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.plane_share import PlaneShare, SharePool
from alcove.client.resources import CUSTOM_RESOURCE_DEFINITIONS, TENANTS, Resource
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks

log = logging.getLogger(__name__)

POLL_SECONDS = 0.05
ARRIVAL_SECONDS = 0.5


class _Plane(Struct):
    client: Client
    share: PlaneShare | None
    """None for the home plane."""
    informers: dict[Mirror, asyncio.Task[None]]


class _MirrorSpec(Struct, frozen=True):
    """The parameters of a mirror: equal requests share one."""

    selection: ListSelection
    tenant: TenantId
    trim: Trim
    only: PlaneId | None
    outlives_plane: bool


class Planes:
    def __init__(
        self,
        *,
        user_agent: str = "alcove",
        permitted: Permitted = lambda: None,
        fence: str = "",
        plane_fence: str = "",
        shard: TenantShard | None = None,
    ) -> None:
        """`permitted` is called before every write to any plane and raises if this process may not write.
        `fence` is sent with every write to the home plane, `plane_fence` with every write to others, and planes check
        it (`fencing`). `shard`: mirrors of all tenants have only these tenants' objects of the home plane."""
        self.user_agent = user_agent
        self.permitted = permitted
        self.shard = shard
        self._fence = fence
        self._plane_fence = plane_fence
        self._planes: dict[PlaneId, _Plane] = {}
        self._partial: set[PlaneId] = set()
        """Planes in `join_whole` whose objects are not all listed yet."""
        self.awaited: set[PlaneId] = set()
        """Planes that are to join or have joined (`plane_joining`): an unreachable plane is not a deleted
        one."""
        self._elsewhere: set[TenantId] = set()
        """Tenants whose own plane has joined, and is listed completely."""
        self._mirrors: dict[_MirrorSpec, Mirror] = {}
        self._by_resource: dict[Resource, list[Mirror]] = {}
        self._tasks = BackgroundTasks()
        self._share_pool = SharePool()

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
        """Start mirroring a plane. The caller owns the transport and closes it after the plane has left."""
        if plane in self._planes:
            raise ValueError(f"plane {plane} has already joined")

        def wrote(tenant: TenantId, resource: Resource, revision: Revision) -> None:
            for mirror in self._by_resource.get(resource, ()):
                mirror.owe(plane, tenant, revision)

        client = Client(
            transport,
            user_agent=self.user_agent,
            wrote=wrote,
            permitted=self.permitted,
            fence=self._fence if plane == HOME else self._plane_fence,
            limits=None if plane == HOME else DEDICATED,
        )
        share = None if plane == HOME else PlaneShare(self._share_pool)
        joined = self._planes[plane] = _Plane(client, share, {})
        for spec, mirror in self._mirrors.items():
            self._start(plane, joined, spec, mirror)
        return client

    def begin_join(self, plane: PlaneId, transport: Transport) -> Client:
        """The first part of `join_whole`: from now on there is a client of the plane."""
        self._partial.add(plane)
        return self.join(plane, transport)

    async def join_whole(self, plane: PlaneId, transport: Transport) -> Client:
        """As `join`, but mirrors report no changes of the plane before all of them have listed it completely.
        If cancelled, the plane stays joined."""
        try:
            client = self.client(plane) if plane in self._partial else self.begin_join(plane, transport)
            while not self.is_synced(plane):  # noqa: ASYNC110 - mirrors come and go meanwhile
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._partial.discard(plane)
        # From here on without waiting.
        self._elsewhere.add(TenantId(plane))
        for mirror in self.mirrors():
            mirror.speak(plane)
        for mirror in self._of_all_tenants():
            mirror.forget_tenant(TenantId(plane))
        return client

    def is_synced(self, plane: PlaneId) -> bool:
        """Whether every mirror has listed the plane once."""
        mirrors = [mirror for each, mirror in self._mirrors.items() if each.only in (None, plane)]
        return all(mirror.is_synced(plane) for mirror in mirrors)

    async def leave(self, plane: PlaneId) -> None:
        """Report the plane's objects as deleted, after those that its tenant has on the home plane, if it has moved there,
        are reported as added. Returns when no request to the plane is under way."""
        tenant = TenantId(plane)
        arriving = await self._arrive(tenant) if HOME in self._planes else []
        # From here on without waiting.
        self._elsewhere.discard(tenant)
        for mirror in arriving:
            mirror.arrived(tenant)
        left = self._planes.pop(plane)
        staying = {mirror for spec, mirror in self._mirrors.items() if spec.outlives_plane}
        for mirror, task in left.informers.items():
            task.cancel()
            if mirror not in staying:
                mirror.remove_plane(plane)
        if left.informers:
            await asyncio.wait(left.informers.values())
        if left.share is not None:
            left.share.leave()

    async def _arrive(self, tenant: TenantId) -> list[Mirror]:
        """Read what the tenant has on the home plane into the mirrors of all tenants. Those that ignored it do not report
        it yet. The home plane's watches may have brought it already, or bring it later."""
        mirrors = self._of_all_tenants()
        for mirror in mirrors:
            mirror.begin_arrival(tenant, is_silent=tenant in self._elsewhere)
        for mirror in mirrors:
            while not await self._list_arriving(tenant, mirror):  # noqa: ASYNC110 - nothing tells when to retry
                await asyncio.sleep(ARRIVAL_SECONDS)
        return mirrors

    async def _list_arriving(self, tenant: TenantId, mirror: Mirror) -> bool:
        listed: list[Object] = []
        page: Page | None = None
        try:
            while page is None or page.continue_:
                start = page.continue_ if page is not None else ""
                page = await self.client(HOME).page(tenant, mirror.selection, continue_=start)
                listed += page.items
        except (Forbidden, NotFound):
            mirror.arrive(
                tenant, [], None
            )  # The tenant was deleted, is on a foreign plane, or has no such resource.
        except (ApiError, ClientError) as error:
            fields = {"tenant": tenant, "resource": mirror.resource, "error": str(error)}
            log.info("failed to list what has moved to the home plane; retrying", extra=fields)
            return False
        else:
            mirror.arrive(tenant, listed, page.revision)
        return True

    def _of_all_tenants(self) -> list[Mirror]:
        """The mirrors that have all tenants' objects of the home plane."""
        return [
            mirror
            for spec, mirror in self._mirrors.items()
            if spec.tenant == ALL and spec.only in (None, HOME) and spec.selection.resource != TENANTS
        ]

    def serving(self, tenant: TenantId) -> PlaneId:
        """The plane that has the tenant's objects, as far as this process knows."""
        plane = PlaneId(tenant)
        return plane if plane in self._planes and plane not in self._partial else HOME

    def tenant_client(self, tenant: TenantId) -> Client:
        return self.client(self.serving(tenant))

    def client(self, plane: PlaneId) -> Client:
        """Raises PlaneLeft."""
        joined = self._planes.get(plane)
        if joined is None:
            raise PlaneLeft(f"plane {plane} has left")
        return joined.client

    def share(self, plane: PlaneId) -> PlaneShare | None:
        """What a dedicated plane may have of this process; None for the home plane, and for planes that have left."""
        joined = self._planes.get(plane)
        return joined.share if joined is not None else None

    def ids(self) -> list[PlaneId]:
        """The joined planes, except those in `join_whole` that are not completely listed."""
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
        outlives_plane: bool = False,
    ) -> Mirror:
        """Return the mirror for these parameters; equal requests share one, and their indexes are merged by
        name.

        `only` limits the mirror to one plane, for a resource that other planes may not serve. If it `outlives_plane`, it
        keeps what it has when this plane leaves, until it is dropped: the tenant may go on elsewhere.
        """
        spec = _MirrorSpec(selection, tenant, trim, only, outlives_plane)
        mirror = self._mirrors.get(spec)
        if mirror is None:
            shard = self._shard_of(selection.resource) if tenant == ALL else None
            mirror = self._mirrors[spec] = Mirror(selection, indexes, trim, shard)
            self._by_resource.setdefault(selection.resource, []).append(mirror)
            for plane, joined in self._planes.items():
                self._start(plane, joined, spec, mirror)
        for name, index in (indexes or {}).items():
            mirror.add_index(name, index)
        return mirror

    def _shard_of(self, resource: Resource) -> TenantShard | None:
        """Of the tenants whose objects a mirror of the resource has. Ring0 has all Tenants, and kinds that all tenants
        have: every shard needs those."""
        if self.shard is None or resource == TENANTS:
            return None
        return structs.replace(self.shard, with_system=resource == CUSTOM_RESOURCE_DEFINITIONS)

    def whole_mirror(self, resource: Resource) -> Mirror | None:
        """The mirror of all tenants' whole objects of a resource; None if nobody has asked for one."""
        return self._mirrors.get(
            _MirrorSpec(ListSelection(resource), ALL, without_managed_fields, None, False)
        )

    def drop(self, mirror: Mirror) -> None:
        """Stop a mirror that is no longer used; its objects are reported as deleted.

        All of it happens now: an equal request that follows must get another mirror, and not one that is about to
        stop."""
        self._mirrors = {spec: other for spec, other in self._mirrors.items() if other is not mirror}
        self._by_resource[mirror.selection.resource].remove(mirror)
        for plane, joined in self._planes.items():
            if task := joined.informers.pop(mirror, None):
                task.cancel()
                mirror.remove_plane(plane)

    def mirrors(self) -> list[Mirror]:
        return list(self._mirrors.values())

    async def synced(self) -> None:
        """Wait until every mirror has listed every plane once."""
        for mirror in self.mirrors():
            await mirror.synced()

    def _start(self, plane: PlaneId, joined: _Plane, spec: _MirrorSpec, mirror: Mirror) -> None:
        if spec.only not in (None, plane):
            return
        elsewhere = self._elsewhere if spec.tenant == ALL and mirror.selection.resource != TENANTS else ()
        plane_mirror = mirror.add_plane(plane, plane in self._partial, joined.share, elsewhere)
        shard = mirror.shard if plane == HOME else None
        informer = Informer(joined.client, mirror, plane_mirror, spec.tenant, joined.share, shard)
        name = f"informer {plane} {mirror.resource}"
        joined.informers[mirror] = self._tasks.fatal(name, informer.run())
