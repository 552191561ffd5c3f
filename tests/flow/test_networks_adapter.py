"""Networks, pods and services of tenants on a real API server, down to the VPC provider's objects."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.controllers.network import pods
from alcove.controllers.network.api_endpoints import ApiEndpointsController
from alcove.controllers.network.droplets import DropletController
from alcove.controllers.network.networks import NetworkController
from alcove.controllers.network.orphans import OrphanController
from alcove.controllers.network.pods import WOKEN_MAX, PodNetworkController
from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.controllers.network.service_cidrs import ServiceCidrController
from alcove.controllers.services.addresses import ServiceAddressController
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
MIZAR = "/apis/mizar.com/v1"
READINESS = "arktos.futurewei.com/network-readiness"
CONTROLLERS = (
    VpcController,
    SubnetController,
    EndpointController,
    DropletController,
    NetworkController,
    ApiEndpointsController,
    ServiceCidrController,
    PodNetworkController,
    OrphanController,
    ServiceAddressController,
)
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("adapter")
    with LocalServer(directory) as server, RunningControllers(server.admin_kubeconfig, CONTROLLERS):
        yield server


@pytest.fixture
def ring0(cluster: LocalServer) -> Caller:
    return cluster.system


@pytest.fixture
def name() -> str:
    """A tenant's name, or part of a VPC's, that no other test has."""
    return f"t{next(_NUMBERS)}"


@pytest.fixture
def acme(cluster: LocalServer, name: str) -> Caller:
    return cluster.make_tenant(name)


def network(caller: Caller, name: str, **spec: Any) -> None:
    answer = caller.post(NETWORKS, {"metadata": {"name": name}, "spec": {"type": "mizar", **spec}})
    assert answer.status == 201, answer.body


def status(caller: Caller, name: str) -> dict[str, Any]:
    found: dict[str, Any] = caller.get(f"{NETWORKS}/{name}").json.get("status", {})
    return found


def in_phase(caller: Caller, name: str, phase: str, message: str = "") -> dict[str, Any]:
    def check() -> dict[str, Any] | None:
        now = status(caller, name)
        return now if now.get("phase") == phase and message in now.get("message", "") else None

    reached: dict[str, Any] = wait_until(check)
    return reached


def ready(caller: Caller, name: str, **spec: Any) -> dict[str, Any]:
    network(caller, name, **spec)
    return in_phase(caller, name, "Ready")


def pod(caller: Caller, name: str, **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    answer = caller.post(PODS, body)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def endpoints(ring0: Caller, made: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a pod or service."""
    items = ring0.get(f"{MIZAR}/endpoints?labelSelector=mizar.com/owner%3D{made['metadata']['uid']}").json[
        "items"
    ]
    return sorted(items, key=lambda each: str(each["spec"].get("itf")))


def addresses(ring0: Caller, made: dict[str, Any], many: int = 1) -> list[str]:
    found = wait_until(lambda: len(now := endpoints(ring0, made)) == many and now)
    return [each["spec"]["ip"] for each in found]


def annotations(caller: Caller, name: str) -> dict[str, str]:
    found: dict[str, str] = caller.get(f"{PODS}/{name}").json["metadata"].get("annotations", {})
    return found


def event_message(caller: Caller, about: str, reason: str) -> str:
    """The message of an event about an object."""
    path = "/api/v1/namespaces/default/events"

    def check() -> str | None:
        items = caller.get(path).json["items"]
        found = [
            each for each in items if each["involvedObject"]["name"] == about and each["reason"] == reason
        ]
        return str(found[-1]["message"]) if found else None

    message: str = wait_until(check)
    return message


def ring0_objects(ring0: Caller, mark: str) -> list[str]:
    """What is left in ring0 of something with this in its name, mark or purpose."""
    left = []
    for resource in ("vpcs", "subnets", "endpoints", "dividers", "bouncers"):
        for each in ring0.get(f"{MIZAR}/{resource}").json["items"]:
            text = f"{each['metadata']['name']} {each['metadata'].get('annotations')} {each['spec']}"
            left += [f"{resource}/{each['metadata']['name']}"] if mark in text else []
    return left


# Networks


def test_a_flat_network_has_a_number_and_services_and_nothing_else(
    ring0: Caller, acme: Caller, name: str
) -> None:
    now = ready(acme, "floor", type="flat")
    assert now["message"] == "DNS service ready; network ready" and now["dnsServiceIP"] == "10.96.0.10"
    dns = acme.get("/api/v1/namespaces/kube-system/services/kube-dns-floor").json["spec"]
    assert dns["clusterIP"] == "10.96.0.10" and {p["protocol"] for p in dns["ports"]} == {"UDP", "TCP"}
    api = wait_until(lambda: acme.get(f"{SERVICES}/kubernetes-floor").json["spec"].get("clusterIP"))
    assert ip_address(api) in ip_network("10.96.0.0/16")
    assert (
        event_message(acme, "floor", "SuccessfulProvision") == f"successfully provision network {name}/floor"
    )
    assert {each.split("/")[0] for each in ring0_objects(ring0, f"{name}/floor")} == {"dividers"}


def test_a_network_without_anything_gets_a_vpc_of_its_own(ring0: Caller, acme: Caller, name: str) -> None:
    now = ready(acme, "mine")
    assert now["message"] == "DNS service IP allocated" and now["vpc"] == f"{name}-mine"
    vpc = ring0.get(f"{MIZAR}/vpcs/{name}-mine").json["spec"]
    assert vpc["status"] == "Provisioned" and vpc["vni"] == now["vni"]
    assert ring0.get(f"{MIZAR}/subnets/{name}-mine-subnet").json["spec"]["status"] == "Provisioned"
    assert ready(acme, "default")["vpc"] == f"{name}-default-network"


def test_a_vpc_with_the_range_and_subnets_that_are_named(ring0: Caller, acme: Caller, name: str) -> None:
    now = ready(
        acme, "blue", vpcID=f"{name}-v", ip="172.16.0.0", prefix=16, subnets=[f"{name}-a", f"{name}-b"]
    )
    assert now["cidr"] == "172.16.0.0/16" and now["subnets"] == [f"{name}-a", f"{name}-b"]
    assert ring0.get(f"{MIZAR}/subnets/{name}-b").json["spec"]["ip"] == "172.16.128.0"
    acme.patch(f"{NETWORKS}/blue", {"spec": {"subnets": [f"{name}-a", f"{name}-b", f"{name}-c"]}})
    in_phase(acme, "blue", "Failed", f'no room for subnet "{name}-c"')


def test_an_existing_vpc_is_attached_to_and_left_as_it_was(ring0: Caller, acme: Caller, name: str) -> None:
    ring0.post(f"{MIZAR}/vpcs", {"metadata": {"name": name}, "spec": {"ip": "10.0.0.0", "prefix": "16"}})
    for number in (1, 2):
        spec = {"vpc": name, "ip": f"10.0.{number}.0", "prefix": "24"}
        ring0.post(f"{MIZAR}/subnets", {"metadata": {"name": f"{name}-{number}"}, "spec": spec})
    now = ready(acme, "green", vpcID=name, ip="10.0.0.0", prefix=16, subnets=[f"{name}-1", f"{name}-2"])
    assert now["subnets"] == [f"{name}-1", f"{name}-2"]
    made = pod(acme, "web", network="green", nics=[{"subnet": f"{name}-2", "ip": "10.0.2.12"}])
    assert addresses(ring0, made) == ["10.0.2.12"]
    acme.delete(f"{PODS}/web?gracePeriodSeconds=0")
    acme.delete(f"{NETWORKS}/green")
    wait_until(lambda: acme.get(f"{NETWORKS}/green").status == 404)
    vpc = ring0.get(f"{MIZAR}/vpcs/{name}").json
    assert not vpc["metadata"].get("annotations") and ring0.get(f"{MIZAR}/subnets/{name}-1").status == 200
    ready(acme, "again", vpcID=name)


def test_both_forms_of_a_network_are_one(acme: Caller, name: str) -> None:
    acme.post(
        "/api/v1/networks", {"metadata": {"name": "old"}, "spec": {"type": "vpc", "vpc-id": f"{name}-x"}}
    )
    in_phase(acme, "old", "Ready")
    assert acme.get("/api/v1/networks/old").json["status"]["vpc"] == f"{name}-x"


def test_two_tenants_use_the_same_addresses(
    cluster: LocalServer, ring0: Caller, acme: Caller, name: str
) -> None:
    other = cluster.make_tenant(f"{name}-b")
    one = ready(acme, "net", ip="10.1.0.0", prefix=16)
    two = ready(other, "net", ip="10.1.0.0", prefix=16)
    assert (
        one["cidr"] == two["cidr"] and one["vni"] != two["vni"] and one["dnsServiceIP"] == two["dnsServiceIP"]
    )
    assert addresses(ring0, pod(acme, "a", network="net")) == addresses(ring0, pod(other, "a", network="net"))


def test_a_vpc_of_another_tenant_is_refused(
    cluster: LocalServer, ring0: Caller, acme: Caller, name: str
) -> None:
    other = cluster.make_tenant(f"{name}-b")
    ready(acme, "net", vpcID=f"{name}-v")
    network(other, "net", vpcID=f"{name}-v")
    now = in_phase(other, "net", "Failed", f'VPC "{name}-v" is owned by a network of another tenant')
    assert name not in now["message"].replace(f"{name}-v", ""), "nothing else is disclosed"
    assert event_message(other, "net", "FailedProvision").startswith(
        f"failed to provision network {name}-b/net: VPC"
    )
    assert not ring0_objects(ring0, f"{name}-b/net"), "nothing half-made"
    network(other, "squat", vpcID=f"{name}-default-network")
    in_phase(other, "squat", "Failed", "reserved for networks of another tenant")
    assert ready(acme, "default")["vpc"] == f"{name}-default-network"


def test_networks_of_tenants_whose_names_look_alike_do_not_meet(
    cluster: LocalServer, acme: Caller, name: str
) -> None:
    """`a-b` with the network `c` and `a` with the network `b-c` once had a VPC of the same name: one failed."""
    other = cluster.make_tenant(f"{name}-b")
    one, two = ready(acme, "b-c"), ready(other, "c")
    assert (one["vpc"], two["vpc"]) == (f"{name}-b-c", f"{name}-b.c") and one["vni"] != two["vni"]


def test_a_tenant_cannot_take_the_names_of_anothers_vpcs(
    cluster: LocalServer, acme: Caller, name: str
) -> None:
    squatter = cluster.make_tenant(f"{name}-b")
    ready(squatter, "squat", vpcID=f"{name}-net")
    network(squatter, "again", vpcID=f"{name}.net")
    in_phase(squatter, "again", "Failed", "reserved for networks of another tenant")
    assert ready(acme, "net")["vpc"] == f"{name}.net"


def test_one_vpc_is_for_one_network_and_free_when_that_is_gone(acme: Caller, name: str) -> None:
    ready(acme, "one", vpcID=f"{name}-v")
    network(acme, "two", vpcID=f"{name}-v")
    in_phase(acme, "two", "Failed", f'VPC "{name}-v" is used by network "one" already')
    acme.delete(f"{NETWORKS}/one")
    in_phase(acme, "two", "Ready")


def test_an_unknown_subnet_is_waited_for(ring0: Caller, acme: Caller, name: str) -> None:
    ring0.post(f"{MIZAR}/vpcs", {"metadata": {"name": name}, "spec": {"ip": "10.0.0.0", "prefix": 16}})
    network(acme, "net", vpcID=name, subnets=[f"{name}-1"])
    in_phase(acme, "net", "Pending", f'subnet "{name}-1" of VPC "{name}" not found')
    spec = {"vpc": name, "ip": "10.0.1.0", "prefix": 24}
    ring0.post(f"{MIZAR}/subnets", {"metadata": {"name": f"{name}-1"}, "spec": spec})
    in_phase(acme, "net", "Ready")


def test_the_fields_that_stay(acme: Caller, name: str) -> None:
    ready(acme, "net", vpcID=f"{name}-v", ip="10.0.0.0", prefix=16)
    for field, value in (("type", "flat"), ("vpcID", "other"), ("ip", "10.1.0.0"), ("prefix", 24)):
        answer = acme.patch(f"{NETWORKS}/net", {"spec": {field: value}})
        assert answer.status == 422 and "immutable" in answer.json["message"], field


def test_a_network_that_services_cannot_be_named_after_fails(acme: Caller) -> None:
    network(acme, "a.b", type="flat")
    in_phase(acme, "a.b", "Failed", 'Service "kube-dns-a.b" is invalid')


def test_addresses_of_services_from_outside(acme: Caller) -> None:
    network(acme, "net", service={"ipam": "External"})
    in_phase(acme, "net", "Pending", "waiting for DNS service IP assigned")
    dns = "/api/v1/namespaces/kube-system/services/kube-dns-net"
    answer = acme.patch(dns, {"spec": {"clusterIP": "192.0.2.53", "clusterIPs": ["192.0.2.53"]}})
    assert answer.status == 200, answer.body
    assert in_phase(acme, "net", "Ready")["dnsServiceIP"] == "192.0.2.53"


def test_what_a_tenant_writes_into_a_status_is_not_believed(ring0: Caller, acme: Caller, name: str) -> None:
    true = ready(acme, "net", ip="10.1.0.0", prefix=16)
    obj = acme.get(f"{NETWORKS}/net").json
    obj["status"] |= {"vni": 1, "vpc": "vpc0", "subnets": ["net0"]}
    assert acme.put(f"{NETWORKS}/net/status", obj).status == 200
    made = pod(acme, "web", network="net")
    assert addresses(ring0, made) == ["10.1.0.2"]
    assert endpoints(ring0, made)[0]["spec"]["vni"] == true["vni"]
    wait_until(lambda: status(acme, "net")["vni"] == true["vni"])


# Pods


def node(ring0: Caller, name: str, ip: str) -> None:
    ring0.post("/api/v1/nodes", {"metadata": {"name": name}})
    new_status = {
        "addresses": [{"type": "InternalIP", "address": ip}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    obj = ring0.get(f"/api/v1/nodes/{name}").json
    assert ring0.put(f"/api/v1/nodes/{name}/status", {**obj, "status": new_status}).status == 200


def bind(ring0: Caller, made: dict[str, Any], to: str) -> None:
    meta = made["metadata"]
    path = f"/api/v1/tenants/{meta['tenant']}/namespaces/default/pods/{meta['name']}/binding"
    body = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": to}}
    answer = ring0.post(path, body)
    assert answer.status == 201, answer.body


def test_a_pods_way_onto_the_network(ring0: Caller, acme: Caller, name: str) -> None:
    node(ring0, f"node-{name}", "192.0.2.7")
    ready(acme, "net", ip="10.1.0.0", prefix=24)
    made = pod(acme, "web", network="net")
    wait_until(lambda: annotations(acme, "web").get("mizar.com/vpc"))
    assert annotations(acme, "web") == {
        "mizar.com/vpc": f"{name}-net",
        "mizar.com/subnet": f"{name}-net-subnet",
        READINESS: "false",
    }
    bind(ring0, made, f"node-{name}")
    wait_until(lambda: annotations(acme, "web")[READINESS] == "true")
    [endpoint] = endpoints(ring0, made)
    spec = endpoint["spec"]
    assert spec["status"] == "Provisioned" and spec["hostip"] == "192.0.2.7" and spec["itf"] == "eth0"
    assert (spec["ip"], spec["gw"], spec["prefix"]) == ("10.1.0.2", "10.1.0.1", 24)
    assert spec["pod"] == f"{name}/default/web" and float(spec["provisiondelay"]) >= 0
    acme.delete(f"{PODS}/web?gracePeriodSeconds=0")
    wait_until(lambda: not endpoints(ring0, made))
    assert addresses(ring0, pod(acme, "next", network="net")) == ["10.1.0.2"], "freed on deletion"


def test_of_two_endpoints_a_pod_keeps_the_one_whose_address_it_uses(
    ring0: Caller, acme: Caller, name: str
) -> None:
    """As a claim whose response was lost could leave it."""
    ready(acme, "blue", vpcID=f"{name}-v", ip="10.3.0.0", prefix=24)
    made = pod(acme, "two", network="blue")
    [endpoint] = wait_until(lambda: endpoints(ring0, made))
    used = {"status": {"podIP": endpoint["spec"]["ip"], "podIPs": [{"ip": endpoint["spec"]["ip"]}]}}
    assert ring0.patch(f"/api/v1/tenants/{name}/namespaces/default/pods/two/status", used).status == 200
    scope = endpoint["metadata"]["name"].partition("-")[0]
    metadata = {"name": f"{scope}-10.3.0.1", "labels": endpoint["metadata"]["labels"]}
    second = {"metadata": metadata, "spec": {**endpoint["spec"], "ip": "10.3.0.1"}}
    assert metadata["name"] < endpoint["metadata"]["name"]
    assert ring0.post(f"{MIZAR}/endpoints", second).status == 201
    wait_until(lambda: ring0.get(f"{MIZAR}/endpoints/{metadata['name']}").status == 404)
    assert addresses(ring0, made) == [endpoint["spec"]["ip"]]


def test_a_pod_names_its_network_by_field_label_or_not_at_all(ring0: Caller, acme: Caller) -> None:
    ready(acme, "default", ip="10.1.0.0", prefix=24)
    ready(acme, "other", ip="10.2.0.0", prefix=24)
    label = {"arktos.futurewei.com/network": "other"}
    body = {"metadata": {"name": "c", "labels": label}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert addresses(ring0, pod(acme, "a")) == ["10.1.0.2"]
    assert addresses(ring0, pod(acme, "b", network="other")) == ["10.2.0.2"]
    assert addresses(ring0, acme.post(PODS, body).json) == ["10.2.0.3"]
    body["spec"] = {**body["spec"], "network": "default"}  # type: ignore[dict-item]
    assert acme.post(PODS, {**body, "metadata": {"name": "d", "labels": label}}).status == 400


def test_a_pod_that_came_before_its_network_waits_and_goes_on(ring0: Caller, acme: Caller) -> None:
    made = pod(acme, "early", network="late")
    assert event_message(acme, "early", "FailedProvision") == 'network "late" not found'
    assert wait_until(lambda: annotations(acme, "early")) == {READINESS: "false"}
    ready(acme, "late")
    assert len(addresses(ring0, made)) == 1


def test_several_nics(ring0: Caller, acme: Caller, name: str) -> None:
    ready(acme, "net", vpcID=f"{name}-v", ip="10.0.0.0", prefix=16, subnets=[f"{name}-a", f"{name}-b"])
    made = pod(acme, "two", network="net", nics=[{"subnet": f"{name}-b"}, {"ip": "10.0.0.9"}])
    assert addresses(ring0, made, 2) == ["10.0.128.2", "10.0.0.9"]
    assert [each["spec"]["itf"] for each in endpoints(ring0, made)] == ["eth0", "eth1"]
    blocked = pod(acme, "half", network="net", nics=[{"subnet": f"{name}-a"}, {"ip": "10.0.0.9"}])
    assert event_message(acme, "half", "FailedProvision") == "address 10.0.0.9 is taken"
    assert not endpoints(ring0, blocked), "all of its nics, or none"


BAD = [
    ({"subnet": "{}-a", "ip": "192.168.0.12"}, 'address 192.168.0.12 is outside subnet "{}-a" (10.0.1.0/24)'),
    ({"ip": "192.168.0.12"}, 'address 192.168.0.12 is in no subnet of network "net": {}-a (10.0.1.0/24)'),
    ({"subnet": "{}-a", "ip": "fd00::7"}, 'address fd00::7 is IPv6, but subnet "{}-a" (10.0.1.0/24) is IPv4'),
    ({"subnet": "{}-a", "ip": "10.0.1.1"}, 'address 10.0.1.1 is reserved in subnet "{}-a" (10.0.1.0/24)'),
]


def test_a_pod_that_wants_what_cannot_be_fails_and_takes_nothing(
    ring0: Caller, acme: Caller, name: str
) -> None:
    ready(acme, "net", vpcID=f"{name}-v", ip="10.0.1.0", prefix=24, subnets=[f"{name}-a"])
    for number, (nic, message) in enumerate(BAD):
        given = {field: value.format(name) for field, value in nic.items()}
        made = pod(acme, f"bad-{number}", network="net", nics=[given])
        failed = wait_until(
            lambda path=f"{PODS}/bad-{number}": (
                (now := acme.get(path).json["status"])["phase"] == "Failed" and now
            )
        )
        assert failed["reason"] == "FailedProvision" and failed["message"] == message.format(name)
        assert event_message(acme, f"bad-{number}", "FailedProvision") == message.format(name)
        assert not endpoints(ring0, made)
    assert addresses(ring0, pod(acme, "good", network="net")) == ["10.0.1.2"], "no address was taken"


def test_a_subnet_that_is_not_the_networks_is_waited_for(ring0: Caller, acme: Caller, name: str) -> None:
    ready(acme, "net", vpcID=f"{name}-v")
    made = pod(acme, "web", network="net", nics=[{"subnet": "net0"}])
    assert event_message(acme, "web", "FailedProvision") == 'network "net" has no subnet "net0"'
    assert not endpoints(ring0, made) and acme.get(f"{PODS}/web").json["status"]["phase"] == "Pending"


def test_an_address_that_is_taken_is_waited_for(ring0: Caller, acme: Caller) -> None:
    ready(acme, "net", ip="10.1.0.0", prefix=24)
    first = pod(acme, "first", network="net", nics=[{"ip": "10.1.0.9"}])
    assert addresses(ring0, first) == ["10.1.0.9"]
    second = pod(acme, "second", network="net", nics=[{"ip": "10.1.0.9"}])
    assert event_message(acme, "second", "FailedProvision") == "address 10.1.0.9 is taken"
    assert acme.get(f"{PODS}/second").json["status"]["phase"] == "Pending"
    acme.delete(f"{PODS}/first?gracePeriodSeconds=0")
    assert addresses(ring0, second) == ["10.1.0.9"]


def test_a_full_subnet_is_waited_for_until_room_appears(ring0: Caller, acme: Caller, name: str) -> None:
    ready(acme, "net", ip="10.1.0.0", prefix=29)
    made = [pod(acme, f"p{number}", network="net") for number in range(7)]
    wait_until(lambda: sum(bool(endpoints(ring0, each)) for each in made) == 5)
    waiting = [each for each in made if not endpoints(ring0, each)]
    for each in waiting:
        message = event_message(acme, each["metadata"]["name"], "FailedProvision")
        assert message == f'no address left in subnet "{name}-net-subnet" (10.1.0.0/29): all 5 are in use'
        assert acme.get(f"{PODS}/{each['metadata']['name']}").json["status"]["phase"] == "Pending"
    holders = [each for each in made if each not in waiting]
    for each in holders[:2]:
        acme.delete(f"{PODS}/{each['metadata']['name']}?gracePeriodSeconds=0")
    wait_until(lambda: all(endpoints(ring0, each) for each in waiting))


def test_an_address_that_is_given_back_wakes_who_still_waits(
    ring0: Caller, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "RETRY_SECONDS", 3_600.0)
    ready(acme, "net", ip="10.1.0.0", prefix=29)
    first = [pod(acme, f"first{number}", network="net") for number in range(5)]
    wait_until(lambda: all(endpoints(ring0, each) for each in first))
    for number in range(WOKEN_MAX + 1):
        pod(acme, f"gone{number}", network="net")
    for number in range(WOKEN_MAX + 1):
        event_message(acme, f"gone{number}", "FailedProvision")
        acme.delete(f"{PODS}/gone{number}?gracePeriodSeconds=0")
    last = pod(acme, "last", network="net")
    event_message(acme, "last", "FailedProvision")
    acme.delete(f"{PODS}/first0?gracePeriodSeconds=0")
    wait_until(lambda: endpoints(ring0, last))


def test_a_second_subnet_is_used_when_the_first_is_full(ring0: Caller, acme: Caller, name: str) -> None:
    ready(acme, "net", vpcID=f"{name}-v", ip="10.1.0.0", prefix=28, subnets=[f"{name}-a", f"{name}-b"])
    made = [pod(acme, f"p{number}", network="net") for number in range(7)]
    wait_until(lambda: all(endpoints(ring0, each) for each in made))
    nets = sorted(endpoints(ring0, each)[0]["spec"]["net"] for each in made)
    assert nets == [f"{name}-a"] * 5 + [f"{name}-b"] * 2


def test_pods_of_flat_networks_share_one_range_and_no_number(ring0: Caller, acme: Caller) -> None:
    one, two = ready(acme, "one", type="flat"), ready(acme, "two", type="flat")
    made = [pod(acme, f"p{number}", network=net) for number, net in enumerate(("one", "two", "one"))]
    found = [addresses(ring0, each)[0] for each in made]
    assert len(set(found)) == 3 and all(ip_address(each) in ip_network("100.96.0.0/11") for each in found)
    assert [endpoints(ring0, each)[0]["spec"]["vni"] for each in made] == [one["vni"], two["vni"], one["vni"]]


def test_a_flat_network_ignores_nics_and_says_so(ring0: Caller, acme: Caller) -> None:
    ready(acme, "floor", type="flat")
    made = pod(acme, "web", network="floor", nics=[{"subnet": "x", "ip": "192.168.0.12"}, {}])
    [address] = addresses(ring0, made)
    assert ip_address(address) in ip_network("100.96.0.0/11")
    assert event_message(acme, "web", "NicsIgnored") == 'nics were ignored: network "floor" is flat'


def test_pods_that_are_over_have_no_address(ring0: Caller, acme: Caller) -> None:
    ready(acme, "default")
    made = pod(acme, "job")
    assert addresses(ring0, made)
    assert acme.patch(f"{PODS}/job/status", {"status": {"phase": "Succeeded"}}).status == 200
    wait_until(lambda: not endpoints(ring0, made))


def test_pods_on_the_hosts_network_have_no_address(cluster: LocalServer, ring0: Caller) -> None:
    cluster.make_namespace("system", "default")
    ready(ring0, "default", type="flat")
    host, other = pod(ring0, "host", hostNetwork=True), pod(ring0, "other")
    assert addresses(ring0, other) and not endpoints(ring0, host)
    assert READINESS not in annotations(ring0, "host")


# Services


def service(caller: Caller, name: str, **spec: Any) -> dict[str, Any]:
    body = {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}
    answer = caller.post(SERVICES, body)
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def cluster_ip(caller: Caller, name: str) -> str:
    found: str = wait_until(lambda: caller.get(f"{SERVICES}/{name}").json["spec"].get("clusterIP"))
    return found


def test_a_services_address_is_of_its_network(acme: Caller) -> None:
    ready(acme, "one", service={"cidrs": ["172.20.0.0/24"]})
    ready(acme, "two", service={"cidrs": ["172.20.0.0/24"]})
    made = [service(acme, f"{net}-{number}", network=net) for net in ("one", "two") for number in range(2)]
    found = [cluster_ip(acme, each["metadata"]["name"]) for each in made]
    assert all(ip_address(each) in ip_network("172.20.0.0/24") for each in found)
    assert found == [each["spec"]["clusterIP"] for each in made], "it is in the answer already"
    assert len(set(found[:2])) == 2 and len(set(found[2:])) == 2
    for net in ("one", "two"):
        assert service(acme, f"same-{net}", network=net, clusterIP="172.20.0.5")


def test_services_with_chosen_addresses_and_with_none(acme: Caller) -> None:
    ready(acme, "default")
    service(acme, "chosen", clusterIP="10.96.3.3")
    for spec in (
        {"clusterIP": "10.96.3.3"},
        {"clusterIP": "192.0.2.1"},
        {"ipFamilyPolicy": "RequireDualStack"},
        {"clusterIP": status(acme, "default")["dnsServiceIP"]},
    ):
        body = {"metadata": {"name": "rival"}, "spec": {"ports": [{"port": 80}], **spec}}
        assert acme.post(SERVICES, body).status == 422, spec
    service(acme, "headless", clusterIP="None", selector={"a": "b"})
    service(acme, "away", type="ExternalName", externalName="example.org")
    assert cluster_ip(acme, "chosen") == "10.96.3.3"

    def holders() -> set[str]:
        claims = acme.get("/apis/networking.k8s.io/v1/ipaddresses").json["items"]
        return {each["spec"]["parentRef"]["name"] for each in claims}

    wait_until(lambda: holders() == {"chosen", "kube-dns-default", "kubernetes-default", "kubernetes"})


def test_the_api_server_has_the_name_and_endpoints_that_it_has_in_kubernetes(acme: Caller) -> None:
    now = ready(acme, "default", ip="10.1.0.0", prefix=16)
    assert cluster_ip(acme, "kubernetes") == "10.96.0.1" and now["dnsServiceIP"] == "10.96.0.10"
    both = (
        "/api/v1/namespaces/default/endpoints",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    )
    for path in both:
        wait_until(lambda path=path: acme.get(f"{path}/kubernetes").status == 200)
    [subset] = acme.get(f"{both[0]}/kubernetes").json["subsets"]
    port = {"name": "https", "port": 6443, "protocol": "TCP"}
    assert subset == {"addresses": [{"ip": "10.1.0.1"}], "ports": [port]}
    found = acme.get(f"{both[1]}?labelSelector=kubernetes.io/service-name%3Dkubernetes").json["items"]
    assert [each["endpoints"][0]["addresses"] for each in found] == [["10.1.0.1"]]
    assert found[0]["ports"] == [port]
    for path in both:
        acme.delete(f"{path}/kubernetes")
        wait_until(lambda path=path: acme.get(f"{path}/kubernetes").status == 200)


def test_service_cidrs_show_the_ranges_of_networks(acme: Caller) -> None:
    path = "/apis/networking.k8s.io/v1/servicecidrs"

    def shown() -> dict[str, list[str]]:
        return {each["metadata"]["name"]: each["spec"]["cidrs"] for each in acme.get(path).json["items"]}

    ready(acme, "default")
    ready(acme, "blue", service={"cidrs": ["172.20.0.0/24", "172.21.0.0/24"]})
    blue = {"kubernetes-blue": ["172.20.0.0/24"], "kubernetes-blue-172.21.0.0-24": ["172.21.0.0/24"]}
    wait_until(lambda: shown() == {"kubernetes": ["10.96.0.0/16"], **blue})
    [condition] = acme.get(f"{path}/kubernetes").json["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    change = {"spec": {"service": {"cidrs": ["172.20.0.0/24", "172.22.0.0/24"]}}}
    assert acme.patch(f"{NETWORKS}/blue", change).status == 200
    wait_until(lambda: "172.22.0.0/24" in str(shown()) and "172.21.0.0/24" not in str(shown()))
    assert service(acme, "web", network="blue", clusterIP="172.22.0.7")
    assert acme.delete(f"{path}/kubernetes").status == 403
    mine = {"metadata": {"name": "mine"}, "spec": {"cidrs": ["10.200.0.0/24"]}}
    refused = acme.post(path, mine)
    assert refused.status == 403
    assert refused.json["message"].endswith("change spec.service.cidrs of the Network")
    acme.delete(f"{SERVICES}/web")
    acme.delete(f"{NETWORKS}/blue")
    wait_until(lambda: shown() == {"kubernetes": ["10.96.0.0/16"]})


def test_a_service_that_came_before_its_network_waits_and_goes_on(acme: Caller) -> None:
    service(acme, "early", network="late", type="NodePort")
    assert event_message(acme, "early", "FailedProvision") == 'network "late" not found'
    ready(acme, "late")
    assert ip_address(cluster_ip(acme, "early")) in ip_network("10.96.0.0/16")


def test_a_network_of_an_existing_vpc_has_services_when_its_range_is_known(
    ring0: Caller, acme: Caller, name: str
) -> None:
    """The VPC has the addresses that services have by default: theirs are others."""
    vpc = {"metadata": {"name": f"old-{name}"}, "spec": {"ip": "10.0.0.0", "prefix": 8}}
    assert ring0.post(f"{MIZAR}/vpcs", vpc).status == 201
    network(acme, "attached", vpcID=f"old-{name}")
    service(acme, "web", network="attached")
    assert ip_address(cluster_ip(acme, "web")) in ip_network("172.31.0.0/16")
    assert in_phase(acme, "attached", "Ready")["dnsServiceIP"] == "172.31.0.10"


def test_a_network_of_ipv6(ring0: Caller, acme: Caller) -> None:
    now = ready(acme, "six", ip="fd00:1::", prefix=64)
    assert now["dnsServiceIP"] == "fd96::a" and now["cidr"] == "fd00:1::/64"
    assert addresses(ring0, pod(acme, "web", network="six")) == ["fd00:1::2"]
    service(acme, "svc", network="six")
    assert ip_address(cluster_ip(acme, "svc")) in ip_network("fd96::/108")
    assert acme.get(f"{SERVICES}/svc").json["spec"]["ipFamilies"] == ["IPv6"]


# Going


def test_a_network_goes_when_nothing_is_in_it_and_leaves_nothing(
    ring0: Caller, acme: Caller, name: str
) -> None:
    ready(acme, "net")
    made, svc = pod(acme, "web", network="net"), service(acme, "svc", network="net")
    assert addresses(ring0, made) and svc["spec"]["clusterIP"]
    acme.delete(f"{NETWORKS}/net")
    now = in_phase(acme, "net", "Terminating", "waiting for resource cleanup")
    empty = next(each for each in now["conditions"] if each["type"] == "Empty")
    assert empty["message"] == "pods default/web and services default/svc are in it"
    late = pod(acme, "late", network="net")
    ready(acme, "other")
    assert not endpoints(ring0, late), "nobody comes into a network that goes"
    for path in (f"{PODS}/web?gracePeriodSeconds=0", f"{PODS}/late?gracePeriodSeconds=0", f"{SERVICES}/svc"):
        acme.delete(path)
    wait_until(lambda: acme.get(f"{NETWORKS}/net").status == 404)
    wait_until(lambda: not ring0_objects(ring0, f"{name}/net") and not ring0_objects(ring0, f"{name}-net"))
    wait_until(lambda: acme.get("/api/v1/namespaces/kube-system/services/kube-dns-net").status == 404)


def test_a_flat_network_leaves_nothing_either(ring0: Caller, acme: Caller, name: str) -> None:
    ready(acme, "floor", type="flat")
    acme.delete(f"{NETWORKS}/floor")
    wait_until(lambda: acme.get(f"{NETWORKS}/floor").status == 404)
    wait_until(lambda: not ring0_objects(ring0, f"{name}/"))


def test_a_network_removed_by_force_leaves_nothing(ring0: Caller, acme: Caller, name: str) -> None:
    for each, kind in (("net", "mizar"), ("floor", "flat")):
        ready(acme, each, type=kind)
        acme.patch(f"{NETWORKS}/{each}", {"metadata": {"finalizers": None}})
        acme.delete(f"{NETWORKS}/{each}")
    for path in ("kube-system/services/kube-dns-{}", "default/services/kubernetes-{}"):
        for each in ("net", "floor"):
            acme.delete(f"/api/v1/namespaces/{path.format(each)}")
    wait_until(lambda: not ring0_objects(ring0, f"{name}/") and not ring0_objects(ring0, f"{name}-"))


# Nodes


def test_nodes_are_droplets_while_they_are_ready(ring0: Caller, name: str) -> None:
    node(ring0, f"n-{name}", "192.0.2.9")
    wanted = {"ip": "192.0.2.9", "status": "Provisioned"}
    wait_until(lambda: ring0.get(f"{MIZAR}/droplets/n-{name}").json.get("spec") == wanted)
    obj = ring0.get(f"/api/v1/nodes/n-{name}").json
    obj["status"]["conditions"][0]["status"] = "Unknown"
    ring0.put(f"/api/v1/nodes/n-{name}/status", obj)
    wait_until(lambda: ring0.get(f"{MIZAR}/droplets/n-{name}").json["spec"]["status"] == "NotReady")
    ring0.delete(f"/api/v1/nodes/n-{name}")
    wait_until(lambda: ring0.get(f"{MIZAR}/droplets/n-{name}").status == 404)
