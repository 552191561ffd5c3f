"""What a service, network or gateway holds in ring0 is released when it is no longer needed, also when nobody was
there to see the change."""

from collections.abc import Iterator
from itertools import count

import pytest

from alcove.api.objects import Object
from alcove.controllers.controller import Controller
from alcove.controllers.network import networks
from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.gateways import GatewayController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import PodNetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.controllers.services.balancers import LoadBalancerController
from alcove.controllers.services.nodeports import NodePortController
from alcove.testing.controllers import RunningControllers
from alcove.testing.nodenetworks import register
from alcove.testing.server import Caller, LocalServer, wait_until

MIZAR = "/apis/mizar.com/v1"
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLERS: tuple[type[Controller], ...] = (
    VpcController, SubnetController, EndpointController, DropletController, GatewayController, NetworkController,
    PodNetworkController, OrphanController, ServiceAddressController, NodePortController, LoadBalancerController,
)  # fmt: skip
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    with LocalServer(tmp_path_factory.mktemp("claims")) as running:
        register(running, "node-1", "192.0.2.10")
        yield running


@pytest.fixture
def tenant(server: LocalServer) -> Caller:
    return server.make_tenant(f"holder-{next(_NUMBERS)}")


def controllers(server: LocalServer) -> RunningControllers:
    return RunningControllers(server.admin_kubeconfig, CONTROLLERS)


def doors(server: LocalServer, tenant: Caller) -> list[str]:
    """The node ports and external addresses that the tenant's services hold."""
    found = server.system.get(f"{MIZAR}/endpoints?fieldSelector=spec.type%3Ddoor").json["items"]
    prefix = f"{name_of(tenant)}/"
    return [each["metadata"]["name"] for each in found if each["spec"]["pod"].startswith(prefix)]


def name_of(tenant: Caller) -> str:
    return str(tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"])


def make_network(tenant: Caller, name: str = "net", **spec: object) -> None:
    wanted = {"metadata": {"name": name}, "spec": {"type": "flat", **spec}}
    assert tenant.post(NETWORKS, wanted).status == 201
    wait_until(lambda: (tenant.get(f"{NETWORKS}/{name}").json.get("status") or {}).get("phase") == "Ready")


def make_service(tenant: Caller, name: str, **spec: object) -> None:
    wanted = {"metadata": {"name": name}, "spec": {"network": "net", "ports": [{"port": 80}], **spec}}
    assert tenant.post(SERVICES, wanted).status == 201


def make_pod(server: LocalServer, tenant: Caller, name: str, **spec: object) -> None:
    """A pod on node-1, with an address."""
    body = {
        "metadata": {"name": name},
        "spec": {"network": "net", "containers": [{"name": "c", "image": "i"}], **spec},
    }
    assert tenant.post(PODS, body).status == 201
    home = name_of(tenant)
    binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-1"}}
    path = f"/api/v1/tenants/{home}/namespaces/default/pods/{name}/binding"
    assert server.system.post(path, binding).status == 201

    def is_placed() -> bool:
        found = server.system.get(f"{MIZAR}/endpoints").json["items"]
        return any(
            each["spec"]["pod"] == f"{home}/default/{name}" and each["spec"].get("droplet") for each in found
        )

    wait_until(is_placed)


def make_outside(server: LocalServer, name: str, third: int) -> None:
    """A pool of addresses for load balancers."""
    vpc = {"metadata": {"name": name}, "spec": {"ip": f"198.51.{third}.0", "prefix": 24}}
    assert server.system.post(f"{MIZAR}/vpcs", vpc).status == 201
    metadata = {"name": name, "labels": {"alcove.io/outside": "true"}}
    pool = {"metadata": metadata, "spec": {"ip": f"198.51.{third}.0", "prefix": 29, "vpc": name}}
    assert server.system.post(f"{MIZAR}/subnets", pool).status == 201


def ingress(tenant: Caller, name: str) -> list[Object]:
    status = tenant.get(f"{SERVICES}/{name}").json.get("status") or {}
    return (status.get("loadBalancer") or {}).get("ingress") or []


@pytest.mark.parametrize("kind", ["NodePort", "LoadBalancer"])
def test_a_service_that_changed_its_type_while_no_controller_ran_returns_its_claims(
    server: LocalServer, tenant: Caller, kind: str
) -> None:
    """Its port, or its address, stayed taken from everybody for as long as the service lived."""
    if kind == "LoadBalancer":
        make_outside(server, "unseen", 101)
    with controllers(server):
        make_network(tenant)
        make_service(tenant, "web", type=kind)
        wait_until(lambda: len(doors(server, tenant)) == (1 if kind == "NodePort" else 2))
        wait_until(lambda: kind == "NodePort" or ingress(tenant, "web"))
        # A network that becomes ready enqueues its services; one that is terminating does not.
        assert tenant.delete(f"{NETWORKS}/net").status == 200
        wait_until(lambda: tenant.get(f"{NETWORKS}/net").json["status"]["phase"] == "Terminating")
    assert tenant.patch(f"{SERVICES}/web", {"spec": {"type": "ClusterIP"}}).status == 200
    with controllers(server):
        wait_until(lambda: not doors(server, tenant))
        wait_until(lambda: not ingress(tenant, "web"))


def test_an_address_that_was_taken_away_is_claimed_again_and_the_status_says_which(
    server: LocalServer, tenant: Caller
) -> None:
    """The status went on naming an address that another service could get."""
    make_outside(server, "taken", 102)
    with controllers(server):
        make_network(tenant)
        make_service(tenant, "web", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
        wait_until(lambda: ingress(tenant, "web"))
        [claim] = doors(server, tenant)

        def claimed_and_shown() -> str:
            """The address that the status names, once it is the claimed one."""
            [name], [shown] = doors(server, tenant) or [""], ingress(tenant, "web") or [{"ip": ""}]
            spec = server.system.get(f"{MIZAR}/endpoints/{name}").json["spec"] if name else {"ip": None}
            return str(shown["ip"]) if shown["ip"] == spec["ip"] else ""

        stranger = {"network": "net", "type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}
        assert server.system.delete(f"{MIZAR}/endpoints/{claim}").status == 200
        address = wait_until(claimed_and_shown)
        make_service(tenant, "other", **stranger)
        wait_until(lambda: ingress(tenant, "other"))
        assert ingress(tenant, "other")[0]["ip"] != address


def test_a_status_does_not_name_an_address_that_cannot_be_claimed_again(
    server: LocalServer, tenant: Caller
) -> None:
    make_outside(server, "lost", 103)
    with controllers(server):
        make_network(tenant)
        make_service(
            tenant,
            "web",
            type="LoadBalancer",
            allocateLoadBalancerNodePorts=False,
            loadBalancerIP="198.51.103.3",
        )
        wait_until(lambda: ingress(tenant, "web") == [{"ip": "198.51.103.3", "ipMode": "VIP"}])
    [claim] = doors(server, tenant)
    endpoint = server.system.get(f"{MIZAR}/endpoints/{claim}").json
    assert server.system.delete(f"{MIZAR}/endpoints/{claim}").status == 200
    metadata = {"name": claim}
    assert (
        server.system.post(f"{MIZAR}/endpoints", {"metadata": metadata, "spec": endpoint["spec"]}).status
        == 201
    )
    with controllers(server):
        wait_until(lambda: not ingress(tenant, "web"))
    assert server.system.delete(f"{MIZAR}/endpoints/{claim}").status == 200


def test_a_flat_network_that_lost_its_finalizer_returns_its_number(
    server: LocalServer, tenant: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number was free for another tenant's network while pods were still on it; it goes after the last of
    them."""
    monkeypatch.setattr(networks, "RETRY_SECONDS", 0.5)
    with controllers(server):
        make_network(tenant)
        make_pod(server, tenant, "web")
        vni = tenant.get(f"{NETWORKS}/net").json["status"]["vni"]
        assert server.system.get(f"{MIZAR}/dividers/vni-{vni}-d0").status == 200
    assert tenant.delete(f"{NETWORKS}/net").status == 200
    assert tenant.patch(f"{NETWORKS}/net", {"metadata": {"finalizers": None}}).status == 200
    with controllers(server):
        wait_until(lambda: tenant.get(f"{NETWORKS}/net").status == 404)
        assert server.system.get(f"{MIZAR}/dividers/vni-{vni}-d0").status == 200, "a pod is still on it"
        assert tenant.delete(f"{PODS}/web?gracePeriodSeconds=0").status == 200
        wait_until(lambda: server.system.get(f"{MIZAR}/dividers/vni-{vni}-d0").status == 404)


def test_a_gateway_leaves_a_subnet_that_is_being_deleted(server: LocalServer, tenant: Caller) -> None:
    """Its address kept the subnet from being deleted for as long as the network had node ports."""
    with controllers(server):
        make_network(tenant, type="mizar", ip="10.0.0.0", prefix=16, subnets=["first", "second"])
        make_service(tenant, "web", type="NodePort")
        make_pod(server, tenant, "old", nics=[{"subnet": "first"}])
        wait_until(lambda: gateway_subnets(server) == ["first"])
        make_pod(server, tenant, "new", nics=[{"subnet": "second"}])
        assert gateway_subnets(server) == ["first"], "moved without need"
        assert server.system.delete(f"{MIZAR}/subnets/first").status == 200
        wait_until(lambda: gateway_subnets(server) == ["second"])


def gateway_subnets(server: LocalServer) -> list[str]:
    found = server.system.get(f"{MIZAR}/endpoints").json["items"]
    return [each["spec"]["net"] for each in found if each["spec"]["type"] == "gateway"]
