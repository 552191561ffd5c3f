"""Which networks this node has to see, and a view of each: made when the first pod of one is placed here, gone with the
last. What a network is made of may be away for a moment; what is plugged into it stays."""

from collections.abc import Callable, Iterable

from alcove.agent.network.fabric import Backing
from alcove.agent.network.holdings import Holdings
from alcove.agent.network.records import Record
from alcove.agent.network.ring0 import Ring0
from alcove.agent.network.tenant import Tenant
from alcove.agent.network.view import View
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, PlaneId, Space
from alcove.client.planes import Planes
from alcove.network.endpoints import Nic
from alcove.network.providers.base import Providers

Wanted = dict[int, tuple[Space, Backing]]


class Sight:
    def __init__(
        self, planes: Planes, node: str, domain: str, providers: Providers, changed: Callable[[], None]
    ) -> None:
        self._planes = planes
        self._domain = domain
        self._changed = changed
        self.ring0 = Ring0(planes, node, providers, changed)
        self.views: dict[int, View] = {}
        self._tenants: dict[Space, Tenant] = {}
        self._bounced: dict[str, Holdings] = {}
        self._lapsed: set[Space] = set()
        """Tenants that we still look at, but without a pod that gives the right to."""

    async def follow(self, records: Iterable[Record]) -> None:
        """Looks at what pods here, and duties for others, make necessary, and at nothing else."""
        present = self.ring0.present()
        await self._begin_anew({self._space_of(nic) for nic in present.values()})
        wanted = self._wanted(records, present)
        for vni in [vni for vni, view in self.views.items() if not _is_of(view, wanted.get(vni))]:
            await self.views.pop(vni).close()
        for space in set(self._tenants) - {space for space, _ in wanted.values()}:
            await self._forget(space)
        for vni, (space, backing) in wanted.items():
            if vni in self.views:
                self.views[vni].rebase(backing)
                continue
            if space not in self._tenants:
                self._tenants[space] = Tenant(self._planes, space, self._changed)
            self.views[vni] = View(self._planes, self._tenants[space], backing, self._domain, self._changed)
        for tenant in self._tenants.values():
            await tenant.look_at_peers()
        await self._bounce()

    async def _begin_anew(self, alive: set[Space]) -> None:
        """The API server shows a tenant to a node only while the tenant has a pod here. What was seen before a pause
        may be old, and it may take long until a watch is tried again: so it is looked at from the beginning."""
        for space in alive & self._lapsed:
            for vni in [vni for vni, view in self.views.items() if view.tenant.space == space]:
                await self.views.pop(vni).close()
            await self._forget(space)
        self._lapsed = (self._lapsed | set(self._tenants)) - alive

    async def _forget(self, space: Space) -> None:
        tenant = self._tenants.pop(space, None)
        if tenant is not None:
            await tenant.close()

    def _wanted(self, records: Iterable[Record], present: dict[int, Nic]) -> Wanted:
        found: Wanted = {}
        for record in records:
            for plug in record.plugs:
                self._add(found, Space(record.key.plane, record.key.tenant), record.vpc, plug.vni)
        for vni, nic in present.items():
            self._add(found, self._space_of(nic), nic.vpc, vni)
        return found

    def _add(self, found: Wanted, space: Space, vpc: str, vni: int) -> None:
        if vni in found:
            return
        backing = self.ring0.backing(vpc, vni) if space.plane in self._planes.ids() else None
        if backing is None and vni in self.views:
            space, backing = self.views[vni].tenant.space, self.views[vni].backing
        if backing is not None and backing.owner.tenant == space.tenant:
            found[vni] = (space, backing)

    def _space_of(self, nic: Nic) -> Space:
        """A dedicated tenant's plane has its name."""
        own = PlaneId(nic.pod.tenant)
        return Space(own if own in self._planes.ids() else HOME, nic.pod.tenant)

    async def _bounce(self) -> None:
        nets = {net for duty in self.ring0.duties() for net in duty.nets}
        for net in [each for each in self._bounced if each not in nets]:
            await self._bounced.pop(net).close()
        for net in nets - set(self._bounced):
            self._bounced[net] = Holdings(
                self._planes, f"spec.net={net}", lambda _holding: self._changed(), self._changed
            )

    def served(self) -> list[tuple[Backing, list[Holdings]]]:
        """What this node knows for others. A network that is present here is known by its view already."""
        found: list[tuple[Backing, list[Holdings]]] = []
        for duty in self.ring0.duties():
            backing = self.ring0.duty_backing(duty)
            if backing is not None and backing.vni not in self.views:
                found.append((backing, [self._bounced[net] for net in duty.nets if net in self._bounced]))
        return found

    def has_lapsed(self, space: Space) -> bool:
        """Whether the tenant's last pod here is gone: nothing more will be seen of it."""
        return space in self._lapsed

    def present(self) -> dict[Space, Tenant]:
        return dict(self._tenants)

    def tenant(self, plane: PlaneId, tenant: TenantId) -> Tenant | None:
        return self._tenants.get(Space(plane, tenant))

    async def close(self) -> None:
        for view in self.views.values():
            await view.close()
        for tenant in self._tenants.values():
            await tenant.close()
        for holdings in self._bounced.values():
            await holdings.close()


def _is_of(view: View, wanted: tuple[Space, Backing] | None) -> bool:
    """Whether the view is of the network that is wanted: a VPC may have been another's before."""
    if wanted is None:
        return False
    space, backing = wanted
    return view.tenant.space == space and view.backing.owner == backing.owner
