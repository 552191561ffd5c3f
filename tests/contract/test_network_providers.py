"""What every type of network promises controllers and nodes, whatever it is made of.

`LanNetworks` lives only here: a third provider is this class and one line in a list. The API server accepts only the
names of types that it knows, so the class takes the name `mizar` from the provider of VPCs.
"""

import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from alcove.agent.network.ring0 import Ring0View
from alcove.api import objects
from alcove.api.errors import AlreadyExists
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import DIVIDERS, SUBNETS, VPCS
from alcove.client.transport import Transport
from alcove.controllers.controller import ControllerOptions
from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import PodNetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.network import owners
from alcove.network.endpoints import vni_of
from alcove.network.fabric import Fabric
from alcove.network.nics import RequestedNic
from alcove.network.owners import OwnerRef, TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.network.providers.base import (
    NetworkLayout,
    NetworkProvider,
    Providers,
    Provisioning,
    SubnetLayout,
)
from alcove.network.providers.flat import FlatNetworks
from alcove.network.providers.vpc import VpcNetworks
from alcove.testing.controllers import RunningControllers
from alcove.testing.faults import FaultyTransport
from alcove.testing.nodenetworks import register
from alcove.testing.server import Caller, LocalServer, wait_until
from alcove.vpc import defaults, ranges
from alcove.vpc.addressing import pool_in
from alcove.vpc.allocator import AddressRequest
from alcove.vpc.claims import divider_name
from alcove.vpc.errors import AddressUnavailable
from alcove.vpc.states import ProvisioningState, is_provisioned
from alcove.vpc.vnis import VniAllocator
from alcove.vpc.vpc_cache import VpcCache


class LanNetworks(NetworkProvider):
    """Each network has a number and a subnet of its own in one VPC; its pods have two interfaces."""

    types: ClassVar[tuple[str, ...]] = ("mizar",)
    ready_message: ClassVar[str] = "connected"
    heeds_nics: ClassVar[bool] = False
    uses_bouncers: ClassVar[bool] = False
    vpc: ClassVar[str] = "lan0"

    def has_vpc(self, name: str) -> bool:
        return name == self.vpc

    async def provision(self, provisioning: Provisioning, owner: TenantNetworkId, network: Object) -> None:
        cache, backings = provisioning.backings.cache, provisioning.backings
        if cache.vpc(self.vpc) is None:
            with suppress(AlreadyExists):
                await cache.client.create(
                    SYSTEM, VPCS, defaults.vpc(self.vpc, ip_network("10.200.0.0/16"), dividers=1)
                )
            raise AddressUnavailable("waiting for the VPC")
        if not backings.dividers(owner):
            spec = {"vpc": self.vpc, "status": str(ProvisioningState.PROVISIONED)}
            divider = owners.mark_made({"metadata": {}, "spec": spec}, owner)
            await provisioning.numbers.draw(network["metadata"]["uid"], divider)
        if not backings.subnets(owner):
            taken = [part for each in cache.subnets_of(self.vpc) if (part := ranges.range_of(each))]
            part = ranges.free_part(ip_network("10.200.0.0/16"), taken, 24)
            assert part is not None
            subnet = defaults.subnet(_subnet_name(owner), self.vpc, part)
            await cache.client.create(SYSTEM, SUBNETS, owners.mark_made(subnet, owner))
        await cache.caught_up(cache.subnets, cache.dividers)

    def awaited_vpcs(self, owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
        return (self.vpc,)

    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        dividers = backings.dividers(owner)
        subnets = [each for each in backings.subnets(owner) if is_provisioned(each)]
        if not dividers or not subnets:
            return None
        pool = pool_in(subnets[0], vni_of(dividers[0]))
        return ProviderNetwork(self.vpc, pool.vni, pool.network, {pool.net: pool})

    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        subnets = [each for each in backings.subnets(owner) if each["spec"]["vpc"] == self.vpc]
        dividers = [each for each in backings.dividers(owner) if each["spec"]["vpc"] == self.vpc]
        if left := await backings.release_addresses(dividers):
            return left
        for subnet in subnets:
            await backings.cache.delete(SUBNETS, objects.name(subnet), subnet["metadata"]["uid"])
        if subnets:
            return "its subnet is being deleted"
        for divider in dividers:
            await backings.cache.delete(DIVIDERS, objects.name(divider), divider["metadata"]["uid"])
        return ""

    def interfaces(self, pod: Object) -> list[str]:
        return ["eth0", "eth1"]

    def wanted_nics(
        self, backings: ProviderNetworks, pod: Object, network: Object, backing: ProviderNetwork
    ) -> list[RequestedNic]:
        return [
            RequestedNic(each, AddressRequest(tuple(backing.subnets.values())))
            for each in self.interfaces(pod)
        ]

    def node_layout(self, fabric: Fabric, vpc: str, vni: int) -> NetworkLayout | None:
        divider = fabric.divider(divider_name(vni, 0))
        owner = owners.owner_of(divider) if divider is not None else None
        subnet = fabric.subnet(_subnet_name(owner)) if owner is not None else None
        part = ranges.range_of(subnet) if subnet is not None else None
        if part is None:
            return None
        return NetworkLayout(owner=owner, vni=vni, network=part, subnets=(SubnetLayout(part),))


def _subnet_name(owner: TenantNetworkId) -> str:
    return f"lan-{owner.tenant}-{owner.name}"


PROVIDERS = Providers(FlatNetworks(), LanNetworks(), VpcNetworks())
TYPES = ("flat", "vpc", "mizar")

NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
PODS = "/api/v1/namespaces/default/pods"
MIZAR = "/apis/mizar.com/v1"
NODE = "node-1"
CONTROLLERS = (
    VpcController,
    SubnetController,
    EndpointController,
    DropletController,
    NetworkController,
    PodNetworkController,
    OrphanController,
    ServiceAddressController,
)
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("providers")
    options = ControllerOptions(providers=PROVIDERS)
    with LocalServer(directory) as server, RunningControllers(server.admin_kubeconfig, CONTROLLERS, options):
        register(server, NODE, "192.0.2.1")
        yield server


@pytest.fixture
def ring0(cluster: LocalServer) -> Caller:
    return cluster.system


@pytest.fixture
def tenant() -> str:
    return f"t{next(_NUMBERS)}"


@pytest.fixture
def acme(cluster: LocalServer, tenant: str) -> Caller:
    return cluster.make_tenant(tenant)


def in_phase(caller: Caller, name: str, phase: str) -> dict[str, Any]:
    def check() -> dict[str, Any] | None:
        now: dict[str, Any] = caller.get(f"{NETWORKS}/{name}").json.get("status", {})
        return now if now.get("phase") == phase else None

    reached: dict[str, Any] = wait_until(check)
    return reached


def ready(caller: Caller, name: str, kind: str) -> dict[str, Any]:
    answer = caller.post(NETWORKS, {"metadata": {"name": name}, "spec": {"type": kind}})
    assert answer.status == 201, answer.body
    return in_phase(caller, name, "Ready")


def attached(caller: Caller, ring0: Caller, network: str, nics: int) -> tuple[str, list[Object]]:
    """A pod on the node: its uid and its endpoints, once all are provisioned."""
    spec = {"containers": [{"name": "c", "image": "i"}], "network": network, "nodeName": NODE}
    uid = caller.post(PODS, {"metadata": {"name": "web"}, "spec": spec}).json["metadata"]["uid"]

    def check() -> list[Object] | None:
        items = ring0.get(f"{MIZAR}/endpoints?labelSelector=mizar.com/owner%3D{uid}").json["items"]
        return items if len(items) == nics and all(map(is_provisioned, items)) else None

    return uid, wait_until(check)


def marked(ring0: Caller, tenant: str) -> list[str]:
    """The objects in ring0 that were created for the tenant's networks."""
    return [
        f"{resource}/{each['metadata']['name']}"
        for resource in ("vpcs", "subnets", "dividers", "endpoints")
        for each in ring0.get(f"{MIZAR}/{resource}").json["items"]
        if f"{tenant}/" in f"{each['metadata'].get('annotations')} {each['spec'].get('pod')}"
    ]


@asynccontextmanager
async def planes_of(transport: Transport) -> AsyncIterator[Planes]:
    async with Planes() as planes:
        planes.join(HOME, transport)
        try:
            yield planes
        finally:
            await transport.close()


def transport_to(server: LocalServer) -> FaultyTransport:
    """One that notes what is asked."""
    return FaultyTransport(HttpPool(kubeconfig.load(server.admin_kubeconfig)), random.Random(0))


def writes(transport: FaultyTransport) -> list[str]:
    return [each for each in transport.requests if not each.startswith("GET ")]


@asynccontextmanager
async def provisioning_on(transport: Transport) -> AsyncIterator[Provisioning]:
    async with planes_of(transport) as planes:
        cache = VpcCache(planes, time.time)
        backings = ProviderNetworks(cache)
        await planes.synced()
        yield Provisioning(
            backings=backings,
            numbers=VniAllocator(cache),
            providers=PROVIDERS,
            fresh_range=lambda _avoid: ip_network("10.9.0.0/16"),
        )


@pytest.mark.parametrize("kind", TYPES)
def test_a_network_becomes_ready_with_a_range_that_its_services_are_not_in(acme: Caller, kind: str) -> None:
    now = ready(acme, "blue", kind)
    assert now["message"] == PROVIDERS.of({"spec": {"type": kind}}).ready_message
    assert now["vni"] > 0 and now["vpc"] and now["subnets"]
    assert ip_address(now["dnsServiceIP"]) not in ip_network(now["cidr"])


@pytest.mark.parametrize("kind", TYPES)
def test_no_two_networks_have_the_same_number(acme: Caller, kind: str) -> None:
    assert ready(acme, "one", kind)["vni"] != ready(acme, "two", kind)["vni"]


@pytest.mark.parametrize("kind", TYPES)
def test_a_pod_has_an_address_of_the_network_at_every_interface(
    ring0: Caller, acme: Caller, kind: str
) -> None:
    now = ready(acme, "blue", kind)
    names = PROVIDERS.of({"spec": {"type": kind}}).interfaces({"spec": {}})
    _, endpoints = attached(acme, ring0, "blue", len(names))
    assert sorted(each["spec"]["itf"] for each in endpoints) == sorted(names)
    for each in endpoints:
        assert ip_address(each["spec"]["ip"]) in ip_network(now["cidr"]) and each["spec"]["vni"] == now["vni"]
        assert kind in PROVIDERS.of_vpc(each["spec"]["vpc"]).types, "a node finds the provider by the VPC"


@pytest.mark.parametrize("kind", TYPES)
async def test_a_node_knows_the_networks_of_its_pods(
    cluster: LocalServer, ring0: Caller, acme: Caller, tenant: str, kind: str
) -> None:
    now = ready(acme, "blue", kind)
    names = PROVIDERS.of({"spec": {"type": kind}}).interfaces({"spec": {}})
    uid, _ = attached(acme, ring0, "blue", len(names))
    async with planes_of(transport_to(cluster)) as planes:
        node = Ring0View(planes, NODE, PROVIDERS, lambda: None)
        await node.synced()
        nics = node.nics(uid, OwnerRef(TenantId(tenant), "default", "web"))
        assert sorted(nic.interface for nic in nics) == sorted(names)
        for nic in nics:
            backing = node.backing(nic.vpc, nic.vni)
            assert backing is not None and backing.owner == TenantNetworkId(TenantId(tenant), "blue")
            assert backing.vni == now["vni"] and nic.address.ip in ip_network(now["cidr"])
            assert any(nic.address.ip in subnet.prefix for subnet in backing.subnets)
            assert nic.gateway in [one.ip for one in backing.gateways]
            has_duties = any(duty.vpc == nic.vpc for duty in node.duties())
            assert has_duties == PROVIDERS.of_vpc(nic.vpc).uses_bouncers
        assert node.backing(nics[0].vpc, now["vni"] + 1) is None, "the number is not the network's"


@pytest.mark.parametrize("kind", TYPES)
async def test_what_is_provisioned_is_not_written_again(
    cluster: LocalServer, ring0: Caller, acme: Caller, tenant: str, kind: str
) -> None:
    ready(acme, "blue", kind)
    network, transport = acme.get(f"{NETWORKS}/blue").json, transport_to(cluster)
    async with provisioning_on(transport) as provisioning:
        assert marked(ring0, tenant)
        provider, owner = PROVIDERS.of(network), TenantNetworkId(TenantId(tenant), "blue")
        await provider.provision(provisioning, owner, network)
        assert writes(transport) == []
        backing = provider.backing(provisioning.backings, owner, network)
        assert backing is not None and backing.vni == network["status"]["vni"]


@pytest.mark.parametrize("kind", TYPES)
async def test_a_network_that_nothing_was_made_for_has_nothing_to_release(
    cluster: LocalServer, ring0: Caller, acme: Caller, tenant: str, kind: str
) -> None:
    ready(acme, "blue", kind)
    transport = transport_to(cluster)
    async with provisioning_on(transport) as provisioning:
        assert marked(ring0, tenant)
        for provider in PROVIDERS:
            assert (
                await provider.release(provisioning.backings, TenantNetworkId(TenantId(tenant), "red")) == ""
            )
        assert writes(transport) == [], "others' networks are left alone"


@pytest.mark.parametrize("kind", TYPES)
def test_nothing_is_left_of_a_network_that_is_deleted(
    ring0: Caller, acme: Caller, tenant: str, kind: str
) -> None:
    now = ready(acme, "blue", kind)
    attached(acme, ring0, "blue", len(PROVIDERS.of({"spec": {"type": kind}}).interfaces({"spec": {}})))
    assert acme.delete(f"{NETWORKS}/blue").status == 200
    in_phase(acme, "blue", "Terminating")
    assert marked(ring0, tenant), "while a pod is in it, all of it is there"
    acme.delete(f"{PODS}/web?gracePeriodSeconds=0")
    wait_until(lambda: acme.get(f"{NETWORKS}/blue").status == 404)
    wait_until(lambda: not marked(ring0, tenant))
    assert ring0.get(f"{MIZAR}/dividers/{divider_name(now['vni'], 0)}").status == 404, "its number is free"


@pytest.mark.parametrize(("kind", "vpc"), [("flat", "vpc0"), ("mizar", "lan0")])
def test_a_vpc_that_one_type_shares_is_refused_to_another(acme: Caller, kind: str, vpc: str) -> None:
    acme.post(NETWORKS, {"metadata": {"name": "squat"}, "spec": {"type": "vpc", "vpcID": vpc}})
    assert in_phase(acme, "squat", "Failed")["message"] == f'VPC "{vpc}" is shared by all {kind} networks'
