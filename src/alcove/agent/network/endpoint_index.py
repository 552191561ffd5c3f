"""An index of some of ring0's endpoints: those of one network, or of one subnet that this node bounces."""

from collections.abc import Callable
from ipaddress import IPv4Address

from alcove.agent.network.mirror_set import MirrorSet
from alcove.agent.network.ring0_objects import Nodes, located
from alcove.api.ids import SYSTEM
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import VPC_ENDPOINTS
from alcove.dataplane.model import RemoteEndpoint
from alcove.network.endpoints import EndpointAllocation, allocation_of

OnAllocationChange = Callable[[EndpointAllocation], None]
"""Called with an allocation that was added, changed or removed."""


class EndpointIndex:
    def __init__(
        self, planes: Planes, fields: str, on_change: OnAllocationChange, synced: Callable[[], None]
    ) -> None:
        """`fields` is the field selector of the endpoints; `synced` is called when the mirror has synced."""
        self._planes = planes
        self._on_change = on_change
        self._all: dict[str, EndpointAllocation] = {}
        self._by_owner: dict[str, dict[str, EndpointAllocation]] = {}
        self._endpoints: tuple[RemoteEndpoint, ...] | None = None
        self._nodes: Nodes = {}
        self._node_addresses: dict[str, IPv4Address | None] = {}
        """Addresses of the droplets that `_endpoints` was made with."""
        self._mirror = planes.mirror(ListSelection(VPC_ENDPOINTS, fields=fields), tenant=SYSTEM, only=HOME)
        self._mirror.subscribe(self._changed)
        self._mirrors = MirrorSet(synced)
        self._mirrors.add(self._mirror)

    def tell(self, on_change: OnAllocationChange) -> None:
        """Tell another one of all allocations, and of changes from now on."""
        self._on_change = on_change
        for allocation in self.all():
            on_change(allocation)

    def is_synced(self) -> bool:
        return self._mirror.is_synced(HOME)

    def close(self) -> None:
        self._mirrors.close()
        self._planes.drop(self._mirror)

    def for_owner(self, owner_uid: str) -> list[EndpointAllocation]:
        return list(self._by_owner.get(owner_uid, {}).values())

    def all(self) -> list[EndpointAllocation]:
        return list(self._all.values())

    def endpoints(self, nodes: Nodes) -> tuple[RemoteEndpoint, ...]:
        """The node of each address. The same tuple as long as nothing has changed."""
        if self._nodes is not nodes:
            self._nodes = nodes
            # Most changes of nodes are of nodes that have none of these endpoints.
            if any(nodes.get(name) != address for name, address in self._node_addresses.items()):
                self._endpoints = None
        if self._endpoints is None:
            endpoints = (located(each, nodes) for each in self._all.values())
            self._endpoints = tuple(each for each in endpoints if each is not None)
            self._node_addresses = {each.droplet: nodes.get(each.droplet) for each in self._all.values()}
        return self._endpoints

    def _changed(self, change: ObjectChange) -> None:
        allocation = allocation_of(change.obj)
        before = self._all.pop(allocation.name, None)
        if before is not None:
            of_owner = self._by_owner[before.owner_uid]
            del of_owner[before.name]
            if not of_owner:
                del self._by_owner[before.owner_uid]
        if change.kind is not ChangeType.DELETED:
            self._all[allocation.name] = allocation
            self._by_owner.setdefault(allocation.owner_uid, {})[allocation.name] = allocation
        if before != allocation or change.kind is ChangeType.DELETED:
            self._endpoints = None
            if before is not None and before.owner != allocation.owner:
                self._on_change(before)
            self._on_change(allocation)
