"""Node ports and load balancer addresses, with a greedy tenant and one that wants its own."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from alcove.controllers.controller import Controller
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.controllers.services.balancers import LoadBalancerController
from alcove.controllers.services.nodeports import NodePortController
from alcove.testing.controllers import RunningControllers
from alcove.testing.nodenetworks import register
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until

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


def post(tenant: Caller, name: str, ports: int) -> ServerResponse:
    """Creates a service with so many node ports."""
    wanted = [{"name": f"p{number}", "port": 80 + number} for number in range(ports)]
    body = {"metadata": {"name": name}, "spec": {"network": "net", "ports": wanted, "type": "NodePort"}}
    return tenant.post(SERVICES, body)


def test_a_tenant_has_so_many_node_ports_and_the_next_one_still_gets_its_own(server: LocalServer) -> None:
    greedy, quiet = make_tenant(server, "greedy-ports"), make_tenant(server, "quiet-ports")
    for number in range(4):
        assert post(greedy, f"s{number}", 63).status == 201
    refused = post(greedy, "more", 5)
    assert refused.status == 403
    assert refused.json["message"] == (
        'services "more" is forbidden: exceeded quota: tenant share, requested: services.nodeports=5, '
        "used: services.nodeports=252, limited: services.nodeports=256"
    )
    assert post(quiet, "own", 2).status == 201
    quota = {"spec": {"quota": {"hard": {"services.nodeports": "257"}}}}
    assert server.system.patch("/api/v1/tenants/greedy-ports", quota).status == 200
    assert post(greedy, "more", 5).status == 201


def test_many_services_at_once_get_no_more_than_one_after_the_other(server: LocalServer) -> None:
    tenant = make_tenant(server, "hasty")

    def create(number: int) -> int:
        caller = Caller(tenant.kubeconfig)
        try:
            return post(caller, f"s{number}", 60).status
        finally:
            caller.close()

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(create, range(8)))
    assert statuses == {201: 4, 403: 4}


def test_a_service_with_more_node_ports_than_fit_into_a_transaction_is_refused(server: LocalServer) -> None:
    refused = post(make_tenant(server, "wide"), "wide", 65)
    assert refused.status == 422
    assert "spec.ports: Too many: 65: must have at most 64 items" in refused.json["message"]


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
