"""Which networks this node has to see, and a view of each: made when the first pod of one is placed here, gone with the
last. What a network is made of may be away for a moment; what is plugged into it stays."""

from collections.abc import Callable, Iterable

from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.ring0 import Ring0View
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.view import NetworkView
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, PlaneId, TenantKey
from alcove.client.planes import Planes
from alcove.network.endpoints import PodNic
from alcove.network.providers.base import Providers

DesiredNetworks = dict[int, tuple[TenantKey, NetworkBacking]]


class NetworkViewSet:
    def __init__(
        self, planes: Planes, node: str, domain: str, providers: Providers, changed: Callable[[], None]
    ) -> None:
        self._planes = planes
        self._domain = domain
        self._changed = changed
        self.ring0 = Ring0View(planes, node, providers, changed)
        self.views: dict[int, NetworkView] = {}
        self._tenants: dict[TenantKey, TenantNetworkView] = {}
        self._bounced: dict[str, EndpointIndex] = {}
        self._lapsed: set[TenantKey] = set()
        """Tenants that we still look at, but without a pod that gives the right to."""

    async def follow(self, records: Iterable[AttachmentRecord]) -> None:
        """Looks at what pods here, and duties for others, make necessary, and at nothing else."""
        present = self.ring0.present()
        await self._begin_anew({self._space_of(nic) for nic in present.values()})
        desired = self._wanted(records, present)
        for vni in [vni for vni, view in self.views.items() if not _is_of(view, desired.get(vni))]:
            await self.views.pop(vni).close()
        for tenant_key in set(self._tenants) - {tenant_key for tenant_key, _ in desired.values()}:
            await self._forget(tenant_key)
        for vni, (tenant_key, backing) in desired.items():
            if vni in self.views:
                self.views[vni].rebase(backing)
                continue
            if tenant_key not in self._tenants:
                self._tenants[tenant_key] = TenantNetworkView(self._planes, tenant_key, self._changed)
            self.views[vni] = NetworkView(
                self._planes, self._tenants[tenant_key], backing, self._domain, self._changed
            )
        for tenant in self._tenants.values():
            await tenant.look_at_peers()
        await self._bounce()

    async def _begin_anew(self, alive: set[TenantKey]) -> None:
        """The API server shows a tenant to a node only while the tenant has a pod here. What was seen before a pause
        may be old, and it may take long until a watch is tried again: so it is looked at from the beginning."""
        for tenant_key in alive & self._lapsed:
            for vni in [vni for vni, view in self.views.items() if view.tenant.tenant_key == tenant_key]:
                await self.views.pop(vni).close()
            await self._forget(tenant_key)
        self._lapsed = (self._lapsed | set(self._tenants)) - alive

    async def _forget(self, tenant_key: TenantKey) -> None:
        tenant = self._tenants.pop(tenant_key, None)
        if tenant is not None:
            await tenant.close()

    def _wanted(self, records: Iterable[AttachmentRecord], present: dict[int, PodNic]) -> DesiredNetworks:
        found: DesiredNetworks = {}
        for record in records:
            for plug in record.plugs:
                self._add(found, TenantKey(record.key.plane, record.key.tenant), record.vpc, plug.vni)
        for vni, nic in present.items():
            self._add(found, self._space_of(nic), nic.vpc, vni)
        return found

    def _add(self, found: DesiredNetworks, tenant_key: TenantKey, vpc: str, vni: int) -> None:
        if vni in found:
            return
        backing = self.ring0.backing(vpc, vni) if tenant_key.plane in self._planes.ids() else None
        if backing is None and vni in self.views:
            tenant_key, backing = self.views[vni].tenant.tenant_key, self.views[vni].backing
        if backing is not None and backing.owner.tenant == tenant_key.tenant:
            found[vni] = (tenant_key, backing)

    def _space_of(self, nic: PodNic) -> TenantKey:
        """A dedicated tenant's plane has its name."""
        own = PlaneId(nic.pod.tenant)
        return TenantKey(own if own in self._planes.ids() else HOME, nic.pod.tenant)

    async def _bounce(self) -> None:
        nets = {net for duty in self.ring0.duties() for net in duty.nets}
        for net in [each for each in self._bounced if each not in nets]:
            await self._bounced.pop(net).close()
        for net in nets - set(self._bounced):
            self._bounced[net] = EndpointIndex(
                self._planes, f"spec.net={net}", lambda _holding: self._changed(), self._changed
            )

    def served(self) -> list[tuple[NetworkBacking, list[EndpointIndex]]]:
        """What this node knows for others. A network that is present here is known by its view already."""
        found: list[tuple[NetworkBacking, list[EndpointIndex]]] = []
        for duty in self.ring0.duties():
            backing = self.ring0.duty_backing(duty)
            if backing is not None and backing.vni not in self.views:
                found.append((backing, [self._bounced[net] for net in duty.nets if net in self._bounced]))
        return found

    def has_lapsed(self, tenant_key: TenantKey) -> bool:
        """Whether the tenant's last pod here is gone: nothing more will be seen of it."""
        return tenant_key in self._lapsed

    def present(self) -> dict[TenantKey, TenantNetworkView]:
        return dict(self._tenants)

    def tenant(self, plane: PlaneId, tenant: TenantId) -> TenantNetworkView | None:
        return self._tenants.get(TenantKey(plane, tenant))

    async def close(self) -> None:
        for view in self.views.values():
            await view.close()
        for tenant in self._tenants.values():
            await tenant.close()
        for holdings in self._bounced.values():
            await holdings.close()


def _is_of(view: NetworkView, desired: tuple[TenantKey, NetworkBacking] | None) -> bool:
    """Whether the view is of the network that is wanted: a VPC may have been another's before."""
    if desired is None:
        return False
    tenant_key, backing = desired
    return view.tenant.tenant_key == tenant_key and view.backing.owner == backing.owner
