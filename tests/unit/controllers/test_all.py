"""What is true of all controllers together."""

import copy
import time
from functools import partial
from itertools import count
from typing import Self

from alcove.api.ids import SYSTEM, Revision
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.events import EventRecorder
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.planes import Planes
from alcove.client.resources import (
    DIVIDERS,
    DROPLETS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NETWORKS,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    SUBNETS,
    TENANTS,
    VPC_ENDPOINTS,
    VPCS,
    Resource,
)
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.controller import Controller, ControllerContext, WatchSource
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.network.orphans import OrphanController
from alcove.network.owners import NETWORK_MARK
from alcove.testing.reads import count_reads
from alcove.vpc.defaults import DEFAULT_SUBNET, DEFAULT_VPC
from alcove.vpc.vpc_cache import key_of


def made(planes: Planes) -> list[Controller]:
    recorder = EventRecorder(planes.client, time.time)
    metadata_cache = MetadataCache(planes)
    context = ControllerContext(
        planes=planes, metadata_cache=metadata_cache, recorder=recorder, clock=time.time, authorities={}
    )
    return [controller(context) for controller in CONTROLLERS]


async def test_names_are_each_ones_own() -> None:
    async with Planes() as planes:
        controllers = made(planes)
    assert len({each.name for each in controllers}) == len(CONTROLLERS) == len(set(CONTROLLERS))


async def test_nodes_are_ring0s_alone() -> None:
    """A dedicated tenant's plane may report any nodes."""
    async with Planes() as planes:
        made(planes)
        nodes = [each for each in planes.mirrors() if each.selection.resource == NODES]
        assert nodes == [planes.mirror(ListSelection(NODES), tenant=SYSTEM, only=HOME)]


def test_work_without_a_key_is_ring0s() -> None:
    """Otherwise each shard would do it."""
    with_background = [each for each in CONTROLLERS if each.background is not Controller.background]
    assert with_background and all(each.is_ring0 for each in with_background)


async def test_a_tenant_and_its_plane_are_of_the_shard_of_its_name() -> None:
    async with Planes() as planes:
        for controller in made(planes):
            if controller.resource != VPC_ENDPOINTS:  # Those are at home only.
                assert controller.tenant_of(ObjectKey(PlaneId("acme"), SYSTEM, "", "x")) == "acme"
            if controller.resource == TENANTS:
                assert controller.tenant_of(ObjectKey(HOME, SYSTEM, "", "acme")) == "acme"
                assert not controller.is_ring0


async def test_an_address_is_of_the_shard_of_who_has_it() -> None:
    async with Planes() as planes:
        mirrors = await FullMirrors.over(planes)
        [orphans] = [each for each in mirrors.controllers if isinstance(each, OrphanController)]
        mirrors.add(VPC_ENDPOINTS, SYSTEM, "of-a-pod", spec={"pod": "acme/default/web"})
        mirrors.add(VPC_ENDPOINTS, SYSTEM, "of-a-gateway", spec={"pod": "gateway on n1"})
        assert orphans.tenant_of(key_of("of-a-pod")) == "acme"
        assert orphans.tenant_of(key_of("of-a-gateway")) == SYSTEM


async def test_what_concerns_a_tenant_is_reconciled_in_its_shard() -> None:
    """Other shards do not have its objects: to them it would look empty. Only what works with ring0's objects alone, which all
    shards have, may be elsewhere."""
    async with Planes() as planes:
        mirrors = await FullMirrors.over(planes)
        mirrors.add_tenant("acme")
        mirrors.remove(TENANTS, SYSTEM, "acme")
        found = {(each.name, each.tenant_of(key)) for each, key in mirrors.keys if not each.is_ring0}
        assert {tenant for _, tenant in found} == {"acme"}
        assert {"tenant", "network", "pod-network", "address"} <= {name for name, _ in found}


class FullMirrors:
    """All controllers, which compute the keys to enqueue for each change, over mirrors that are filled by hand."""

    def __init__(self, planes: Planes) -> None:
        self._revisions = count(1)
        self._parts: dict[Resource, list[PlaneMirror]] = {}
        self.controllers = made(planes)
        for mirror in planes.mirrors():
            if not mirror.selection.fields:
                part = mirror.add_plane(HOME)
                self._parts.setdefault(mirror.selection.resource, []).append(part)
        self.enqueued = 0
        self.keys: list[tuple[Controller, ObjectKey]] = []

    @classmethod
    async def over(cls, planes: Planes) -> Self:
        made = cls(planes)
        for controller in made.controllers:
            for source in controller.sources:
                for each in source.subscriptions(partial(made._enqueue, controller, source)):
                    each.mirror.subscribe(each.subscriber)
        made.add(VPCS, SYSTEM, DEFAULT_VPC, spec={"vni": 1, "status": "Provisioned"})
        made.add(SUBNETS, SYSTEM, DEFAULT_SUBNET, spec={"vpc": DEFAULT_VPC, "status": "Provisioned"})
        return made

    def _enqueue(self, controller: Controller, source: WatchSource, change: ObjectChange) -> None:
        keys = list(source.keys(change))
        self.enqueued += len(keys)
        self.keys += [(controller, key) for key in keys]

    def add(self, resource: Resource, tenant: str, name: str, namespace: str = "", **rest: Object) -> None:
        uid = f"{resource.resource}/{tenant}/{namespace}/{name}"
        metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": uid, **rest.pop("metadata", {})}
        if resource.namespaced:
            metadata["namespace"] = namespace
        revision = Revision(next(self._revisions))
        metadata |= {"tenant": tenant, "name": name, "resourceVersion": str(revision)}
        for part in self._parts.get(resource, ()):
            part.put(copy.deepcopy({"metadata": metadata, **rest}), revision)

    def add_tenant(self, name: str) -> None:
        """A tenant with a flat network and a pod on a node of its own."""
        self.add(TENANTS, SYSTEM, name, spec={}, status={"phase": "Active"})
        self.add(NAMESPACES, name, "default", spec={}, status={"phase": "Active"})
        self.add(NETWORKS, name, "default", spec={"type": "flat"}, status={"phase": "Ready"})
        marks = {"annotations": {NETWORK_MARK: f"{name}/default"}, "labels": {OWNER_LABEL: f"of-{name}"}}
        flat = {"vpc": DEFAULT_VPC, "vni": 7, "status": "Provisioned"}
        self.add(DIVIDERS, SYSTEM, f"vni-{name}-d0", metadata=marks, spec=flat)
        self.add(
            SERVICES, name, "kube-dns-default", "kube-system", spec={"selector": {"app": "dns"}, "ports": []}
        )
        self.add(ENDPOINT_SLICES, name, "kube-dns", "kube-system", endpoints={})
        self.add_node(f"node-of-{name}")
        self.add(
            PODS, name, "web", "default", spec={"nodeName": f"node-of-{name}", "containers": []}, status={}
        )
        endpoint = {
            "vpc": DEFAULT_VPC,
            "net": DEFAULT_SUBNET,
            "vni": 7,
            "type": "simple",
            "pod": f"{name}/default/web",
        }
        self.add(VPC_ENDPOINTS, SYSTEM, f"1-{name}", spec={**endpoint, "droplet": f"node-of-{name}"})

    def add_node(self, name: str, ready: str = "True") -> None:
        self.add(NODES, SYSTEM, name, spec={}, status={"conditions": [{"type": "Ready", "status": ready}]})
        self.add(DROPLETS, SYSTEM, name, spec={"status": "Provisioned" if ready == "True" else "NotReady"})

    def remove(self, resource: Resource, tenant: str, name: str) -> None:
        for part in self._parts.get(resource, ()):
            part.remove({"metadata": {"tenant": tenant, "name": name, "uid": ""}, "spec": {}}, Revision(0))


async def reads_of_changes(tenants: int) -> tuple[int, int]:
    """What is read and enqueued for one more tenant and a node that comes, is lost and goes."""
    async with Planes() as planes:
        mirrors = await FullMirrors.over(planes)
        for number in range(tenants):
            mirrors.add_tenant(f"t{number}")
        mirrors.enqueued = 0
        with count_reads() as reads:
            mirrors.add_tenant("another")
            mirrors.add_node("node-of-another", ready="False")
            mirrors.remove(NODES, SYSTEM, "node-of-another")
            mirrors.remove(TENANTS, SYSTEM, "another")
    return reads.count, mirrors.enqueued


async def test_what_a_tenant_or_node_enqueues_does_not_depend_on_how_many_others_there_are() -> None:
    assert await reads_of_changes(100) == await reads_of_changes(10)


async def test_a_tenant_that_lacks_nothing_enqueues_few_keys() -> None:
    """At a start there may be a hundred thousand such tenants, and each was reconciled by every loop that may do anything for it."""
    async with Planes() as planes:
        mirrors = await FullMirrors.over(planes)
        mirrors.keys.clear()
        initialized = {"type": "Initialized", "status": "True"}
        mirrors.add(TENANTS, SYSTEM, "acme", spec={}, status={"conditions": [initialized]})
        mirrors.add(SERVICE_ACCOUNTS, "acme", "default", "default")
        mirrors.add(NAMESPACES, "acme", "default", spec={}, status={"phase": "Active"})
        mirrors.add(SERVICES, "acme", "web", "default", spec={"type": "ClusterIP", "ports": []})
        mirrors.add(NETWORKS, "acme", "default", spec={"type": "flat"}, status={"phase": "Ready"})
        enqueued = {controller.name for controller, _ in mirrors.keys}
        assert enqueued == {
            "network",
            "service-cidr",
            "service-address",  # The service has no address here.
            "root-ca-cert-publisher",  # The certificates are not mirrored here.
        }


async def test_objects_that_controllers_mirror_as_a_whole_are_mirrored_once() -> None:
    """Their metadata is read from that mirror: another one would take as much memory again, and a second watch."""
    async with Planes() as planes:
        metadata_cache = made(planes)[0].metadata_cache
        for resource in (NAMESPACES, PODS, SERVICES, ENDPOINT_SLICES):
            whole = planes.mirror(ListSelection(resource))
            assert metadata_cache._mirror(resource, None) is whole
        roles = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
        assert metadata_cache._mirror(roles, None).selection == ListSelection(roles, metadata_only=True)
        assert metadata_cache._mirror(NODES, None) is not planes.mirror(
            ListSelection(NODES), tenant=SYSTEM, only=HOME
        )
