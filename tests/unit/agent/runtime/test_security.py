"""What containers may do, and what tenants may request."""

from pathlib import Path

import pytest

from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.agent.runtime.security import (
    ALL_CAPABILITIES,
    DEFAULT_CAPABILITIES,
    RING0,
    TENANT,
    TENANT_SANDBOXED,
    SecurityPolicy,
    capabilities,
    check_pod,
    held,
    no_new_privileges,
    policy_of,
    seccomp_profile,
    sysctls_of,
)
from alcove.api.objects import Object

RAW: Object = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}


def asking(**fields: object) -> Object:
    return {"securityContext": {"capabilities": fields}}


@pytest.mark.parametrize(
    ("container", "policy", "expected"),
    [
        ({}, TENANT, set(DEFAULT_CAPABILITIES)),
        (asking(drop=["ALL"]), TENANT, set()),
        (asking(drop=["ALL"], add=["NET_BIND_SERVICE"]), TENANT, {"CAP_NET_BIND_SERVICE"}),
        (asking(drop=["chown"]), TENANT, set(DEFAULT_CAPABILITIES) - {"CAP_CHOWN"}),
        (asking(add=["CAP_NET_RAW"]), TENANT, {*DEFAULT_CAPABILITIES, "CAP_NET_RAW"}),
        (asking(add=["NET_ADMIN"]), TENANT_SANDBOXED, {*DEFAULT_CAPABILITIES, "CAP_NET_ADMIN"}),
        (asking(add=["ALL"], drop=["SYS_ADMIN"]), RING0, set(ALL_CAPABILITIES) - {"CAP_SYS_ADMIN"}),
        ({"securityContext": {"privileged": True}}, RING0, set(ALL_CAPABILITIES)),
    ],
)  # fmt: skip
def test_capabilities(container: Object, policy: SecurityPolicy, expected: set[str]) -> None:
    assert set(capabilities(container, policy)) == expected


@pytest.mark.parametrize(
    ("container", "policy"),
    [
        (asking(add=["SYS_ADMIN"]), TENANT),
        (asking(add=["ALL"]), TENANT),
        (asking(add=["MADE_UP"]), RING0),
        ({"securityContext": {"privileged": True}}, TENANT),
        ({"securityContext": {"privileged": True}}, TENANT_SANDBOXED),
    ],
)
def test_capabilities_that_are_refused(container: Object, policy: SecurityPolicy) -> None:
    with pytest.raises(SpecRefused):
        capabilities(container, policy)


def test_everything_is_what_the_node_can_give() -> None:
    has = held(0x1FFFEFFFFFF)
    assert "CAP_SYS_RESOURCE" not in has
    assert len(has) == len(ALL_CAPABILITIES) - 1
    assert "CAP_SYS_RESOURCE" not in capabilities({"securityContext": {"privileged": True}}, RING0, has)


@pytest.mark.parametrize(
    ("pod", "container", "policy", "has_profile"),
    [
        ({}, {}, TENANT, True),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, {}, TENANT, True),
        (
            {"seccompProfile": {"type": "Unconfined"}},
            {"seccompProfile": {"type": "RuntimeDefault"}},
            TENANT,
            True,
        ),
        ({"seccompProfile": {"type": "Unconfined"}}, {}, TENANT_SANDBOXED, False),
        ({}, {"seccompProfile": {"type": "Unconfined"}}, RING0, False),
        ({}, {"privileged": True}, RING0, False),
    ],
)
def test_profiles(pod: Object, container: Object, policy: SecurityPolicy, has_profile: bool) -> None:
    found = seccomp_profile({"securityContext": pod}, {"securityContext": container}, (), policy, RAW)
    assert (found is not None) == has_profile


def test_ring0_may_use_profiles_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"defaultAction": "SCMP_ACT_LOG"}')
    pod = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "own.json"}}}
    found = seccomp_profile(pod, {}, (), RING0, RAW, tmp_path)
    assert found is not None and found["defaultAction"] == "SCMP_ACT_LOG"
    with pytest.raises(SpecRefused, match="tenants"):
        seccomp_profile(pod, {}, (), TENANT_SANDBOXED, RAW, tmp_path)


@pytest.mark.parametrize("kind", ["Unconfined", "Localhost"])
def test_profiles_that_a_tenant_may_not_choose(kind: str) -> None:
    with pytest.raises(SpecRefused, match=kind):
        seccomp_profile({"securityContext": {"seccompProfile": {"type": kind}}}, {}, (), TENANT, RAW)


def test_what_a_pod_may_share_with_the_node() -> None:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        with pytest.raises(SpecRefused, match=field):
            check_pod({field: True}, TENANT_SANDBOXED)
        check_pod({field: True}, RING0)
    sysctls: Object = {"securityContext": {"sysctls": [{"name": "net.ipv4.ip_forward", "value": "1"}]}}
    with pytest.raises(SpecRefused, match="ip_forward"):
        check_pod(sysctls, TENANT)
    for name in ("net.ipv4.tcp_syncookies", "net/ipv4/tcp_syncookies"):
        check_pod({"securityContext": {"sysctls": [{"name": name, "value": "0"}]}}, TENANT)
    with pytest.raises(SpecRefused):
        check_pod({"securityContext": {"sysctls": [{"name": "net/ipv4/ip_forward", "value": "1"}]}}, TENANT)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("kernel/shm_rmid_forced", "kernel.shm_rmid_forced"),
        ("net/ipv4/conf/eth0.1/forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("net.ipv4.conf.eth0/1.forwarding", "net.ipv4.conf.eth0/1.forwarding"),
        ("plain", "plain"),
    ],
)
def test_names_of_sysctls_may_have_either_separator(name: str, expected: str) -> None:
    assert sysctls_of({"securityContext": {"sysctls": [{"name": name, "value": "1"}]}}) == {expected: "1"}


def test_who_gets_which_policy() -> None:
    assert policy_of(True, Isolation.NAMESPACES) is RING0
    assert policy_of(False, Isolation.NAMESPACES) is TENANT
    assert policy_of(False, Isolation.SANDBOX) is TENANT_SANDBOXED


def test_gaining_rights_is_refused_only_where_that_is_said() -> None:
    assert no_new_privileges({"securityContext": {"allowPrivilegeEscalation": False}})
    assert not no_new_privileges({"securityContext": {"allowPrivilegeEscalation": True}})
    assert not no_new_privileges({})
