"""The objects of one tenant that its networks depend on: services, EndpointSlices, policies, namespaces,
networks.

A view exists while the tenant has a pod on this node: the API server lets a node read a tenant's objects only
then. Namespaces and the metadata of all pods are watched only while the tenant has network policies, which
select them.
"""

from collections.abc import Callable, Iterable
from enum import Enum

import orjson
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
    """What kind of object of a tenant has changed."""

    SERVICE = "service"
    SLICE = "slice"
    POLICY = "policy"
    NETWORK = "network"
    POD = "pod"
    NAMESPACE = "namespace"


OnTenantChange = Callable[[TenantChange, ObjectChange], None]


class PolicyPeers(Struct, frozen=True):
    """The objects that policies select."""

    pods: Mirror
    """Metadata of pods of all nodes."""
    namespaces: Mirror


class TenantNetworkView:
    def __init__(self, planes: Planes, tenant_key: TenantKey, changed: Callable[[], None]) -> None:
        """`changed` is called for every change, and when a mirror has synced."""
        self.tenant_key = tenant_key
        self._planes = planes
        self._changed = changed
        self._mirror_set = MirrorSet(changed)
        self._listeners: list[OnTenantChange] = []
        self._policies: dict[str, dict[str, bytes]] = {}
        """Policies as their rules are made from them, encoded, by namespace and name."""
        self.policies_size = 0
        """Bytes of all policies."""
        self.namespace_labels: dict[str, dict[str, str]] = {}
        """Of each namespace, while the tenant has policies."""
        self.services = self._mirror(SERVICES, TenantChange.SERVICE)
        self.slices = self._mirror(ENDPOINT_SLICES, TenantChange.SLICE)
        self.slices.add_index("service", _service_of)
        self.policies = self._mirror(NETWORK_POLICIES, TenantChange.POLICY)
        self.networks = self._mirror(NETWORKS, TenantChange.NETWORK)
        self.peers: PolicyPeers | None = None

    def _mirror(self, resource: Resource, kind: TenantChange, *, metadata_only: bool = False) -> Mirror:
        selection = ListSelection(resource, metadata_only=metadata_only)
        mirror = self._planes.mirror(
            selection,
            tenant=self.tenant_key.tenant,
            only=self.tenant_key.plane,
            outlives_plane=True,
        )
        mirror.subscribe(lambda change: self._notify(kind, change))
        return self._mirror_set.add(mirror)

    def listen(self, on_change: OnTenantChange) -> None:
        self._listeners.append(on_change)

    def ignore(self, on_change: OnTenantChange) -> None:
        self._listeners.remove(on_change)

    def _notify(self, kind: TenantChange, change: ObjectChange) -> None:
        if kind in (TenantChange.POD, TenantChange.NAMESPACE) and not _is_relabeled(change):
            return
        if kind is TenantChange.POLICY:
            self._put_policy(change)
        elif kind is TenantChange.NAMESPACE:
            self.namespace_labels.pop(change.key.name, None)
            if change.kind is not ChangeType.DELETED:
                self.namespace_labels[change.key.name] = objects.labels(change.obj)
        for on_change in self._listeners:
            on_change(kind, change)
        self._changed()

    def _put_policy(self, change: ObjectChange) -> None:
        key = change.key
        of_namespace = self._policies.setdefault(key.namespace, {})
        self.policies_size -= len(of_namespace.pop(key.name, b""))
        if change.kind is not ChangeType.DELETED:
            metadata = {"namespace": key.namespace, "name": key.name}
            body = orjson.dumps({"metadata": metadata, "spec": change.obj.get("spec")})
            of_namespace[key.name] = body
            self.policies_size += len(body)
        if not of_namespace:
            del self._policies[key.namespace]

    # Reading

    def is_synced(self) -> bool:
        """Whether all mirrors have synced, including those that the tenant's policies require."""
        if self.has_policies() and self.peers is None:
            return False
        return all(mirror.is_synced(self.tenant_key.plane) for mirror in self._mirrors())

    def _mirrors(self) -> list[Mirror]:
        peers = [self.peers.pods, self.peers.namespaces] if self.peers is not None else []
        return [self.services, self.slices, self.policies, self.networks, *peers]

    def has_policies(self) -> bool:
        return bool(self._policies)

    def policies_in(self, namespaces: Iterable[str]) -> tuple[bytes, ...]:
        """The policies in these namespaces, encoded."""
        return tuple(body for each in sorted(namespaces) for body in self._policies.get(each, {}).values())

    def network(self, owner: TenantNetworkId) -> Object | None:
        return self.networks.get(ObjectKey(self.tenant_key.plane, self.tenant_key.tenant, "", owner.name))

    def all(self, mirror: Mirror) -> list[Object]:
        return mirror.list(self.tenant_key.plane, self.tenant_key.tenant)

    def peer_pod(self, namespace: str, name: str) -> Object | None:
        """The metadata of a pod, while the tenant has policies."""
        key = ObjectKey(self.tenant_key.plane, self.tenant_key.tenant, namespace, name)
        return self.peers.pods.get(key) if self.peers is not None else None

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

    # Starting and closing

    def watch_peers(self) -> None:
        """Starts watching pods and namespaces if the tenant has policies, and stops if it has none."""
        if self.has_policies() and self.peers is None:
            pods = self._mirror(PODS, TenantChange.POD, metadata_only=True)
            self.peers = PolicyPeers(pods, self._mirror(NAMESPACES, TenantChange.NAMESPACE))
        elif not self.has_policies() and self.peers is not None:
            peers, self.peers = self.peers, None
            self.namespace_labels = {}
            for mirror in (peers.pods, peers.namespaces):
                self._mirror_set.remove(mirror)
                self._planes.drop(mirror)

    def close(self) -> None:
        self._listeners.clear()
        self._mirror_set.close()
        for mirror in self._mirrors():
            self._planes.drop(mirror)


def _service_of(slice_: Object) -> Iterable[str]:
    name = objects.labels(slice_).get(SERVICE_LABEL)
    return (f"{objects.namespace(slice_)}/{name}",) if name else ()


def services_of(change: ObjectChange) -> Iterable[ServiceId]:
    """The services that a change of an EndpointSlice affects: two if its service label changed."""
    for obj in (change.obj, change.old if change.kind is not ChangeType.DELETED else None):
        for service in _service_of(obj) if obj is not None else ():
            namespace, _, name = service.partition("/")
            yield namespace, name


def _is_relabeled(change: ObjectChange) -> bool:
    """Whether selectors may match the object from now on, or no longer. Most changes of pods are of their status."""
    if change.kind is not ChangeType.UPDATED or change.old is None:
        return True
    return _selected_fields(change.old) != _selected_fields(change.obj)


def _selected_fields(obj: Object) -> tuple[object, object]:
    return obj["metadata"].get("uid"), objects.labels(obj)
