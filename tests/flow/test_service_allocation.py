"""The answer that creates a service has its addresses and ports; whatever ends the service frees them."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import IP_ADDRESSES
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore
from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.server import Caller, LocalServer

SERVICES = "/api/v1/namespaces/default/services"
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
ENDPOINTS = "/apis/mizar.com/v1/endpoints"
_NUMBERS = count(1)


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        pytest.param("etcd", marks=pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        with LocalServer(directory) as running:
            yield running
        return
    with (
        EtcdCluster(tmp_path_factory.mktemp("cluster")) as cluster,
        LocalServer(directory, *cluster.options()) as running,
    ):
        yield running


@pytest.fixture
def tenant(server: LocalServer) -> Caller:
    """A tenant with a network whose range has thirteen addresses more than one needs to choose one."""
    made = server.make_tenant(f"shop-{next(_NUMBERS)}")
    make_network(made, "default", service={"cidrs": ["10.7.0.0/27"]})
    return made


def make_network(tenant: Caller, name: str, **spec: object) -> None:
    answer = tenant.post(NETWORKS, {"metadata": {"name": name}, "spec": {"type": "flat", **spec}})
    assert answer.status == 201, answer.body


def make(tenant: Caller, name: str, **spec: object) -> Object:
    """The spec in the answer."""
    answer = post(tenant, name, **spec)
    assert answer.status == 201, answer.body
    made: Object = answer.json["spec"]
    return made


def post(tenant: Caller, name: str, **spec: object) -> Any:
    return tenant.post(SERVICES, {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}})


def message(answer: Any, status: int) -> str:
    assert answer.status == status, answer.body
    return str(answer.json["message"])


def claims(tenant: Caller) -> dict[str, str]:
    """Claimed addresses, each with its service."""
    items = tenant.get(ADDRESSES).json["items"]
    return {each["metadata"]["name"]: each["spec"]["parentRef"]["name"] for each in items}


def ports(server: LocalServer, tenant: Caller) -> set[str]:
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    items = server.system.get(ENDPOINTS).json["items"]
    return {each["metadata"]["name"] for each in items if each["spec"]["pod"].startswith(f"{name}/")}


def test_the_answer_has_the_address(tenant: Caller) -> None:
    spec = make(tenant, "web")
    assert spec["clusterIP"].startswith("10.7.0.") and spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert claims(tenant) == {spec["clusterIP"]: "web"}
    [claim] = tenant.get(ADDRESSES).json["items"]
    assert claim["spec"]["parentRef"] == {"resource": "services", "namespace": "default", "name": "web"}
    assert claim["metadata"]["uid"] and claim["metadata"]["creationTimestamp"]
    assert tenant.get(claim["metadata"]["selfLink"]).json == claim
    managed = tenant.get(f"{SERVICES}/web").json["metadata"]["managedFields"]
    assert "f:clusterIP" not in managed[0]["fieldsV1"]["f:spec"], "the client owns what it did not send"
    assert tenant.delete(f"{SERVICES}/web").status == 200
    assert claims(tenant) == {}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"clusterIP": "None", "selector": {"a": "b"}}, {"clusterIP": "None", "ipFamilies": ["IPv4"]}),
        ({"type": "ExternalName", "externalName": "a.example"}, {"clusterIP": None, "ipFamilies": None}),
        ({"ipFamilyPolicy": "PreferDualStack"}, {"ipFamilies": ["IPv4"]}),
        ({"clusterIP": "10.7.0.9"}, {"clusterIP": "10.7.0.9", "clusterIPs": ["10.7.0.9"]}),
    ],
)
def test_what_a_service_gets_follows_from_its_spec(tenant: Caller, spec: Object, expected: Object) -> None:
    made = make(tenant, "web", **spec)
    assert {field: made.get(field) for field in expected} == expected
    has_address = made.get("clusterIP") not in (None, "None")
    assert claims(tenant) == ({made["clusterIP"]: "web"} if has_address else {})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"clusterIP": "10.7.0.5"},
            'spec.clusterIPs: Invalid value: ["10.7.0.5"]: failed to allocate IP 10.7.0.5: '
            "provided IP is already allocated",
        ),
        (
            {"clusterIP": "10.8.0.5"},
            'spec.clusterIPs: Invalid value: ["10.8.0.5"]: failed to allocate IP 10.8.0.5: the provided IP '
            "(10.8.0.5) is not in the valid range. The range of valid IPs is 10.7.0.0/27",
        ),
        (
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
            "this cluster is not configured for dual-stack services",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]},
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. "
            "The range of valid ports is 30000-32767",
        ),
    ],
)
def test_what_cannot_be_given_is_refused_as_in_kubernetes(
    tenant: Caller, spec: Object, expected: str
) -> None:
    make(tenant, "first", clusterIP="10.7.0.5")
    assert message(post(tenant, "web", **spec), 422) == f'Service "web" is invalid: {expected}'
    assert claims(tenant) == {"10.7.0.5": "first"}


def test_networks_of_one_tenant_may_have_the_same_addresses(tenant: Caller) -> None:
    make_network(tenant, "blue", service={"cidrs": ["10.7.0.0/27"]})
    for name, network in (("one", "default"), ("two", "blue")):
        assert make(tenant, name, clusterIP="10.7.0.5", network=network)["clusterIP"] == "10.7.0.5"
    assert claims(tenant) == {"10.7.0.5": "one", "10.7.0.5.blue": "two"}


def test_every_address_of_a_range_is_given_once_and_then_it_is_full(tenant: Caller) -> None:
    given = {make(tenant, f"s{number}")["clusterIP"] for number in range(30)}
    assert given == {f"10.7.0.{number}" for number in range(1, 31)}
    full = "Internal error occurred: failed to allocate a serviceIP: range is full"
    assert message(post(tenant, "more"), 500) == full
    freed = tenant.get(f"{SERVICES}/s7").json["spec"]["clusterIP"]
    assert tenant.delete(f"{SERVICES}/s7").status == 200
    assert make(tenant, "more")["clusterIP"] == freed


def test_a_write_that_fails_or_is_only_tried_claims_nothing(tenant: Caller) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"services": "0"}}}
    assert tenant.post("/api/v1/namespaces/default/resourcequotas", quota).status == 201
    assert "exceeded quota" in message(post(tenant, "web", type="NodePort"), 403)
    assert tenant.delete("/api/v1/namespaces/default/resourcequotas/none").status == 200
    body = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    tried = tenant.post(f"{SERVICES}?dryRun=All", body)
    assert tried.status == 201 and tried.json["spec"]["clusterIP"]
    assert claims(tenant) == {}


def test_a_type_change_takes_and_returns_what_the_type_has(server: LocalServer, tenant: Caller) -> None:
    def change(**spec: object) -> Object:
        answer = tenant.patch(f"{SERVICES}/web", {"spec": spec})
        assert answer.status == 200, answer.body
        changed: Object = answer.json["spec"]
        return changed

    make(tenant, "web", type="ExternalName", externalName="a.example")
    address = change(type="ClusterIP", externalName=None)["clusterIP"]
    assert claims(tenant) == {address: "web"}
    port = change(type="NodePort")["ports"][0]["nodePort"]
    assert ports(server, tenant) == {f"port-{port}-tcp"} and claims(tenant) == {address: "web"}
    health = change(type="LoadBalancer", externalTrafficPolicy="Local")["healthCheckNodePort"]
    assert ports(server, tenant) == {f"port-{port}-tcp", f"port-{health}-tcp"}
    back = change(type="ClusterIP")
    assert back["clusterIP"] == address and "nodePort" not in back["ports"][0]
    assert ports(server, tenant) == set() and "healthCheckNodePort" not in back
    change(type="ExternalName", externalName="a.example")
    assert claims(tenant) == {}


def test_both_protocols_of_a_port_get_the_same_node_port(server: LocalServer, tenant: Caller) -> None:
    both = [{"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53}]
    numbers = {each["nodePort"] for each in make(tenant, "dns", type="NodePort", ports=both)["ports"]}
    [number] = numbers
    assert ports(server, tenant) == {f"port-{number}-udp", f"port-{number}-tcp"}
    other = [{"port": 80, "nodePort": number}]
    assert f"{number}: provided port is already allocated" in message(
        post(tenant, "web", type="NodePort", ports=other), 422
    )
    assert tenant.delete(f"{SERVICES}").status == 200
    assert ports(server, tenant) == set()


def test_a_service_that_waits_for_its_finalizer_keeps_what_it_has(
    server: LocalServer, tenant: Caller
) -> None:
    body = {
        "metadata": {"name": "web", "finalizers": ["example.com/wait"]},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    }
    assert tenant.post(SERVICES, body).status == 201
    assert tenant.delete(f"{SERVICES}/web").json["metadata"]["deletionTimestamp"]
    assert len(claims(tenant)) == len(ports(server, tenant)) == 1
    assert tenant.patch(f"{SERVICES}/web", {"metadata": {"finalizers": None}}).status == 200
    assert claims(tenant) == {} and ports(server, tenant) == set()


def test_the_address_of_a_service_cannot_be_taken_from_it(tenant: Caller) -> None:
    address = make(tenant, "web")["clusterIP"]
    assert 'it is the cluster IP of the service "default/web"' in message(
        tenant.delete(f"{ADDRESSES}/{address}"), 403
    )
    assert tenant.patch(f"{ADDRESSES}/{address}", {"spec": {"parentRef": {"name": "me"}}}).status == 422


def test_an_address_may_be_reserved_for_something_else(tenant: Caller) -> None:
    parent = {"group": "example.com", "resource": "routers", "name": "edge"}
    for name in ("10.7.0.5", "fe80::42:1dff:fe84:f9e2", "10.7.0.5.blue"):
        body = {"metadata": {"name": name}, "spec": {"parentRef": parent}}
        assert tenant.post(ADDRESSES, body).status == 201, name
    for name in ("web", "10.7.0.05", "FE80::1", "10.7.0.6.-"):
        body = {"metadata": {"name": name}, "spec": {"parentRef": parent}}
        assert tenant.post(ADDRESSES, body).status == 422, name
    assert "already allocated" in message(post(tenant, "web", clusterIP="10.7.0.5"), 422)
    assert tenant.delete(f"{ADDRESSES}/10.7.0.5").status == 200
    make(tenant, "web", clusterIP="10.7.0.5")


def test_a_service_gets_its_address_with_the_next_write_when_its_network_is_there(tenant: Caller) -> None:
    assert "clusterIP" not in make(tenant, "early", network="later")
    make_network(tenant, "later")
    spec = tenant.patch(f"{SERVICES}/early", {"metadata": {"labels": {"a": "b"}}}).json["spec"]
    assert spec["clusterIP"].startswith("10.96.") and spec["ipFamilies"] == ["IPv4"]
    assert claims(tenant) == {f"{spec['clusterIP']}.later": "early"}


def test_a_tenant_gets_its_share_of_node_ports_even_by_requests_at_once(
    server: LocalServer, tenant: Caller
) -> None:
    name = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    quota = {"spec": {"quota": {"hard": {"services.nodeports": "3"}}}}
    assert server.system.patch(f"/api/v1/tenants/{name}", quota).status == 200
    many = [{"name": f"p{each}", "port": 80 + each} for each in range(4)]
    assert "services.nodeports" in message(post(tenant, "many", type="NodePort", ports=many), 403)
    make(tenant, "some", type="NodePort", ports=many[:3])
    assert post(tenant, "more", type="NodePort").status == 403
    assert len(ports(server, tenant)) == 3


async def test_addresses_from_before_there_were_claims_are_claimed_when_the_server_starts(
    tmp_path: Path,
) -> None:
    """Without that, another service could get the address of an older one."""
    server = LocalServer(tmp_path)
    server.start()
    tenant = server.make_tenant("acme")
    make_network(tenant, "default")
    address = make(tenant, "web")["clusterIP"]
    server.stop()
    store = await SqliteStore.open(tmp_path / "store.db")
    await store.write([WriteOp(Key(IP_ADDRESSES, TenantId("acme"), "", address), None)])
    await store.close()
    server.start()
    tenant = server.as_tenant("acme")
    assert claims(tenant) == {address: "web"}
    assert post(tenant, "rival", clusterIP=address).status == 422
    assert tenant.delete(f"{SERVICES}/web").status == 200
    assert claims(tenant) == {}
    server.stop()
