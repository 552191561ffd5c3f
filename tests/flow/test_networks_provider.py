"""The VPC provider on a real API server: VPCs, subnets, endpoints, and the duties of droplets."""

from collections.abc import Iterator
from ipaddress import ip_network
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.controllers.network.provider import EndpointController, SubnetController, VpcController
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

MIZAR = "/apis/mizar.com/v1"
PROVIDER = (VpcController, SubnetController, EndpointController)
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def ring0(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    directory: Path = tmp_path_factory.mktemp("provider")
    with LocalServer(directory) as server, RunningControllers(server.admin_kubeconfig, PROVIDER):
        yield server.system


@pytest.fixture
def name() -> str:
    """A VPC's name that no other test has."""
    return f"vpc-{next(_NUMBERS)}"


def make(ring0: Caller, resource: str, name: str, **spec: Any) -> dict[str, Any]:
    answer = ring0.post(f"{MIZAR}/{resource}", {"metadata": {"name": name}, "spec": spec})
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def get(ring0: Caller, resource: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ring0.get(f"{MIZAR}/{resource}/{name}").json
    return found


def found(ring0: Caller, resource: str, **fields: str) -> list[dict[str, Any]]:
    selector = ",".join(f"spec.{field}={value}" for field, value in fields.items())
    items: list[dict[str, Any]] = ring0.get(f"{MIZAR}/{resource}?fieldSelector={selector}").json["items"]
    return sorted(items, key=lambda each: str(each["metadata"]["name"]))


def in_state(ring0: Caller, resource: str, name: str, state: str, message: str = "") -> dict[str, Any]:
    def check() -> dict[str, Any] | None:
        obj = get(ring0, resource, name)
        is_there = obj.get("spec", {}).get("status") == state
        return obj if is_there and message in obj.get("status", {}).get("message", "") else None

    reached: dict[str, Any] = wait_until(check)
    return reached


def make_vpc(ring0: Caller, name: str, cidr: str = "10.0.0.0/16", **spec: Any) -> dict[str, Any]:
    network = ip_network(cidr)
    make(ring0, "vpcs", name, ip=str(network.network_address), prefix=str(network.prefixlen), **spec)
    return in_state(ring0, "vpcs", name, "Provisioned")


def make_subnet(ring0: Caller, name: str, vpc: str, cidr: str, **spec: Any) -> None:
    network = ip_network(cidr)
    make(ring0, "subnets", name, vpc=vpc, ip=str(network.network_address), prefix=network.prefixlen, **spec)


@pytest.fixture
def droplets(ring0: Caller) -> Iterator[list[str]]:
    names = [f"node-{number}" for number in range(3)]
    for number, each in enumerate(names):
        make(ring0, "droplets", each, ip=f"192.0.2.{number + 1}", status="Provisioned")
    yield names
    for each in names:
        ring0.delete(f"{MIZAR}/droplets/{each}")


def test_a_vpc_gets_a_number_a_range_and_dividers(ring0: Caller, name: str) -> None:
    make(ring0, "vpcs", name, dividers=2)
    vpc = in_state(ring0, "vpcs", name, "Provisioned")
    spec = vpc["spec"]
    assert 1 < spec["vni"] < 2**24 and spec["ip"].startswith("10.") and spec["prefix"] == 16
    assert float(spec["provisiondelay"]) >= 0 and spec["createtime"]
    conditions = {
        each["type"]: each
        for each in wait_until(lambda: get(ring0, "vpcs", name).get("status"))["conditions"]
    }
    assert conditions["Provisioned"]["status"] == "True"
    assert conditions["Placed"]["status"] == "False" and "0 of 2" in conditions["Placed"]["message"]
    dividers = found(ring0, "dividers", vpc=name)
    assert [each["metadata"]["name"] for each in dividers] == [f"vni-{spec['vni']}-d{n}" for n in (0, 1)]


def test_the_default_vpc_is_there(ring0: Caller) -> None:
    assert in_state(ring0, "vpcs", "vpc0", "Provisioned")["spec"]["vni"] == 1
    assert in_state(ring0, "subnets", "net0", "Provisioned")["spec"]["vpc"] == "vpc0"


def test_numbers_are_unique_and_chosen_ones_honoured(ring0: Caller, name: str) -> None:
    assert make_vpc(ring0, name, vni=4711)["spec"]["vni"] == 4711
    make(ring0, "vpcs", f"{name}-b", ip="10.0.0.0", prefix=16, vni=4711)
    in_state(ring0, "vpcs", f"{name}-b", "Failed", f'VNI 4711 is taken by VPC "{name}"')
    vnis = {make_vpc(ring0, f"{name}-{number}")["spec"]["vni"] for number in range(10)}
    assert len(vnis) == 10


def test_a_subnet_is_inside_its_vpc_and_beside_the_others(ring0: Caller, name: str) -> None:
    make_vpc(ring0, name)
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24", bouncers=2)
    subnet = in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    assert subnet["spec"]["vni"] == get(ring0, "vpcs", name)["spec"]["vni"]
    assert len(found(ring0, "bouncers", net=f"{name}-a")) == 2
    refused = [
        ("outside", "192.168.0.0/24", f'subnet "{name}-outside" (192.168.0.0/24) is not inside VPC "{name}" (10.0.0.0/16)'),
        ("wider", "10.0.0.0/8", "is not inside"),
        ("over", "10.0.1.128/25", f'overlaps subnet "{name}-a" (10.0.1.0/24)'),
        ("family", "fd00::/64", "is IPv6, but"),
    ]  # fmt: skip
    for suffix, cidr, message in refused:
        make_subnet(ring0, f"{name}-{suffix}", name, cidr)
        in_state(ring0, "subnets", f"{name}-{suffix}", "Failed", message)
        assert not found(ring0, "bouncers", net=f"{name}-{suffix}"), "nothing half-made"
    make_subnet(ring0, f"{name}-b", name, "10.0.2.0/24")
    in_state(ring0, "subnets", f"{name}-b", "Provisioned")


def test_a_refused_subnet_goes_on_when_the_other_is_gone(ring0: Caller, name: str) -> None:
    make_vpc(ring0, name)
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    make_subnet(ring0, f"{name}-b", name, "10.0.1.0/25")
    in_state(ring0, "subnets", f"{name}-b", "Failed")
    ring0.delete(f"{MIZAR}/subnets/{name}-a")
    in_state(ring0, "subnets", f"{name}-b", "Provisioned")


def test_a_subnet_waits_for_a_vpc_that_is_not_there_yet(ring0: Caller, name: str) -> None:
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    wait_until(lambda: f'VPC "{name}" not found' in str(get(ring0, "subnets", f"{name}-a").get("status")))
    make_vpc(ring0, name)
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")


def test_fields_that_others_are_programmed_by_do_not_change(ring0: Caller, name: str) -> None:
    make_vpc(ring0, name)
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    for resource, obj, field, value in [
        ("vpcs", name, "ip", "10.1.0.0"),
        ("vpcs", name, "vni", 9),
        ("subnets", f"{name}-a", "prefix", 25),
        ("subnets", f"{name}-a", "vpc", "vpc0"),
    ]:
        answer = ring0.patch(f"{MIZAR}/{resource}/{obj}", {"spec": {field: value}})
        assert answer.status == 422 and "immutable" in answer.json["message"], (resource, field)


def test_prefixes_out_of_range_are_refused_at_once(ring0: Caller, name: str) -> None:
    for ip, prefix in [
        ("10.0.0.0", 33),
        ("10.0.0.0", 31),
        ("10.0.0.1", 24),
        ("fd00::", 127),
        ("10.0.0.0", 0),
    ]:
        answer = ring0.post(
            f"{MIZAR}/vpcs", {"metadata": {"name": name}, "spec": {"ip": ip, "prefix": prefix}}
        )
        assert answer.status == 422, (ip, prefix)


def test_deleting_waits_for_what_is_inside_and_says_so(ring0: Caller, name: str) -> None:
    vni = make_vpc(ring0, name)["spec"]["vni"]
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    make(ring0, "endpoints", f"{vni}-10.0.1.5", vpc=name, net=f"{name}-a", ip="10.0.1.5")
    wait_until(lambda: get(ring0, "subnets", f"{name}-a")["status"]["used"] == 1)
    ring0.delete(f"{MIZAR}/vpcs/{name}")
    ring0.delete(f"{MIZAR}/subnets/{name}-a")
    in_state(ring0, "vpcs", name, "Provisioned", f"waiting for its subnets to be deleted: {name}-a")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned", "waiting for 1 endpoint to be deleted")
    make_vpc(ring0, f"{name}-other")
    ring0.delete(f"{MIZAR}/endpoints/{vni}-10.0.1.5")
    wait_until(lambda: ring0.get(f"{MIZAR}/vpcs/{name}").status == 404)
    wait_until(lambda: ring0.get(f"{MIZAR}/subnets/{name}-a").status == 404)
    # Nothing leaks.
    wait_until(lambda: not found(ring0, "dividers", vpc=name) and not found(ring0, "bouncers", vpc=name))


def test_how_full_a_subnet_is(ring0: Caller, name: str) -> None:
    vni = make_vpc(ring0, name)["spec"]["vni"]
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/28")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    status = wait_until(lambda: get(ring0, "subnets", f"{name}-a").get("status"))
    assert (status["used"], status["free"]) == (0, 13)
    for number in (2, 3, 4):
        make(ring0, "endpoints", f"{vni}-10.0.1.{number}", vpc=name, net=f"{name}-a", ip=f"10.0.1.{number}")
    wait_until(lambda: get(ring0, "subnets", f"{name}-a")["status"]["free"] == 10)
    shown = ring0.kubectl("get", "subnet", f"{name}-a", "-o", "wide")
    for column in ("CIDR", "VNI", "USED", "FREE", "10.0.1.0/28", str(vni)):
        assert column in shown


def test_endpoints_written_by_hand(ring0: Caller, name: str, droplets: list[str]) -> None:
    vni = make_vpc(ring0, name)["spec"]["vni"]
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    make(ring0, "endpoints", f"{vni}-10.0.1.5", net=f"{name}-a", ip="10.0.1.5", droplet=droplets[0])
    spec = in_state(ring0, "endpoints", f"{vni}-10.0.1.5", "Provisioned")["spec"]
    assert (spec["vni"], spec["gw"], spec["prefix"], spec["hostip"]) == (vni, "10.0.1.1", 24, "192.0.2.1")
    assert spec["vpc"] == name and spec["mac"] == "0a:58:0a:00:01:05"
    make(ring0, "endpoints", f"{name}-web", net=f"{name}-a", ip="10.0.1.6")
    in_state(ring0, "endpoints", f"{name}-web", "Failed", f'metadata.name must be "{vni}-10.0.1.6"')
    for number, (ip, message) in enumerate([
        ("10.0.2.5", f'address 10.0.2.5 is outside subnet "{name}-a" (10.0.1.0/24)'),
        ("10.0.1.1", "is reserved in"),
        ("fd00::5", "is IPv6, but"),
    ]):  # fmt: skip
        make(ring0, "endpoints", f"{name}-bad-{number}", net=f"{name}-a", ip=ip)
        in_state(ring0, "endpoints", f"{name}-bad-{number}", "Failed", message)


def where(ring0: Caller, resource: str, **fields: str) -> list[str]:
    return [each["spec"].get("droplet", "") for each in found(ring0, resource, **fields)]


def test_duties_are_spread_moved_and_scaled(ring0: Caller, name: str, droplets: list[str]) -> None:
    make_vpc(ring0, name, dividers=2)
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24", bouncers=2)
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    for resource in ("bouncers", "dividers"):
        wait_until(lambda: all(where(ring0, resource, vpc=name) or [""]))  # noqa: B023 - called at once
    bouncers, dividers = where(ring0, "bouncers", vpc=name), where(ring0, "dividers", vpc=name)
    assert len(set(bouncers)) == 2 and len(set(dividers)) == 2
    died = bouncers[0]
    ring0.patch(f"{MIZAR}/droplets/{died}", {"spec": {"status": "NotReady"}})
    wait_until(lambda: died not in where(ring0, "bouncers", vpc=name) + where(ring0, "dividers", vpc=name))
    assert where(ring0, "bouncers", vpc=name)[1] == bouncers[1], "who lives stays"
    spec = found(ring0, "bouncers", net=f"{name}-a")[0]["spec"]
    assert spec["ip"] == get(ring0, "droplets", spec["droplet"])["spec"]["ip"], "its address moved too"
    ring0.patch(f"{MIZAR}/subnets/{name}-a", {"spec": {"bouncers": 3}})
    wait_until(lambda: len(found(ring0, "bouncers", net=f"{name}-a")) == 3)
    assert where(ring0, "bouncers", vpc=name).count("") == 1, "two droplets, three bouncers: one waits"
    ring0.patch(f"{MIZAR}/droplets/{died}", {"spec": {"status": "Provisioned"}})
    wait_until(lambda: set(where(ring0, "bouncers", vpc=name)) == set(droplets))
    ring0.patch(f"{MIZAR}/subnets/{name}-a", {"spec": {"bouncers": 1}})
    ring0.patch(f"{MIZAR}/vpcs/{name}", {"spec": {"dividers": 1}})
    wait_until(lambda: len(found(ring0, "bouncers", net=f"{name}-a")) == 1)
    wait_until(lambda: len(found(ring0, "dividers", vpc=name)) == 1)
    assert get(ring0, "vpcs", name)["spec"]["status"] == "Provisioned"


def test_what_is_removed_by_force_leaves_nothing(ring0: Caller, name: str) -> None:
    vni = make_vpc(ring0, name)["spec"]["vni"]
    make_subnet(ring0, f"{name}-a", name, "10.0.1.0/24")
    in_state(ring0, "subnets", f"{name}-a", "Provisioned")
    make(ring0, "endpoints", f"{vni}-10.0.1.5", net=f"{name}-a", ip="10.0.1.5")
    for resource, each in (("subnets", f"{name}-a"), ("vpcs", name)):
        ring0.delete(f"{MIZAR}/{resource}/{each}")
        ring0.patch(f"{MIZAR}/{resource}/{each}", {"metadata": {"finalizers": None}})
    wait_until(lambda: not found(ring0, "bouncers", vpc=name) and not found(ring0, "dividers", vpc=name))
    wait_until(lambda: ring0.get(f"{MIZAR}/endpoints/{vni}-10.0.1.5").status == 404)
