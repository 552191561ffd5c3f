"""One network as this node sees it: where its addresses are, what its services are, what its pods may do, and its names.

Changes are told to it as they come; its names follow at once, the rest when it is asked for. What has not changed
since is the same tuple as before.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address

from alcove.agent.network.dns_names import DnsNames
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.grants import ServiceGrant, granted
from alcove.agent.network.policy_rules import PolicyRules
from alcove.agent.network.ring0_objects import NetworkBacking, Nodes
from alcove.agent.network.services import NodePerspective
from alcove.agent.network.servicetable import ServiceTable
from alcove.agent.network.tenant_view import TenantChange, TenantNetworkView, services_of
from alcove.api import objects
from alcove.api.kinds.mizar import GATEWAY, SIMPLE
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.planes import Planes
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import DataplaneNetwork, Gateway, RemoteEndpoint
from alcove.network.endpoints import EndpointAllocation
from alcove.network.service_ranges import usable_service_ranges


class NetworkView:
    def __init__(
        self,
        planes: Planes,
        tenant: TenantNetworkView,
        backing: NetworkBacking,
        domain: str,
        changed: Callable[[], None],
    ) -> None:
        self.backing = backing
        self.tenant = tenant
        self._changed = changed
        self._gateways: dict[str, Address] | None = None
        self.names = DnsNames(tenant, backing, domain)
        self.holdings = EndpointIndex(planes, f"spec.vni={backing.vni}", self._held, changed)
        self.table = ServiceTable(tenant, self.holdings)
        self.rules = PolicyRules(tenant, self.holdings)
        self.table.touch(tenant.service_ids())
        tenant.listen(self._told)

    async def close(self) -> None:
        self.tenant.ignore(self._told)
        await self.holdings.close()

    def is_synced(self) -> bool:
        return self.tenant.is_synced() and self.holdings.is_synced()

    def rebase(self, backing: NetworkBacking) -> None:
        """The network is made of something else now: another subnet, another bouncer."""
        if backing != self.backing:
            self.backing = backing
            self.names.zone.set_prefixes(backing.prefixes)
            self.rules.touch()

    # What changes concern

    def _held(self, holding: EndpointAllocation) -> None:
        if holding.kind == SIMPLE:
            self.rules.touch()
            if holding.owner is not None:
                self.names.put_pod(holding.owner, self.holdings, holding.owner_uid)
        elif holding.kind == GATEWAY:
            self._gateways = None
        elif holding.owner is not None:
            self.table.touch([(holding.owner.namespace, holding.owner.name)])
        self._changed()

    def _told(self, what: TenantChange, change: ObjectChange) -> None:
        match what:
            case TenantChange.SERVICE:
                self.names.put_service(change)
                self.table.touch([(change.key.namespace, change.key.name)])
            case TenantChange.SLICE:
                self.names.put_slice(change)
                self.table.touch(services_of(change))
            case TenantChange.POLICY:
                self.rules.touch()
            case TenantChange.NETWORK:
                pass

    # What the data plane has to know

    def endpoints(self, nodes: Nodes) -> tuple[RemoteEndpoint, ...]:
        return self.holdings.endpoints(nodes)

    def refresh(self, nodes: tuple[Address, ...], here: Iterable[Address], own: Address | None) -> None:
        """`nodes` are this node's own addresses, `here` the network's on it; `own` is the gateway's."""
        self.table.refresh(NodePerspective(self.backing, nodes, frozenset(here), own is not None))

    def gateway_address(self, droplet: str) -> Address | None:
        """The address that the gateway on this node, and no other, has."""
        if self._gateways is None:
            self._gateways = {
                each.droplet: each.address
                for each in self.holdings.all()
                if each.kind == GATEWAY and each.address is not None
            }
        return self._gateways.get(droplet)

    def grant(self, service: Object) -> ServiceGrant:
        """What ring0 has given to a service of this network."""
        return granted(self.holdings.of(service["metadata"]["uid"]))

    def has_egress(self) -> bool:
        network = self.tenant.network(self.backing.owner)
        return bool(network is not None and objects.get(network, "spec", "egress", "enabled", default=False))

    def gateway(self, droplet: str) -> Gateway:
        own = self.gateway_address(droplet)
        return Gateway(
            self.backing.vni,
            self.backing.gateways,
            own if isinstance(own, IPv4Address) else None,
            self.has_egress(),
            own if isinstance(own, IPv6Address) else None,
        )

    def network(self) -> DataplaneNetwork:
        return DataplaneNetwork(self.backing.vni, (*self._service_prefixes(), *self.table.prefixes))

    def _service_prefixes(self) -> tuple[Prefix, ...]:
        network = self.tenant.network(self.backing.owner)
        return usable_service_ranges(network or {}, self.backing.prefixes)
