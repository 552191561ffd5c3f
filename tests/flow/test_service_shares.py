"""Node ports and load balancer addresses, with a greedy tenant and one that wants its own."""

from collections.abc import Iterator

import pytest

from alcove.controllers.controller import Controller
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.services import tenant_shares
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.controllers.services.balancers import LoadBalancerController
from alcove.controllers.services.nodeports import NodePortController
from alcove.testing.controllers import RunningControllers
from alcove.testing.nodenetworks import register
from alcove.testing.server import Caller, LocalServer, wait_until

MIZAR = "/apis/mizar.com/v1"
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
SERVICES = "/api/v1/namespaces/default/services"
CONTROLLERS: tuple[type[Controller], ...] = (
    VpcController, SubnetController, EndpointController, NetworkController, ServiceAddressController,
    NodePortController, LoadBalancerController,
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("shares")) as running:
        register(running, "node-1", "192.0.2.10")
        with RunningControllers(running.admin_kubeconfig, CONTROLLERS):
            yield running


def make_tenant(server: LocalServer, name: str) -> Caller:
    tenant = server.make_tenant(name)
    assert tenant.post(NETWORKS, {"metadata": {"name": "net"}, "spec": {"type": "flat"}}).status == 201
    wait_until(lambda: (tenant.get(f"{NETWORKS}/net").json.get("status") or {}).get("phase") == "Ready")
    return tenant


def make_service(tenant: Caller, name: str, ports: int = 1, **spec: object) -> None:
    wanted = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    body = {"metadata": {"name": name}, "spec": {"network": "net", "ports": wanted, **spec}}
    assert tenant.post(SERVICES, body).status == 201


def node_ports(tenant: Caller, name: str) -> list[int]:
    ports = tenant.get(f"{SERVICES}/{name}").json["spec"]["ports"]
    return [each["nodePort"] for each in ports if each.get("nodePort")]


def ingress(tenant: Caller, name: str) -> list[str]:
    status = tenant.get(f"{SERVICES}/{name}").json.get("status") or {}
    return [each["ip"] for each in (status.get("loadBalancer") or {}).get("ingress") or ()]


def failure(tenant: Caller, name: str) -> str:
    """The message of the Service's event FailedProvision."""
    events = tenant.get("/api/v1/namespaces/default/events").json["items"]
    return next(
        (
            each["message"]
            for each in events
            if (each["reason"], each["involvedObject"]["name"]) == ("FailedProvision", name)
        ),
        "",
    )


def test_a_tenant_has_so_many_node_ports_and_the_next_one_still_gets_its_own(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_shares, "NODE_PORTS_PER_TENANT_MAX", 4)
    greedy, quiet = make_tenant(server, "greedy-ports"), make_tenant(server, "quiet-ports")
    make_service(greedy, "first", 3, type="NodePort")
    wait_until(lambda: len(node_ports(greedy, "first")) == 3)
    make_service(greedy, "more", 2, type="NodePort")
    wait_until(lambda: failure(greedy, "more"))
    assert failure(greedy, "more") == (
        "exceeded quota: tenant share, requested: services.nodeports=2, used: services.nodeports=3, "
        "limited: services.nodeports=4"
    )
    assert not node_ports(greedy, "more"), "nothing half-made"
    make_service(quiet, "own", 2, type="NodePort")
    wait_until(lambda: len(node_ports(quiet, "own")) == 2)
    quota = {"spec": {"quota": {"hard": {"services.nodeports": "5"}}}}
    assert server.system.patch("/api/v1/tenants/greedy-ports", quota).status == 200
    assert greedy.patch(f"{SERVICES}/more", {"metadata": {"labels": {"again": "please"}}}).status == 200
    wait_until(lambda: len(node_ports(greedy, "more")) == 2)


def test_many_services_at_once_get_no_more_than_one_after_the_other(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_shares, "NODE_PORTS_PER_TENANT_MAX", 6)
    tenant = make_tenant(server, "hasty")
    names = [f"s{number}" for number in range(8)]
    for name in names:
        make_service(tenant, name, 2, type="NodePort")
    wait_until(lambda: sum(bool(node_ports(tenant, each) or failure(tenant, each)) for each in names) == 8)
    assert sum(len(node_ports(tenant, each)) for each in names) == 6


def test_a_tenant_leaves_half_of_a_pool_of_addresses_to_others(server: LocalServer) -> None:
    vpc = {"metadata": {"name": "pool"}, "spec": {"ip": "198.51.100.0", "prefix": 24}}
    assert server.system.post(f"{MIZAR}/vpcs", vpc).status == 201
    metadata = {"name": "pool", "labels": {"alcove.io/outside": "true"}}
    pool = {"metadata": metadata, "spec": {"ip": "198.51.100.0", "prefix": 29, "vpc": "pool"}}
    assert server.system.post(f"{MIZAR}/subnets", pool).status == 201
    greedy, quiet = make_tenant(server, "greedy-addresses"), make_tenant(server, "quiet-addresses")
    names = [f"s{number}" for number in range(6)]
    for name in names:
        make_service(greedy, name, type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    wait_until(lambda: all(ingress(greedy, each) or failure(greedy, each) for each in names))
    assert 1 <= sum(bool(ingress(greedy, each)) for each in names) <= 3
    assert all(
        "exceeded quota: tenant share, requested: services.loadbalancers=1" in failure(greedy, each)
        for each in names
        if not ingress(greedy, each)
    )
    make_service(quiet, "own", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    wait_until(lambda: ingress(quiet, "own"))
