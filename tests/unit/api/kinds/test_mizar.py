"""The VPC provider's objects: addresses, numbers, what stays once set."""

import pytest

from alcove.api.kinds.mizar import STRATEGIES
from alcove.api.objects import Object


def messages(resource: str, spec: Object) -> list[str]:
    obj = {"metadata": {"name": "x"}, "spec": spec}
    STRATEGIES[resource].default(obj)
    return [str(error) for error in STRATEGIES[resource].validate(obj)]


ENDPOINT = {
    "vpc": "v",
    "net": "n",
    "ip": "10.0.0.7",
    "mac": "02:42:0A:00:00:07",
    "gw": "10.0.0.1",
    "prefix": "24",
}
CASES: list[tuple[str, Object, list[str]]] = [
    ("vpcs", {"ip": "20.0.0.0", "prefix": "8", "dividers": 1, "status": "Init"}, []),
    ("vpcs", {"ip": "20.0.0.0", "prefix": "8", "vni": "16777215"}, []),
    ("vpcs", {}, []),
    ("vpcs", {"vni": 16777216}, ["spec.vni: Invalid value: 16777216: must be between 1 and 16777215, inclusive"]),
    ("vpcs", {"vni": 0}, ["spec.vni: Invalid value: 0: must be between 1 and 16777215, inclusive"]),
    ("vpcs", {"dividers": 0}, ["spec.dividers: Invalid value: 0: must be between 1 and 1000, inclusive"]),
    ("vpcs", {"status": "all good"}, [
        'spec.status: Invalid value: "all good": must be a word, (e.g. Init or Provisioned)']),
    ("vpcs", {"ip": "20.0.0.9", "prefix": 8}, [
        'spec.ip: Invalid value: "20.0.0.9": must be the first address of its /8 range: 20.0.0.0']),
    ("subnets", {"vpc": "v", "ip": "20.1.0.0", "prefix": 16, "bouncers": "2"}, []),
    ("subnets", {"ip": "20.1.0.0"}, [
        "spec.vpc: Required value", "spec.prefix: Required value: must be given together with `ip`"]),
    ("subnets", {"vpc": "v", "bouncers": "many"}, [
        'spec.bouncers: Invalid value: "many": must be between 1 and 1000, inclusive']),
    ("endpoints", ENDPOINT, []),
    ("endpoints", {}, []),
    ("endpoints", {**ENDPOINT, "ip": "10.0.0.300", "mac": "02:42", "prefix": 129}, [
        'spec.ip: Invalid value: "10.0.0.300": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'spec.mac: Invalid value: "02:42": must be a hardware address, (e.g. 02:42:0a:00:00:01)',
        "spec.prefix: Invalid value: 129: must be between 0 and 128, inclusive"]),
    ("bouncers", {"vpc": "v", "net": "n", "droplet": "node-1"}, []),
    ("bouncers", {}, ["spec.vpc: Required value", "spec.net: Required value"]),
    ("dividers", {}, ["spec.vpc: Required value"]),
    ("droplets", {"ip": "192.168.1.1", "mac": "02:42:c0:a8:01:01", "itf": "eth0", "mainip": "192.168.1.1"}, []),
    ("droplets", {"main_ip": "here"}, [
        'spec.main_ip: Invalid value: "here": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)']),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "spec", "expected"), CASES)
def test_validate(resource: str, spec: Object, expected: list[str]) -> None:
    assert messages(resource, dict(spec)) == expected


def test_references_are_names() -> None:
    errors = messages("endpoints", {"vpc": "V", "net": "N", "droplet": "a b"})
    assert [error.split(": ")[0] for error in errors] == ["spec.vpc", "spec.net", "spec.droplet"]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("vpcs", {"status": "Init", "dividers": 1}),
        ("subnets", {"status": "Init", "bouncers": 1}),
        ("endpoints", {"status": "Init"}),
        ("droplets", {"status": "Init"}),
    ],
)
def test_life_begins_with_init(resource: str, expected: Object) -> None:
    obj: Object = {}
    STRATEGIES[resource].default(obj)
    assert obj["spec"] == expected


FIXED = [
    ("vpcs", {"ip": "10.0.0.0", "prefix": 8, "vni": 5}, {"dividers": 2, "status": "Provisioned"}),
    ("subnets", {"ip": "10.0.0.0", "prefix": 8, "vpc": "v", "vni": 5}, {"bouncers": 2}),
    ("endpoints", {"ip": "10.0.0.1", "vpc": "v", "net": "n"}, {"droplet": "node-1", "status": "Provisioned"}),
    ("bouncers", {"vpc": "v", "net": "n", "vni": 5}, {"droplet": "node-2", "ip": "192.0.2.2"}),
    ("dividers", {"vpc": "v", "vni": 5}, {"droplet": "node-2", "ip": "192.0.2.2"}),
]


@pytest.mark.parametrize(("resource", "fixed", "free"), FIXED)
def test_what_stays(resource: str, fixed: Object, free: Object) -> None:
    update = STRATEGIES[resource].validate_update
    assert not update({"spec": {**fixed, **free}}, {"spec": fixed})
    assert not update({"spec": fixed}, {"spec": {}})
    for field in fixed:
        errors = update({"spec": {**fixed, field: "other"}}, {"spec": fixed})
        assert [error.field for error in errors] == [f"spec.{field}"]


def test_a_node_selects_what_concerns_it() -> None:
    fields = STRATEGIES["endpoints"].fields
    assert set(fields) == {"spec.vpc", "spec.net", "spec.vni", "spec.droplet", "spec.type", "spec.status"}
    assert fields["spec.droplet"]({"spec": {"droplet": "node-1"}}) == "node-1"
    assert fields["spec.droplet"]({}) == ""


def test_status() -> None:
    [error] = STRATEGIES["subnets"].validate_status({"status": {"used": -1}}, {})
    assert str(error) == "status.used: Invalid value: -1: must be greater than or equal to 0"
