"""One network as this node sees it: its endpoints, services, policy rules and DNS names.

It is notified of changes. DNS names are updated immediately, unless they take long, everything else when it is read.
What has not changed is the same tuple as before.
"""

import hashlib
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address

from alcove.agent.network.dns_names import DnsNames
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policy_rules import PolicyRules
from alcove.agent.network.ring0_objects import NetworkBacking, Nodes
from alcove.agent.network.services import NodePerspective
from alcove.agent.network.servicetable import ServiceTable
from alcove.agent.network.tenant_view import TenantChange, TenantNetworkView, services_of
from alcove.agent.network.tenant_work import TenantWork
from alcove.api import destinations, objects
from alcove.api.ids import TenantId
from alcove.api.kinds.mizar import GATEWAY, SIMPLE
from alcove.client.changes import ObjectChange
from alcove.client.planes import Planes
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import DataplaneNetwork, Gateway, RemoteEndpoint
from alcove.dns.record_budget import RecordBudget
from alcove.network.endpoints import EndpointAllocation
from alcove.network.service_ranges import usable_service_ranges


def account_of(tenant: TenantId) -> int:
    """The number of the tenant in the data plane, for limits that its networks share; never 0."""
    return int.from_bytes(hashlib.blake2b(tenant.encode(), digest_size=4).digest()) or 1


class NetworkView:
    def __init__(
        self,
        planes: Planes,
        tenant: TenantNetworkView,
        backing: NetworkBacking,
        domain: str,
        allowed_destinations: Callable[[TenantId], tuple[Prefix, ...]],
        changed: Callable[[], None],
        work: TenantWork,
        budget: RecordBudget,
        allocations: EndpointIndex | None = None,
    ) -> None:
        """`allowed_destinations` is `Ring0View.allowed_destinations`; `work` computes what takes long; `budget` is the
        node's; `allocations` are those of the view that this one follows."""
        self._work = work
        self._planes = planes
        self._domain = domain
        self._allowed_destinations = allowed_destinations
        self.backing = backing
        self.tenant = tenant
        self._changed = changed
        self._gateways: dict[str, Address] | None = None
        self._budget = budget
        self.names = DnsNames(tenant, backing, domain, work, budget, changed)
        if allocations is None:
            self.allocations = EndpointIndex(
                planes, f"spec.vni={backing.vni}", self._allocation_changed, changed
            )
        else:
            self.allocations = allocations
        self.table = ServiceTable(tenant, self.allocations)
        self.rules = PolicyRules(tenant, self.allocations, work, changed)
        self.table.touch(tenant.service_ids())
        tenant.listen(self._tenant_changed)
        if allocations is not None:
            self.names.fill()  # There were names before: none may be missing.
            allocations.tell(self._allocation_changed)
        else:
            self.names.begin_filling()

    def close(self) -> None:
        self.tenant.ignore(self._tenant_changed)
        self.names.close()
        self.allocations.close()

    def moved_to(self, tenant: TenantNetworkView) -> "NetworkView":
        """A view of the same network with the tenant's objects on another plane. This one is closed."""
        self.tenant.ignore(self._tenant_changed)
        self.names.close()
        return NetworkView(
            self._planes,
            tenant,
            self.backing,
            self._domain,
            self._allowed_destinations,
            self._changed,
            self._work,
            self._budget,
            self.allocations,
        )

    def is_synced(self) -> bool:
        return self.tenant.is_synced() and self.allocations.is_synced() and self.names.is_filled()

    def rebase(self, backing: NetworkBacking) -> None:
        """Sets the network's provider objects, which may have another subnet or bouncer now."""
        if backing != self.backing:
            self.backing = backing
            self.names.zone.set_prefixes(backing.prefixes)
            self.rules.touch()

    # Changes

    def _allocation_changed(self, allocation: EndpointAllocation) -> None:
        if allocation.kind == SIMPLE:
            if allocation.owner is not None:
                self.rules.touch_pod(allocation.owner.namespace, allocation.owner.name)
                self.names.put_pod(allocation.owner, self.allocations, allocation.owner_uid)
        elif allocation.kind == GATEWAY:
            self._gateways = None
        elif allocation.owner is not None:
            self.table.touch([(allocation.owner.namespace, allocation.owner.name)])
        self._changed()

    def _tenant_changed(self, kind: TenantChange, change: ObjectChange) -> None:
        match kind:
            case TenantChange.SERVICE:
                self.names.put_service(change)
                self.table.touch([(change.key.namespace, change.key.name)])
            case TenantChange.SLICE:
                self.names.put_slice(change)
                self.table.touch(services_of(change))
            case TenantChange.POLICY:
                self.rules.touch()
            case TenantChange.POD:
                self.rules.touch_pod(change.key.namespace, change.key.name)
            case TenantChange.NAMESPACE:
                self.rules.touch()
            case TenantChange.NETWORK:
                pass

    # State for the data plane

    def endpoints(self, nodes: Nodes) -> tuple[RemoteEndpoint, ...]:
        return self.allocations.endpoints(nodes)

    def refresh(
        self, nodes: tuple[Address, ...], local_addresses: Iterable[Address], gateway: Address | None
    ) -> None:
        """Updates the service table. `nodes` are this node's addresses, `local_addresses` the network's
        addresses on this node; `gateway` is the address of the gateway on this node."""
        perspective = NodePerspective(
            self.backing, self.service_ranges(), nodes, frozenset(local_addresses), gateway is not None
        )
        self.table.refresh(perspective)

    def gateway_address(self, droplet: str) -> Address | None:
        """The address that only the gateway on that droplet has; None if it has none yet."""
        if self._gateways is None:
            self._gateways = {
                each.droplet: each.address
                for each in self.allocations.all()
                if each.kind == GATEWAY and each.address is not None
            }
        return self._gateways.get(droplet)

    def has_egress(self) -> bool:
        network = self.tenant.network(self.backing.owner)
        return bool(network is not None and objects.get(network, "spec", "egress", "enabled", default=False))

    def gateway(self, droplet: str) -> Gateway:
        address = self.gateway_address(droplet)
        return Gateway(
            self.backing.vni,
            self.backing.gateways,
            address if isinstance(address, IPv4Address) else None,
            self.has_egress(),
            address if isinstance(address, IPv6Address) else None,
            destinations.NOT_PUBLIC,
            self._allowed_destinations(self.backing.owner.tenant),
            account=account_of(self.backing.owner.tenant),
        )

    def network(self) -> DataplaneNetwork:
        return DataplaneNetwork(self.backing.vni, (*self.service_ranges(), *self.table.prefixes))

    def contains(self, address: Address) -> bool:
        """Whether the address is in a range of the network: of its pods or its services."""
        prefixes = (*self.backing.prefixes, *self.network().service_prefixes)
        return destinations.is_allowed(address, prefixes)

    def service_ranges(self) -> tuple[Prefix, ...]:
        network = self.tenant.network(self.backing.owner)
        return usable_service_ranges(network or {}, self.backing.prefixes)
