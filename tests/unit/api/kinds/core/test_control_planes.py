"""`Tenant.spec.controlPlane`: what is accepted, and what is refused with which message."""

import copy
from typing import Any

import pytest

from alcove.api.kinds.core import STRATEGIES
from alcove.api.kinds.core.control_planes import (
    is_dedicated,
    is_moving,
    needs_plane,
    serving_mode,
    target_mode,
)
from alcove.api.objects import Object

TENANTS = STRATEGIES["tenants"]


def tenant(**control_plane: Any) -> Object:
    made: Object = {"metadata": {"name": "acme"}, "spec": {"controlPlane": control_plane}}
    TENANTS.default(made)
    return made


def problems(**control_plane: Any) -> list[str]:
    return [
        str(error).removeprefix("spec.controlPlane.") for error in TENANTS.validate(tenant(**control_plane))
    ]


def test_everything_that_may_be_said_of_a_dedicated_plane() -> None:
    said = {
        "mode": "Dedicated",
        "replicas": 1,
        "version": "0.1.0",
        "storage": {"size": "2Gi", "type": "sqlite"},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "runtimeClassName": "crun",
        "certificateSANs": ["api.acme.example", "203.0.113.7", "2001:db8::7"],
        "users": [{"name": "admin"}, {"name": "dev", "groups": ["developers", "system:masters"]}],
    }
    assert problems(**said) == []
    said |= {"replicas": 3, "storage": {"size": "2Gi", "type": "etcd"}}
    assert problems(**said) == []


def test_a_store_is_not_converted() -> None:
    before, after = (tenant(mode="Dedicated", storage={"type": each}) for each in ("sqlite", "etcd"))
    [error] = TENANTS.validate_update(after, before)
    assert "storage.type: Forbidden: may not be changed while the tenant has a dedicated API server" in str(
        error
    )
    shared = tenant(mode="Shared", storage={"type": "sqlite"})
    assert TENANTS.validate_update(tenant(mode="Shared", storage={"type": "etcd"}), shared) == []
    assert TENANTS.validate_update(tenant(mode="Dedicated"), before) == [], "sqlite is the default"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"mode": "Own"}, ['mode: Unsupported value: "Own"']),
        (
            {"replicas": 3},
            ["replicas: Invalid value: 3: must be 1: a store of type sqlite has one API server; use storage.type etcd"],
        ),
        ({"replicas": 4, "storage": {"type": "etcd"}}, ["replicas: Invalid value: 4: must be 1 to 3"]),
        ({"replicas": 0, "storage": {"type": "etcd"}}, ["replicas: Invalid value: 0: must be 1 to 3"]),
        ({"replicas": 0}, ["replicas: Invalid value: 0: must be 1"]),
        ({"version": "../x"}, ['version: Invalid value: "../x": must be a version']),
        ({"storage": {"type": "zookeeper"}}, ['storage.type: Unsupported value: "zookeeper"']),
        (
            {"storage": {"type": "etcd", "size": "256Mi"}},
            ['storage.size: Invalid value: "256Mi": must be at least 512Mi'],
        ),
        ({"storage": {"size": "1Mi"}}, ['storage.size: Invalid value: "1Mi": must be at least 64Mi']),
        ({"storage": {"size": "-1Gi"}}, ['storage.size: Invalid value: "-1Gi": must be greater than']),
        ({"resources": {"limits": {"gpu": "1"}}}, ["resources.limits[gpu]: Invalid value"]),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            ['resources.requests[cpu]: Invalid value: "2": must not be more than'],
        ),
        ({"runtimeClassName": "A/B"}, ['runtimeClassName: Invalid value: "A/B"']),
        ({"certificateSANs": ["a.example", "a.example"]}, ['certificateSANs[1]: Duplicate value: "a.example"']),
        ({"certificateSANs": ["no name"]}, ['certificateSANs[0]: Invalid value: "no name"']),
        ({"certificateSANs": ["a.example"] + [f"a{n}.example" for n in range(64)]}, ["certificateSANs: Too many"]),
        ({"users": [{"name": "a"}, {"name": "a"}]}, ['users[1].name: Duplicate value: "a"']),
        ({"users": [{"name": "tenant:other"}]}, ['users[0].name: Invalid value: "tenant:other"']),
        ({"users": [{"name": "a", "groups": [""]}]}, ['users[0].groups[0]: Invalid value: ""']),
        ({"users": [{"name": "a", "groups": ["x\ny"]}]}, ["users[0].groups[0]: Invalid value"]),
    ],
)  # fmt: skip
def test_what_a_plane_cannot_be_is_refused(said: dict[str, Any], expected: list[str]) -> None:
    found = problems(**{"mode": "Dedicated", **said})
    assert len(found) == len(expected), found
    for message, start in zip(found, expected, strict=True):
        assert message.startswith(start), message


def test_a_name_must_leave_room_for_those_of_its_servers_pod() -> None:
    made = tenant(mode="Dedicated")
    made["metadata"]["name"] = "a" * 41
    [error] = TENANTS.validate(made)
    assert "must be at most 40 characters" in str(error)
    made["spec"]["controlPlane"]["mode"] = "Shared"
    assert TENANTS.validate(made) == []


@pytest.mark.parametrize(("old", "new"), [("Shared", "Dedicated"), ("Dedicated", "Shared")])
def test_a_change_of_the_mode_records_who_serves_the_tenant_until_it_has_moved(old: str, new: str) -> None:
    before = tenant(mode=old)
    after = copy.deepcopy(before)
    after["spec"]["controlPlane"]["mode"] = new
    assert TENANTS.validate_update(after, before) == []
    TENANTS.prepare_update(after, before)
    assert (serving_mode(after), target_mode(after), is_moving(after)) == (old, new, True)
    assert is_dedicated(after) == (old == "Dedicated") and needs_plane(after)
    back = copy.deepcopy(after)
    back["spec"]["controlPlane"]["mode"] = old
    TENANTS.prepare_update(back, after)
    assert (serving_mode(back), is_moving(back)) == (old, False)
    after["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not is_moving(after), "it stays where it is, and is deleted there"


def test_neither_ring0_nor_a_tenant_that_is_being_deleted_moves() -> None:
    before = tenant(mode="Shared")
    after = copy.deepcopy(before)
    after["spec"]["controlPlane"]["mode"] = "Dedicated"
    before["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    [error] = TENANTS.validate_update(after, before)
    assert "while the tenant is being deleted" in str(error)
    before["metadata"] = {"name": "system"}
    [error] = TENANTS.validate_update(after, before)
    assert "ring0 is served by the home plane" in str(error)


def test_a_status_names_a_mode_that_there_is() -> None:
    before = tenant(mode="Shared")
    before["status"] = {"phase": "Active"}
    after = copy.deepcopy(before)
    after["status"]["controlPlane"] = {"mode": "Elsewhere"}
    [error] = TENANTS.validate_status(after, before)
    assert str(error).startswith("status.controlPlane.mode")


@pytest.mark.parametrize(
    ("old", "new"),
    [("Shared", "Foreign"), ("Dedicated", "Foreign"), ("Foreign", "Shared"), ("Foreign", "Dedicated")],
)
def test_a_tenant_does_not_move_to_or_from_a_foreign_plane(old: str, new: str) -> None:
    before = tenant(mode=old)
    after = copy.deepcopy(before)
    after["spec"]["controlPlane"]["mode"] = new
    [error] = TENANTS.validate_update(after, before)
    assert str(error).startswith("spec.controlPlane.mode: Forbidden")
