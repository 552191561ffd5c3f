"""What one tenant's own API tells of its networks: services, slices, policies, namespaces, networks.

There is one for each tenant that has a pod on this node, as long as it has one: that is how long the API server lets
a node look. Namespaces and other nodes' pods are looked at only while the tenant has policies, which select them.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import Struct

from alcove.agent.network.mirror_set import MirrorSet
from alcove.api import objects
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import ObjectKey, TenantKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import (
    ENDPOINT_SLICES,
    NAMESPACES,
    NETWORK_POLICIES,
    NETWORKS,
    PODS,
    SERVICES,
    Resource,
)
from alcove.dns.objects import SERVICE_LABEL
from alcove.network.owners import TenantNetworkId

ServiceId = tuple[str, str]
"""Namespace and name."""


class TenantChange(Enum):
    """What about a tenant has changed."""

    SERVICE = "service"
    SLICE = "slice"
    POLICY = "policy"
    NETWORK = "network"


OnTenantChange = Callable[[TenantChange, ObjectChange], None]


class PolicyPeers(Struct, frozen=True):
    """Whom policies select."""

    pods: Mirror
    """Of all nodes, but no more than their metadata."""
    namespaces: Mirror


class TenantNetworkView:
    def __init__(self, planes: Planes, tenant_key: TenantKey, changed: Callable[[], None]) -> None:
        """`changed` is called for whatever happens, and when everything of a kind has been seen once."""
        self.tenant_key = tenant_key
        self._planes = planes
        self._changed = changed
        self._following = MirrorSet(changed)
        self._listeners: list[OnTenantChange] = []
        self.services = self._mirror(SERVICES, TenantChange.SERVICE)
        self.slices = self._mirror(ENDPOINT_SLICES, TenantChange.SLICE)
        self.slices.add_index("service", _service_of)
        self.policies = self._mirror(NETWORK_POLICIES, TenantChange.POLICY)
        self.networks = self._mirror(NETWORKS, TenantChange.NETWORK)
        self.peers: PolicyPeers | None = None

    def _mirror(self, resource: Resource, what: TenantChange, *, metadata_only: bool = False) -> Mirror:
        selection = ListSelection(resource, metadata_only=metadata_only)
        mirror = self._planes.mirror(selection, tenant=self.tenant_key.tenant, only=self.tenant_key.plane)
        mirror.subscribe(lambda change: self._tell(what, change))
        return self._following.add(mirror)

    def listen(self, told: OnTenantChange) -> None:
        self._listeners.append(told)

    def ignore(self, told: OnTenantChange) -> None:
        self._listeners.remove(told)

    def _tell(self, what: TenantChange, change: ObjectChange) -> None:
        for told in self._listeners:
            told(what, change)
        self._changed()

    # Reading

    def is_synced(self) -> bool:
        """Whether all of it has been seen once, also what its policies make necessary."""
        if self.has_policies() and self.peers is None:
            return False
        return all(mirror.is_synced(self.tenant_key.plane) for mirror in self._mirrors())

    def _mirrors(self) -> list[Mirror]:
        peers = [self.peers.pods, self.peers.namespaces] if self.peers is not None else []
        return [self.services, self.slices, self.policies, self.networks, *peers]

    def has_policies(self) -> bool:
        return bool(self.policies.keys(self.tenant_key.plane, self.tenant_key.tenant))

    def network(self, owner: TenantNetworkId) -> Object | None:
        return self.networks.get(ObjectKey(self.tenant_key.plane, self.tenant_key.tenant, "", owner.name))

    def all(self, mirror: Mirror) -> list[Object]:
        return mirror.list(self.tenant_key.plane, self.tenant_key.tenant)

    def key_of(self, obj: Object) -> ObjectKey:
        return ObjectKey(
            self.tenant_key.plane, self.tenant_key.tenant, objects.namespace(obj), objects.name(obj)
        )

    def service_ids(self) -> list[ServiceId]:
        return [
            (key.namespace, key.name)
            for key in self.services.keys(self.tenant_key.plane, self.tenant_key.tenant)
        ]

    def service(self, service: ServiceId) -> Object | None:
        return self.services.get(ObjectKey(self.tenant_key.plane, self.tenant_key.tenant, *service))

    def slices_of(self, service: ServiceId) -> list[Object]:
        return self.slices.find("service", self.tenant_key.plane, self.tenant_key.tenant, "/".join(service))

    # Beginning and ending

    async def look_at_peers(self) -> None:
        """Begins or ends looking at whom policies select, as there are any or not."""
        if self.has_policies() and self.peers is None:
            pods = self._mirror(PODS, TenantChange.POLICY, metadata_only=True)
            self.peers = PolicyPeers(pods, self._mirror(NAMESPACES, TenantChange.POLICY))
        elif not self.has_policies() and self.peers is not None:
            peers, self.peers = self.peers, None
            for mirror in (peers.pods, peers.namespaces):
                self._following.remove(mirror)
                await self._planes.drop(mirror)

    async def close(self) -> None:
        self._listeners.clear()
        self._following.close()
        for mirror in self._mirrors():
            await self._planes.drop(mirror)


def _service_of(slice_: Object) -> Iterable[str]:
    name = objects.labels(slice_).get(SERVICE_LABEL)
    return (f"{objects.namespace(slice_)}/{name}",) if name else ()


def services_of(change: ObjectChange) -> Iterable[ServiceId]:
    """The services that a change of a slice concerns: it may have gone over to another."""
    for obj in (change.obj, change.old if change.kind is not ChangeType.DELETED else None):
        for found in _service_of(obj) if obj is not None else ():
            namespace, _, name = found.partition("/")
            yield namespace, name
