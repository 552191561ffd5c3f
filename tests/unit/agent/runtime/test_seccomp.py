"""The default seccomp profile, from a small one like the distribution's."""

from pathlib import Path

import orjson
import pytest

from alcove.agent.runtime.base import SpecRefused
from alcove.agent.runtime.seccomp import (
    NAMESPACE_FLAGS,
    PROFILE,
    default_profile,
    load,
    load_local,
    local_profile,
)
from alcove.api.objects import Object

RAW: Object = {
    "defaultAction": "SCMP_ACT_ERRNO",
    "defaultErrnoRet": 38,
    "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}],
    "syscalls": [
        {
            "names": ["read", "mount", "clone", "clone3", "unshare", "io_uring_setup"],
            "action": "SCMP_ACT_ALLOW",
        },
        {"names": ["arch_prctl"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["amd64"]}},
        {"names": ["breakpoint"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["arm64"]}},
        {"names": ["bpf"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {
            "names": ["bpf"],
            "action": "SCMP_ACT_ERRNO",
            "errnoRet": 1,
            "excludes": {"caps": ["CAP_SYS_ADMIN"]},
        },
        {
            "names": ["personality"],
            "action": "SCMP_ACT_ALLOW",
            "args": [{"index": 0, "value": 8, "valueTwo": 0, "op": "SCMP_CMP_EQ"}],
        },
        {"names": ["mount_setattr"], "action": "SCMP_ACT_ALLOW"},
    ],
}


def actions(profile: Object) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for rule in profile["syscalls"]:
        for name in rule["names"]:
            found.setdefault(name, []).append(rule["action"].removeprefix("SCMP_ACT_"))
    return found


def test_an_ordinary_container_makes_no_namespaces_and_mounts_nothing() -> None:
    profile = default_profile(RAW, (), "x86_64")
    by_name = actions(profile)
    assert by_name["read"] == ["ALLOW"]
    assert by_name["arch_prctl"] == ["ALLOW"]
    assert "breakpoint" not in by_name
    for name in ("mount", "unshare", "bpf", "mount_setattr", "io_uring_setup", "clone3"):
        assert by_name[name] == ["ERRNO"], name
    [clone] = [rule for rule in profile["syscalls"] if "clone" in rule["names"]]
    assert clone["args"] == [
        {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    ]
    [clone3] = [rule for rule in profile["syscalls"] if "clone3" in rule["names"]]
    assert clone3["errnoRet"] == 38
    assert profile["architectures"] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)


def test_cap_sys_admin_allows_more_calls_but_not_io_uring() -> None:
    by_name = actions(default_profile(RAW, ["CAP_SYS_ADMIN"], "x86_64"))
    for name in ("mount", "unshare", "bpf", "clone", "clone3", "mount_setattr"):
        assert by_name[name] == ["ALLOW"], name
    assert "io_uring_setup" not in by_name


def test_another_machine() -> None:
    profile = default_profile(RAW, (), "aarch64")
    assert "breakpoint" in actions(profile)
    assert profile["architectures"] == ["SCMP_ARCH_AARCH64"]


def test_arguments_are_kept() -> None:
    rules = default_profile(RAW, (), "x86_64")["syscalls"]
    [rule] = [rule for rule in rules if "personality" in rule["names"]]
    assert rule["args"] == [{"index": 0, "value": 8, "op": "SCMP_CMP_EQ"}]


def test_no_profile_is_no_less_a_profile(tmp_path: Path) -> None:
    with pytest.raises(SpecRefused, match="no seccomp profile"):
        load(tmp_path / "missing")
    (tmp_path / "bad").write_text("{")
    with pytest.raises(SpecRefused):
        load(tmp_path / "bad")


@pytest.mark.skipif(not PROFILE.exists(), reason="the distribution's profile is not installed")
def test_the_distributions_profile_is_understood() -> None:
    by_name = actions(default_profile(load(), ()))
    for name in ("read", "execve", "futex", "openat", "socket"):
        assert "ALLOW" in by_name[name], name
    for name in ("mount", "unshare", "setns", "bpf", "keyctl", "ptrace", "init_module", "open_by_handle_at"):
        assert name == "ptrace" or "ALLOW" not in by_name.get(name, []), name


def test_a_profile_of_the_node_is_used_as_it_is(tmp_path: Path) -> None:
    rules = [
        {"names": ["mount", "keyctl"], "action": "SCMP_ACT_ALLOW"},
        {"names": ["reboot"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_BOOT"]}},
    ]
    raw = {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "own.json").write_bytes(orjson.dumps(raw))
    profile = local_profile(load_local(tmp_path, "profiles/own.json"), ())
    assert profile == {**raw, "syscalls": rules[:1]}


@pytest.mark.parametrize("name", ["", "none.json", "../secret.json", "/etc/passwd", "text", "list"])
def test_a_profile_that_the_node_does_not_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    profiles = tmp_path / "seccomp"
    profiles.mkdir()
    (profiles / "text").write_text("no JSON")
    (profiles / "list").write_text("[]")
    with pytest.raises(SpecRefused, match="seccomp profile"):
        load_local(profiles, name)
