"""Control groups: how they are mounted, and what is written and read, on both versions."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from alcove.agent.cgroups import CgroupLayout, CgroupLimits, Cgroups, CgroupUsage, find, weight_of

V1 = """\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup {root}/cpu cgroup rw,relatime,cpu,cpuacct 0 0
cgroup {root}/memory cgroup rw,relatime,memory 0 0
cgroup {root}/pids cgroup rw,relatime,pids 0 0
"""
UNIFIED = "cgroup2 {root}/unified cgroup2 rw,relatime 0 0\n"
V2 = "proc /proc proc rw 0 0\ncgroup2 {root} cgroup2 rw,nsdelegate 0 0\n"
LIMITS = CgroupLimits(cpu_milli=250, cpu_shares=256, memory_bytes=64 << 20, processes=100)


@pytest.mark.parametrize(
    ("mounts", "layout"),
    [
        (V1, CgroupLayout.V1),
        (V1 + UNIFIED, CgroupLayout.HYBRID),
        (UNIFIED + V1, CgroupLayout.HYBRID),
        (V2, CgroupLayout.V2),
    ],
)
def test_how_they_are_mounted(mounts: str, layout: CgroupLayout) -> None:
    assert find(mounts.format(root="/c"))[0] is layout


def test_where_version_2_is() -> None:
    assert Cgroups(V1.format(root="/c")).unified is None
    assert Cgroups((V1 + UNIFIED).format(root="/c")).unified == Path("/c/unified")
    assert Cgroups(V2.format(root="/c")).unified == Path("/c")


def test_limits_on_version_1(tmp_path: Path) -> None:
    groups = Cgroups(V1.format(root=tmp_path))
    groups.ensure("/alcove/pod1", LIMITS)
    assert (tmp_path / "memory/alcove/pod1/memory.limit_in_bytes").read_text() == str(64 << 20)
    assert (tmp_path / "cpu/alcove/pod1/cpu.shares").read_text() == "256"
    assert (tmp_path / "cpu/alcove/pod1/cpu.cfs_quota_us").read_text() == "25000"
    assert (tmp_path / "pids/alcove/pod1/pids.max").read_text() == "100"
    groups.ensure("/alcove/pod1", CgroupLimits())
    assert (tmp_path / "memory/alcove/pod1/memory.limit_in_bytes").read_text() == "-1"
    assert (tmp_path / "cpu/alcove/pod1/cpu.cfs_quota_us").read_text() == "-1"
    assert (tmp_path / "pids/alcove/pod1/pids.max").read_text() == "max"


def test_limits_on_version_2(tmp_path: Path) -> None:
    groups = Cgroups(V2.format(root=tmp_path))
    groups.ensure("/alcove/pod1", LIMITS)
    assert (tmp_path / "alcove/pod1/memory.max").read_text() == str(64 << 20)
    assert (tmp_path / "alcove/pod1/cpu.weight").read_text() == str(weight_of(256))
    assert (tmp_path / "alcove/pod1/cpu.max").read_text() == "25000 100000"
    assert (tmp_path / "alcove/pod1/pids.max").read_text() == "100"
    for parent in (tmp_path, tmp_path / "alcove"):
        assert (parent / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert not (tmp_path / "alcove/pod1/cgroup.subtree_control").exists()
    groups.ensure("/alcove/pod1", CgroupLimits())
    assert (tmp_path / "alcove/pod1/cpu.max").read_text() == "max 100000"


@pytest.mark.parametrize("mounts", [V1, V2])
def test_less_cpu_than_before_is_noticed(tmp_path: Path, mounts: str) -> None:
    groups = Cgroups(mounts.format(root=tmp_path))
    groups.ensure("/p", CgroupLimits())
    assert groups.lowers_cpu("/p", CgroupLimits(cpu_milli=200))
    groups.ensure("/p", CgroupLimits(cpu_milli=200))
    lower = {each: groups.lowers_cpu("/p", CgroupLimits(cpu_milli=each)) for each in (0, 100, 200, 300)}
    assert lower == {0: False, 100: True, 200: False, 300: False}


def test_a_tiny_share_of_a_cpu_is_what_the_kernel_takes_at_least(tmp_path: Path) -> None:
    groups = Cgroups(V2.format(root=tmp_path))
    groups.ensure("/p", CgroupLimits(cpu_milli=1))
    assert (tmp_path / "p/cpu.max").read_text() == "1000 100000"


@pytest.mark.parametrize(
    ("shares", "weight"), [(2, 1), (1_024, 39), (262_144, 10_000), (10**9, 10_000), (0, 1)]
)
def test_shares_as_weights(shares: int, weight: int) -> None:
    assert weight_of(shares) == weight


def _files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_usage_on_version_2(tmp_path: Path) -> None:
    _files(
        tmp_path / "p",
        {
            "memory.current": "1000\n",
            "memory.stat": "anon 5\ninactive_file 300\n",
            "cpu.stat": "usage_usec 42\nuser_usec 1\n",
            "pids.current": "3\n",
            "memory.events": "low 0\noom 2\noom_kill 1\n",
        },
    )
    groups = Cgroups(V2.format(root=tmp_path))
    assert groups.usage("/p") == CgroupUsage(42_000, 1_000, 700, 3)
    assert groups.oom_kills("/p") == 1


def test_usage_on_version_1(tmp_path: Path) -> None:
    _files(
        tmp_path / "memory/p",
        {
            "memory.usage_in_bytes": "1000\n",
            "memory.stat": "cache 1\ntotal_inactive_file 1200\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        },
    )
    _files(tmp_path / "cpu/p", {"cpuacct.usage": "77\n"})
    _files(tmp_path / "pids/p", {"pids.current": "4\n"})
    groups = Cgroups(V1.format(root=tmp_path))
    assert groups.usage("/p") == CgroupUsage(77, 1_000, 0, 4)
    assert groups.oom_kills("/p") == 2


def test_what_is_not_there_uses_nothing(tmp_path: Path) -> None:
    for mounts in (V1, V2, ""):
        groups = Cgroups(mounts.format(root=tmp_path))
        assert groups.usage("/nobody") == CgroupUsage()
        assert groups.oom_kills("/nobody") == 0
        assert groups.processes("/nobody") == []
        assert groups.remove("/nobody")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_processes_of_a_group_are_found_killed_and_the_group_removed() -> None:
    groups = Cgroups.of_machine()
    name = f"alcove-unit-{os.getpid()}"
    groups.ensure(f"{name}/inner", LIMITS)
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        controller = "memory" if groups.layout is not CgroupLayout.V2 else ""
        (groups._path(controller, f"{name}/inner") / "cgroup.procs").write_text(str(sleeper.pid))
        assert sleeper.pid in groups.processes(name)
        assert groups.children(name) == ["inner"]
        assert not groups.remove(name)
        groups.kill(name)
        assert sleeper.wait(60) == -9
        assert groups.remove(name)
        assert groups.children(name) == []
    finally:
        sleeper.kill()
        groups.remove(name)


async def test_a_group_is_removed_when_its_last_process_has_ended_however_late(tmp_path: Path) -> None:
    """On a busy machine a killed process takes a while to end; its group was left behind."""
    groups = Cgroups(V2.format(root=tmp_path))
    (tmp_path / "alcove/pod1").mkdir(parents=True)
    dying = tmp_path / "alcove/pod1/cgroup.procs"
    dying.touch()  # Of a group on disk: a directory that is not empty cannot be removed.
    removing = asyncio.create_task(groups.remove_killed("/alcove/pod1"))
    await asyncio.sleep(0)
    assert not removing.done()
    dying.unlink()
    assert await removing
    assert not (tmp_path / "alcove/pod1").exists()


@pytest.mark.parametrize("mounts", [V1, V2])
def test_a_tenant_has_the_weight_of_what_its_pods_request_not_of_their_number(
    tmp_path: Path, mounts: str
) -> None:
    groups = Cgroups(mounts.format(root=tmp_path))
    file = tmp_path / ("acme/cpu.weight" if mounts is V2 else "cpu/acme/cpu.shares")
    for number in range(50):
        groups.ensure(f"/acme/idle-{number}", CgroupLimits(cpu_shares=2))
    groups.balance("/acme")
    assert file.read_text() == ("1" if mounts is V2 else "2")
    groups.ensure("/acme/one", CgroupLimits(cpu_shares=1_024))
    groups.ensure("/acme/two", CgroupLimits(cpu_shares=2_048))
    groups.balance("/acme")
    assert int(file.read_text()) == (weight_of(1_024) + weight_of(2_048) if mounts is V2 else 3_072)


def test_the_group_of_a_tenant_goes_with_its_last_pod(tmp_path: Path) -> None:
    groups = Cgroups(V2.format(root=tmp_path))
    (tmp_path / "acme").mkdir()
    groups.balance("/acme")
    assert not (tmp_path / "acme").exists()
    groups.balance("/acme")


def test_a_group_that_another_cluster_is_in_stays(tmp_path: Path) -> None:
    """The empty group of a cluster that was about to start went with the last one of another."""
    groups = Cgroups(V2.format(root=tmp_path))
    (tmp_path / "alcove/other").mkdir(parents=True)
    groups.remove_if_empty("/alcove")
    assert groups.children("/alcove") == ["other"]
    groups.remove("/alcove/other")
    groups.remove_if_empty("/alcove")
    groups.remove_if_empty("/alcove")
    assert not (tmp_path / "alcove").exists()


def test_all_pods_together_have_less_weight_than_processes_outside_of_them(tmp_path: Path) -> None:
    for version, mounts, file, least in (
        ("v1", V1, "cpu/alcove/cpu.shares", 1_024),
        ("v2", V2, "alcove/cpu.weight", 100),
    ):
        groups = Cgroups(mounts.format(root=tmp_path / version))
        groups.ensure("/alcove/n1/acme/pod1", LIMITS)
        groups.yield_cpu("/alcove/n1/acme/pod1")
        assert 0 < int((tmp_path / version / file).read_text()) < least
