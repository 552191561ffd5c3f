"""Controllers that are cut off at any moment, again and again: the next start repairs what they left, and nothing leaks."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import PodNetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
MIZAR = "/apis/mizar.com/v1"
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("crash")
    with LocalServer(directory) as server:
        yield server


def live(cluster: LocalServer, chance: random.Random) -> None:
    """A short life, cut off wherever it is; its requests may or may not have been done. Sometimes two work
    at once, as when one does not know yet that it no longer leads."""
    path = cluster.admin_kubeconfig
    with RunningControllers(path, CONTROLLERS), contextlib.ExitStack() as second:
        if chance.random() < 0.5:
            second.enter_context(RunningControllers(path, CONTROLLERS))
        time.sleep(chance.uniform(0.0, 0.2))


def items(caller: Caller, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = caller.get(path).json["items"]
    return found


@pytest.mark.parametrize(
    ("seed", "lives"), [(1, 3), *(pytest.param(seed, 8, marks=pytest.mark.slow) for seed in range(2, 7))]
)
def test_everything_comes_to_its_place_and_goes_without_a_trace(
    cluster: LocalServer, seed: int, lives: int
) -> None:
    chance, name = random.Random(seed), f"t{seed}"
    tenant, ring0 = cluster.make_tenant(name), cluster.system
    for number in range(6):
        spec = {"type": "flat"} if number % 3 == 0 else {"type": "mizar", "ip": "10.0.0.0", "prefix": 27}
        tenant.post(NETWORKS, {"metadata": {"name": f"n{number}"}, "spec": spec})
        for each in range(4):
            container = {"name": "c", "image": "i"}
            body = {
                "metadata": {"name": f"p{number}-{each}"},
                "spec": {"network": f"n{number}", "containers": [container]},
            }
            assert tenant.post("/api/v1/namespaces/default/pods", body).status == 201
        service = {
            "metadata": {"name": f"s{number}"},
            "spec": {"network": f"n{number}", "ports": [{"port": 80}]},
        }
        assert tenant.post("/api/v1/namespaces/default/services", service).status == 201
    for _ in range(lives):
        live(cluster, chance)
    with RunningControllers(cluster.admin_kubeconfig, CONTROLLERS):
        wait_until(lambda: all(each["status"]["phase"] == "Ready" for each in items(tenant, NETWORKS)))
        wait_until(lambda: is_in_place(ring0, tenant, name))
    for path in (
        "/api/v1/namespaces/default/pods?gracePeriodSeconds=0",
        "/api/v1/namespaces/default/services",
        NETWORKS,
    ):
        tenant.delete(path)
    for _ in range(lives):
        live(cluster, chance)
    with RunningControllers(cluster.admin_kubeconfig, CONTROLLERS):
        wait_until(lambda: not items(tenant, NETWORKS))
        wait_until(lambda: not left(ring0, name))
    assert not items(tenant, "/apis/networking.k8s.io/v1/ipaddresses")


def is_in_place(ring0: Caller, tenant: Caller, name: str) -> bool:
    """Every pod has one address, every service one, none is had twice, and networks have one VPC each."""
    claims = items(tenant, "/apis/networking.k8s.io/v1/ipaddresses")
    endpoints = [
        each for each in items(ring0, f"{MIZAR}/endpoints") if each["spec"]["pod"].startswith(f"{name}/")
    ]
    by_owner = Counter((each["spec"]["type"], each["spec"]["pod"]) for each in endpoints)
    addresses = Counter((each["spec"]["vni"], each["spec"]["ip"]) for each in endpoints)
    assert max(addresses.values(), default=1) == 1, "given out twice"
    services = [
        each
        for path in ("default", "kube-system")
        for each in items(tenant, f"/api/v1/namespaces/{path}/services")
    ]
    are_addressed = all(each["spec"].get("clusterIP") for each in services)
    vnis = [each["spec"]["vni"] for each in items(ring0, f"{MIZAR}/dividers")]
    assert len(vnis) == len(set(vnis)), "a number given out twice"
    return set(by_owner.values()) == {1} and len(by_owner) == 6 * 4 and len(claims) == 6 * 3 and are_addressed


def left(ring0: Caller, name: str) -> list[str]:
    found = []
    for resource in ("vpcs", "subnets", "endpoints", "dividers", "bouncers"):
        for each in items(ring0, f"{MIZAR}/{resource}"):
            if f"{name}-n" in str(each) or f"{name}/" in str(each):
                found.append(f"{resource}/{each['metadata']['name']}")
    return found
