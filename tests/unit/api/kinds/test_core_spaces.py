"""Tenants, namespaces and nodes: names, phases, finalizers."""

import copy
from typing import Any

import pytest

from alcove.api import names
from alcove.api.kinds.core import STRATEGIES
from alcove.api.objects import Object

TENANTS, NAMESPACES, NODES = STRATEGIES["tenants"], STRATEGIES["namespaces"], STRATEGIES["nodes"]

[WILDCARD_ERROR], [SUBDOMAIN_ERROR] = names.wildcard_subdomain("*"), names.dns_subdomain("A")


def messages(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def tenant(**spec: Any) -> Object:
    made: Object = {"metadata": {"name": "acme"}, "spec": spec}
    TENANTS.default(made)
    return made


def test_a_tenant_gets_a_shared_plane_and_weight_one() -> None:
    made = tenant()
    TENANTS.prepare_create(made)
    assert made["spec"] == {"controlPlane": {"mode": "Shared"}, "weight": 1, "finalizers": ["arktos"]}
    assert made["status"] == {"phase": "Active"}
    assert messages(TENANTS.validate(made)) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"storageClusterId": "1", "weight": 5, "controlPlane": {"mode": "Dedicated"}}, []),
        ({"quota": {"hard": {"pods": "10", "requests.cpu": "4", "requests.example.com/gpu": "2"}}}, []),
        ({"weight": 0}, ["spec.weight: Invalid value: 0: must be between 1 and 2147483647, inclusive"]),
        ({"weight": -1}, ["spec.weight: Invalid value: -1: must be between 1 and 2147483647, inclusive"]),
        ({"controlPlane": {"mode": "Own"}}, [
            'spec.controlPlane.mode: Unsupported value: "Own": supported values: "Dedicated", "Foreign", "Shared"'
        ]),
        ({"quota": {"hard": {"pods": "1.5"}}}, [
            'spec.quota.hard[pods]: Invalid value: "1500m": must be an integer'
        ]),
        ({"quota": {"hard": {"cpu": "-1"}}}, [
            'spec.quota.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0'
        ]),
        ({"quota": {"hard": {"apples": "1"}}}, [
            'spec.quota.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified',
            'spec.quota.hard[apples]: Invalid value: "apples": must be a standard resource for quota',
        ]),
        ({"quota": {"hard": {"requests.cpu": "4"}, "min": {"requests.cpu": "4000m", "pods": "3"}}}, []),
        ({"quota": {"hard": {"requests.cpu": "4"}, "min": {"requests.cpu": "4001m"}}}, [
            'spec.quota.min[requests.cpu]: Invalid value: "4001m": '
            "must not be more than spec.quota.hard[requests.cpu]"
        ]),
        ({"quota": {"hard": {"cpu": "1"}, "min": {"cpu": "-1"}}}, [
            'spec.quota.min[cpu]: Invalid value: "-1": must be greater than or equal to 0'
        ]),
        ({"egress": {"allowedCIDRs": ["10.0.0.0/8", "100.64.1.0/24", "203.0.113.7/32", "fd00::/8", "8000::/1"]}}, []),
        ({"egress": {"allowedCIDRs": ["10.0.0.1/8", "10.0.0.0", "fd00:0::/16", "fd00::%a;b/64"]}}, [
            'spec.egress.allowedCIDRs[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length',
            'spec.egress.allowedCIDRs[1]: Invalid value: "10.0.0.0": '
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            'spec.egress.allowedCIDRs[2]: Invalid value: "fd00:0::/16": must be in canonical form ("fd00::/16")',
            'spec.egress.allowedCIDRs[3]: Invalid value: "fd00::%a;b/64": '
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ]),
        ({"egress": {"allowedCIDRs": ["0.0.0.0/0", "8.8.8.0/24", "10.0.0.0/7", "::/0"]}}, [
            f'spec.egress.allowedCIDRs[{index}]: Invalid value: "{cidr}": must be within a range that is not public '
            "(e.g. 10.0.0.0/8); public addresses need no entry"
            for index, cidr in enumerate(("0.0.0.0/0", "8.8.8.0/24", "10.0.0.0/7", "::/0"))
        ]),
        ({"egress": {"allowedCIDRs": ["169.254.169.254/32", "127.0.0.0/8", "fe80::/64"]}}, [
            f'spec.egress.allowedCIDRs[{index}]: Invalid value: "{cidr}": may not be in a loopback or link-local range, '
            "which pods never reach"
            for index, cidr in enumerate(("169.254.169.254/32", "127.0.0.0/8", "fe80::/64"))
        ]),
        ({"egress": {"allowedCIDRs": [f"10.0.{number}.0/24" for number in range(65)]}}, [
            "spec.egress.allowedCIDRs: Too many: 65: must have at most 64 items"
        ]),
        ({"domains": ["shop.example", "*.acme.example"]}, []),
        ({"domains": ["*", "Shop.example", "a.*.example"]}, [
            f'spec.domains[0]: Invalid value: "*": {WILDCARD_ERROR}',
            f'spec.domains[1]: Invalid value: "Shop.example": {SUBDOMAIN_ERROR}',
            f'spec.domains[2]: Invalid value: "a.*.example": {WILDCARD_ERROR}',
        ]),
        ({"domains": [f"{n}.example" for n in range(257)]}, [
            "spec.domains: Invalid value: 257: must have at most 256 entries"
        ]),
        ({"finalizers": ["mine"]}, [
            'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name '
            "nor is it fully qualified"
        ]),
    ],
)  # fmt: skip
def test_tenants(spec: Object, expected: list[str]) -> None:
    assert messages(TENANTS.validate(tenant(**spec))) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("acme", []),
        ("1st", []),
        ("all", ["is reserved: in a path it stands for all tenants at once"]),
        ("a.b", ["must not contain dots"]),
        ("system", []),
    ],
)
def test_names_of_tenants(name: str, expected: list[str]) -> None:
    assert TENANTS.validate_name is not None
    assert list(TENANTS.validate_name(name, False)) == expected


def test_a_tenant_may_not_move_between_stores() -> None:
    old = tenant(storageClusterId="1")
    new = copy.deepcopy(old)
    new["spec"]["storageClusterId"] = "2"
    assert messages(TENANTS.validate_update(new, old)) == [
        'spec.storageClusterId: Invalid value: "2": field is immutable'
    ]


@pytest.mark.parametrize("strategy", [TENANTS, NAMESPACES], ids=["tenants", "namespaces"])
def test_namespaces_and_tenants_are_emptied_before_deletion(strategy: Any) -> None:
    old: Object = {"metadata": {"name": "a"}, "spec": {}}
    strategy.default(old)
    strategy.prepare_create(old)
    (finalizer,) = old["spec"]["finalizers"]
    new = copy.deepcopy(old)
    new["spec"]["finalizers"] = []
    strategy.prepare_update(new, old)
    assert new["spec"]["finalizers"] == [finalizer], "only /finalize removes it"
    new["spec"]["finalizers"].append("x")
    assert old["spec"]["finalizers"] == [finalizer]
    validate_finalize = strategy.validate_subresource["finalize"]
    assert validate_finalize({"spec": {"finalizers": ["a.b/c"]}}, old) == []
    assert messages(validate_finalize({"spec": {"finalizers": ["mine"]}}, old)) == [
        'spec.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name '
        "nor is it fully qualified"
    ]


@pytest.mark.parametrize(
    ("deleted", "phase", "expected"),
    [
        (False, "Active", []),
        (True, "Terminating", []),
        (False, "Terminating", [
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
        ]),
        (True, "Active", [
            "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty"
        ]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strategy", [TENANTS, NAMESPACES], ids=["tenants", "namespaces"])
def test_the_phase_is_terminating_exactly_after_deletion(
    strategy: Any, deleted: bool, phase: str, expected: list[str]
) -> None:
    old: Object = {"metadata": {"name": "a", **({"deletionTimestamp": "t"} if deleted else {})}}
    assert messages(strategy.validate_status({**old, "status": {"phase": phase}}, old)) == expected


def test_a_namespace_is_labelled_with_its_name_even_a_generated_one() -> None:
    made: Object = {"metadata": {"generateName": "a-", "labels": {"x": "y"}}}
    NAMESPACES.default(made)
    made["metadata"]["name"] = "a-12345"
    NAMESPACES.prepare_create(made)
    assert made["metadata"]["labels"] == {"x": "y", "kubernetes.io/metadata.name": "a-12345"}
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert NAMESPACES.fields["status.phase"](made) == "Active"


def test_a_node_may_bring_its_status_and_be_selected_by_being_cordoned() -> None:
    assert NODES.keeps_new_status
    node: Object = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "1000m"}}}
    NODES.default(node)
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "1"}
    assert NODES.fields["spec.unschedulable"](node) == "false"
    node["spec"]["unschedulable"] = True
    assert NODES.fields["spec.unschedulable"](node) == "true"


def test_what_a_node_got_it_keeps() -> None:
    old: Object = {"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "p"}}
    new: Object = {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24"], "providerID": ""}}
    assert messages(NODES.validate_update(new, old)) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid',
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid',
    ]
    assert messages(NODES.validate_update(new, {"spec": {}})) == []


def test_the_two_spellings_of_pod_ranges_agree() -> None:
    for spec in ({"podCIDR": "10.0.0.0/24"}, {"podCIDRs": ["10.0.0.0/24"]}):
        node: Object = {"spec": dict(spec)}
        NODES.default(node)
        assert node["spec"] == {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}
