"""One network as this node sees it: where its addresses are, what its services are, what its pods may do, and its names.

Changes are told to it as they come; its names follow at once, the rest when it is asked for. What has not changed
since is the same tuple as before.
"""

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address

from alcove.agent.network.fabric import Backing, Nodes
from alcove.agent.network.grants import Grant, granted
from alcove.agent.network.holdings import Holdings
from alcove.agent.network.names import Names
from alcove.agent.network.rules import Rules
from alcove.agent.network.services import Standpoint
from alcove.agent.network.servicetable import ServiceTable
from alcove.agent.network.tenant import Tenant, What, services_of
from alcove.api import objects
from alcove.api.kinds.mizar import GATEWAY, SIMPLE
from alcove.api.objects import Object
from alcove.client.changes import Change
from alcove.client.planes import Planes
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.model import Endpoint, Gateway, Network
from alcove.network.endpoints import Holding
from alcove.network.service_ranges import usable_service_ranges


class View:
    def __init__(
        self, planes: Planes, tenant: Tenant, backing: Backing, domain: str, changed: Callable[[], None]
    ) -> None:
        self.backing = backing
        self.tenant = tenant
        self._changed = changed
        self._gateways: dict[str, Address] | None = None
        self.names = Names(tenant, backing, domain)
        self.holdings = Holdings(planes, f"spec.vni={backing.vni}", self._held, changed)
        self.table = ServiceTable(tenant, self.holdings)
        self.rules = Rules(tenant, self.holdings)
        self.table.touch(tenant.service_ids())
        tenant.listen(self._told)

    async def close(self) -> None:
        self.tenant.ignore(self._told)
        await self.holdings.close()

    def is_synced(self) -> bool:
        return self.tenant.is_synced() and self.holdings.is_synced()

    def rebase(self, backing: Backing) -> None:
        """The network is made of something else now: another subnet, another bouncer."""
        if backing != self.backing:
            self.backing = backing
            self.names.zone.set_prefixes(backing.prefixes)
            self.rules.touch()

    # What changes concern

    def _held(self, holding: Holding) -> None:
        if holding.kind == SIMPLE:
            self.rules.touch()
            if holding.owner is not None:
                self.names.put_pod(holding.owner, self.holdings, holding.owner_uid)
        elif holding.kind == GATEWAY:
            self._gateways = None
        elif holding.owner is not None:
            self.table.touch([(holding.owner.namespace, holding.owner.name)])
        self._changed()

    def _told(self, what: What, change: Change) -> None:
        match what:
            case What.SERVICE:
                self.names.put_service(change)
                self.table.touch([(change.key.namespace, change.key.name)])
            case What.SLICE:
                self.names.put_slice(change)
                self.table.touch(services_of(change))
            case What.POLICY:
                self.rules.touch()
            case What.NETWORK:
                pass

    # What the data plane has to know

    def endpoints(self, nodes: Nodes) -> tuple[Endpoint, ...]:
        return self.holdings.endpoints(nodes)

    def refresh(self, nodes: tuple[Address, ...], here: Iterable[Address], own: Address | None) -> None:
        """`nodes` are this node's own addresses, `here` the network's on it; `own` is the gateway's."""
        self.table.refresh(Standpoint(self.backing, nodes, frozenset(here), own is not None))

    def gateway_address(self, droplet: str) -> Address | None:
        """The address that the gateway on this node, and no other, has."""
        if self._gateways is None:
            self._gateways = {
                each.droplet: each.address
                for each in self.holdings.all()
                if each.kind == GATEWAY and each.address is not None
            }
        return self._gateways.get(droplet)

    def grant(self, service: Object) -> Grant:
        """What ring0 has given to a service of this network."""
        return granted(self.holdings.of(service["metadata"]["uid"]))

    def has_way_out(self) -> bool:
        network = self.tenant.network(self.backing.owner)
        return bool(network is not None and objects.get(network, "spec", "egress", "enabled", default=False))

    def gateway(self, droplet: str) -> Gateway:
        own = self.gateway_address(droplet)
        return Gateway(
            self.backing.vni,
            self.backing.gateways,
            own if isinstance(own, IPv4Address) else None,
            self.has_way_out(),
            own if isinstance(own, IPv6Address) else None,
        )

    def network(self) -> Network:
        return Network(self.backing.vni, (*self._service_prefixes(), *self.table.prefixes))

    def _service_prefixes(self) -> tuple[Prefix, ...]:
        network = self.tenant.network(self.backing.owner)
        return usable_service_ranges(network or {}, self.backing.prefixes)
