"""The networks that this node needs, with a view of each: created with the first pod of a network on this
node, closed with the last. If a network's provider objects are missing for a moment, its attached pods stay
attached."""

from collections.abc import Callable, Iterable

from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.ring0 import Ring0View
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.tenant_work import TenantWork
from alcove.agent.network.view import NetworkView
from alcove.api.ids import TenantId
from alcove.client.keys import TenantKey
from alcove.client.planes import Planes
from alcove.dns.record_budget import RecordBudget
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
        self._work = TenantWork()
        self._budget = RecordBudget()
        self.ring0 = Ring0View(planes, node, providers, changed)
        self.views: dict[int, NetworkView] = {}
        self._tenants: dict[TenantKey, TenantNetworkView] = {}
        self._bounced: dict[str, EndpointIndex] = {}
        self._lapsed: set[TenantKey] = set()
        """Tenants that are still watched although they have no pod on this node any more."""

    def follow(self, records: Iterable[AttachmentRecord]) -> None:
        """Watches what the node's pods and duties require, and stops watching everything else."""
        present = self.ring0.present()
        self._restart_lapsed({self._tenant_key(nic.pod.tenant) for nic in present.values()})
        desired = self._desired(records, present)
        needed = {tenant_key for tenant_key, _ in desired.values()}
        for vni in [vni for vni, view in self.views.items() if not _is_of(view, desired.get(vni))]:
            if not self._move(vni, desired):
                self.views.pop(vni).close()
        needed |= {tenant_key for tenant_key, _ in desired.values()}
        for tenant_key in set(self._tenants) - needed:
            self._close_tenant(tenant_key)
        for vni, (tenant_key, backing) in desired.items():
            if vni in self.views:
                self.views[vni].rebase(backing)
                continue
            self.views[vni] = NetworkView(
                self._planes,
                self._tenant_view(tenant_key),
                backing,
                self._domain,
                self.ring0.allowed_destinations,
                self._changed,
                self._work,
                self._budget,
            )
        for tenant in self._tenants.values():
            tenant.watch_peers()
        self._watch_bounced()

    def _tenant_view(self, tenant_key: TenantKey) -> TenantNetworkView:
        if tenant_key not in self._tenants:
            self._tenants[tenant_key] = TenantNetworkView(self._planes, tenant_key, self._changed)
        return self._tenants[tenant_key]

    def _move(self, vni: int, desired: DesiredNetworks) -> bool:
        """If the network's tenant has moved to another plane: lets the view follow it as soon as everything is read from
        there, and keeps it until then, so that the data plane never lacks anything. Returns whether it has moved."""
        view, (tenant_key, backing) = self.views[vni], desired.get(vni, (None, None))
        if tenant_key is None or backing is None:
            return False
        if view.backing.owner != backing.owner or view.tenant.tenant_key.tenant != tenant_key.tenant:
            return False
        successor = self._tenant_view(tenant_key)
        if successor.is_synced():
            self.views[vni] = view.moved_to(successor)
        else:
            desired[vni] = (view.tenant.tenant_key, backing)
        return True

    def _restart_lapsed(self, alive: set[TenantKey]) -> None:
        """Closes views of tenants that have a pod here again. The API server lets a node read a tenant only
        while the tenant has a pod on it: what was read before may be stale, and the next retry of a watch may
        be far off."""
        for tenant_key in alive & self._lapsed:
            for vni in [vni for vni, view in self.views.items() if view.tenant.tenant_key == tenant_key]:
                self.views.pop(vni).close()
            self._close_tenant(tenant_key)
        self._lapsed = (self._lapsed | set(self._tenants)) - alive

    def _close_tenant(self, tenant_key: TenantKey) -> None:
        tenant = self._tenants.pop(tenant_key, None)
        if tenant is not None:
            tenant.close()

    def _desired(self, records: Iterable[AttachmentRecord], present: dict[int, PodNic]) -> DesiredNetworks:
        desired: DesiredNetworks = {}
        for record in records:
            for veth in record.plugs:
                self._add(desired, self._tenant_key(record.key.tenant), record.vpc, veth.vni)
        for vni, nic in present.items():
            self._add(desired, self._tenant_key(nic.pod.tenant), nic.vpc, vni)
        return desired

    def _add(self, desired: DesiredNetworks, tenant_key: TenantKey, vpc: str, vni: int) -> None:
        if vni in desired:
            return
        backing = self.ring0.backing(vpc, vni) if tenant_key.plane in self._planes.ids() else None
        if backing is None and vni in self.views:
            tenant_key, backing = self.views[vni].tenant.tenant_key, self.views[vni].backing
        if backing is not None and backing.owner.tenant == tenant_key.tenant:
            desired[vni] = (tenant_key, backing)

    def _tenant_key(self, tenant: TenantId) -> TenantKey:
        return TenantKey(self._planes.serving(tenant), tenant)

    def _watch_bounced(self) -> None:
        nets = {net for duty in self.ring0.duties() for net in duty.nets}
        for net in [each for each in self._bounced if each not in nets]:
            self._bounced.pop(net).close()
        for net in nets - set(self._bounced):
            self._bounced[net] = EndpointIndex(
                self._planes, f"spec.net={net}", lambda _allocation: self._changed(), self._changed
            )

    def served(self) -> list[tuple[NetworkBacking, list[EndpointIndex]]]:
        """The VPCs that this node bounces or divides, except those that have a view already."""
        served: list[tuple[NetworkBacking, list[EndpointIndex]]] = []
        for duty in self.ring0.duties():
            backing = self.ring0.duty_backing(duty)
            if backing is not None and backing.vni not in self.views:
                served.append((backing, [self._bounced[net] for net in duty.nets if net in self._bounced]))
        return served

    def has_lapsed(self, tenant_key: TenantKey) -> bool:
        """Whether the tenant's last pod on this node was deleted: no more changes will arrive."""
        return tenant_key in self._lapsed

    def present(self) -> dict[TenantKey, TenantNetworkView]:
        return dict(self._tenants)

    def tenant(self, tenant: TenantId) -> TenantNetworkView | None:
        found = self._tenants.get(self._tenant_key(tenant))
        before = (each for key, each in self._tenants.items() if key.tenant == tenant)
        return found if found is not None else next(before, None)

    def close(self) -> None:
        for view in self.views.values():
            view.close()
        for tenant in self._tenants.values():
            tenant.close()
        for index in self._bounced.values():
            index.close()
        self._work.close()


def _is_of(view: NetworkView, desired: tuple[TenantKey, NetworkBacking] | None) -> bool:
    """Whether the view is of the desired network: the VPC may have belonged to another network before."""
    if desired is None:
        return False
    tenant_key, backing = desired
    return view.tenant.tenant_key == tenant_key and view.backing.owner == backing.owner
