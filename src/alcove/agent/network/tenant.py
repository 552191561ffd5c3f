"""What one tenant's own API tells of its networks: services, slices, policies, namespaces, networks.

There is one for each tenant that has a pod on this node, as long as it has one: that is how long the API server lets
a node look. Other pods' metadata is looked at only while the tenant has policies, which select by it.
"""

from collections.abc import Callable, Iterable
from enum import Enum

from alcove.agent.network.following import Following
from alcove.api import objects
from alcove.api.objects import Object
from alcove.client.changes import Change, Kind
from alcove.client.client import Selection
from alcove.client.keys import ObjectKey, Space
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
from alcove.controllers.network.owners import NetworkId
from alcove.dns.objects import SERVICE_LABEL

ServiceId = tuple[str, str]
"""Namespace and name."""


class What(Enum):
    """What about a tenant has changed."""

    SERVICE = "service"
    SLICE = "slice"
    POLICY = "policy"
    NETWORK = "network"


Told = Callable[[What, Change], None]


class Tenant:
    def __init__(self, planes: Planes, space: Space, changed: Callable[[], None]) -> None:
        """`changed` is called for whatever happens, and when everything of a kind has been seen once."""
        self.space = space
        self._planes = planes
        self._changed = changed
        self._following = Following(changed)
        self._listeners: list[Told] = []
        self.services = self._mirror(SERVICES, What.SERVICE)
        self.slices = self._mirror(ENDPOINT_SLICES, What.SLICE)
        self.slices.add_index("service", _service_of)
        self.policies = self._mirror(NETWORK_POLICIES, What.POLICY)
        self.namespaces = self._mirror(NAMESPACES, What.POLICY)
        self.networks = self._mirror(NETWORKS, What.NETWORK)
        self.pods: Mirror | None = None

    def _mirror(self, resource: Resource, what: What, *, metadata_only: bool = False) -> Mirror:
        selection = Selection(resource, metadata_only=metadata_only)
        mirror = self._planes.mirror(selection, tenant=self.space.tenant, only=self.space.plane)
        mirror.subscribe(lambda change: self._tell(what, change))
        return self._following.add(mirror)

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    def ignore(self, told: Told) -> None:
        self._listeners.remove(told)

    def _tell(self, what: What, change: Change) -> None:
        for told in self._listeners:
            told(what, change)
        self._changed()

    # Reading

    def is_synced(self) -> bool:
        """Whether all of it has been seen once, also what its policies make necessary."""
        needed = [self.services, self.slices, self.policies, self.namespaces, self.networks]
        if self.has_policies() and self.pods is None:
            return False
        if self.pods is not None:
            needed.append(self.pods)
        return all(mirror.is_synced(self.space.plane) for mirror in needed)

    def has_policies(self) -> bool:
        return bool(self.policies.keys(self.space.plane, self.space.tenant))

    def network(self, owner: NetworkId) -> Object | None:
        return self.networks.get(ObjectKey(self.space.plane, self.space.tenant, "", owner.name))

    def all(self, mirror: Mirror) -> list[Object]:
        return mirror.list(self.space.plane, self.space.tenant)

    def key_of(self, obj: Object) -> ObjectKey:
        return ObjectKey(self.space.plane, self.space.tenant, objects.namespace(obj), objects.name(obj))

    def service_ids(self) -> list[ServiceId]:
        return [(key.namespace, key.name) for key in self.services.keys(self.space.plane, self.space.tenant)]

    def service(self, service: ServiceId) -> Object | None:
        return self.services.get(ObjectKey(self.space.plane, self.space.tenant, *service))

    def slices_of(self, service: ServiceId) -> list[Object]:
        return self.slices.find("service", self.space.plane, self.space.tenant, "/".join(service))

    # Beginning and ending

    async def look_at_pods(self) -> None:
        """Begins or ends looking at pods' metadata, as the policies want it."""
        if self.has_policies() and self.pods is None:
            self.pods = self._mirror(PODS, What.POLICY, metadata_only=True)
        elif not self.has_policies() and self.pods is not None:
            pods, self.pods = self.pods, None
            self._following.remove(pods)
            await self._planes.drop(pods)

    async def close(self) -> None:
        self._listeners.clear()
        self._following.close()
        mirrors = [self.services, self.slices, self.policies, self.namespaces, self.networks]
        for mirror in (*mirrors, *((self.pods,) if self.pods is not None else ())):
            await self._planes.drop(mirror)


def _service_of(slice_: Object) -> Iterable[str]:
    name = objects.labels(slice_).get(SERVICE_LABEL)
    return (f"{objects.namespace(slice_)}/{name}",) if name else ()


def services_of(change: Change) -> Iterable[ServiceId]:
    """The services that a change of a slice concerns: it may have gone over to another."""
    for obj in (change.obj, change.old if change.kind is not Kind.DELETED else None):
        for found in _service_of(obj) if obj is not None else ():
            namespace, _, name = found.partition("/")
            yield namespace, name
