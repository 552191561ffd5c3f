"""Pods that fill, fork and burn, and pods that name their node: others' pods start and are not evicted, the agent
goes on, and what the pods wrote is bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from alcove.agent.cgroups import CgroupLayout, Cgroups
from alcove.agent.logs.rotation import FILES_MAX
from alcove.agent.runtime.conmon import LOG_FILE_BYTES_MAX
from alcove.api.objects import Object
from alcove.testing.abuse import pods
from alcove.testing.attacks import AttackedCluster
from alcove.testing.cluster import create, ended, lacking, pod, ready, remove, until
from alcove.testing.server import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,  # They take the whole machine, as far as they may, from other tests too.
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

WAIT_SECONDS = 60.0
AGENT_BYTES_MAX = 400 << 20
SECONDS = 3.0


def wild(arena: AttackedCluster, name: str) -> Object:
    return pods.named(name, pods.BURNING[name], arena.target.runtime_class)


def size_of(folder: Path) -> int:
    """Bytes that the folder's files take on the disk."""
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # Logs are rotated meanwhile.
                size += Path(top, name).lstat().st_blocks * 512
    return size


def agent_bytes(arena: AttackedCluster) -> int:
    pages = Path(f"/proc/{arena.cluster.agents['n1'].pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_pods_that_name_their_node_and_ask_for_too_much_fail_and_take_nothing(arena: AttackedCluster) -> None:
    names = [f"giant-{number}" for number in range(3)]
    with arena.unharmed():
        for name in names:
            create(arena.attacker, pods.giant(name, "n1"))
        for name in names:
            found = ended(arena.attacker, name, WAIT_SECONDS)
            assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "OutOfcpu")
        wanted = pod("modest", **arena.sandboxed)
        wanted["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m", "memory": "64Mi"}}
        create(arena.quiet.caller, wanted)
        ready(arena.quiet.caller, "modest", WAIT_SECONDS)
        remove(arena.quiet.caller, "modest")
        remove(arena.attacker, *names)


def test_pods_together_have_less_weight_than_what_serves_all_tenants(arena: AttackedCluster) -> None:
    """However many there are, and whatever they request: the quiet tenant's pod is one."""
    groups = Cgroups.of_machine()
    file = "cpu.weight" if groups.layout is CgroupLayout.V2 else "cpu.shares"
    [cpu] = [each.path for each in groups.mounts if (each.path / "alcove" / file).exists()]
    others = 100 if groups.layout is CgroupLayout.V2 else 1_024
    assert int((cpu / "alcove" / file).read_text()) < others
    for process in arena.cluster.processes.values():
        assert os.getsid(process.pid) == process.pid


def test_huge_files_of_a_pod_do_not_burden_the_agent(arena: AttackedCluster) -> None:
    """The files that the node made for the pod are sparse and 60 GB long when the next agent reads them."""
    grow = (
        "for f in /etc/hosts /etc/hostname /etc/resolv.conf /dev/termination-log; do truncate -s 60G $f; done"
    )
    wanted = pod("sparse", f"{grow}; ls -l /etc/hosts; exec sleep 1000", **arena.sandboxed)
    with arena.unharmed():
        uid = create(arena.attacker, wanted)
        ready(arena.attacker, "sparse", WAIT_SECONDS)
        data = arena.cluster.nodes[0].data
        wait_until(lambda: any(length > 50 << 30 for length in _lengths(data, uid, "hosts")))
        agent = arena.cluster.agents["n1"]
        agent.kill()
        agent.start()
        agent.wait()
        ready(arena.attacker, "sparse", WAIT_SECONDS)
        assert agent_bytes(arena) < AGENT_BYTES_MAX
        # The new agent serves DNS again some time after it is ready.
        wait_until(arena.quiet.has_dns)
        figures = arena.quiet.measure(1.0)
        assert figures.start_ms and not figures.failures, figures.failures
        remove(arena.attacker, "sparse")


def _lengths(data: Path, uid: str, name: str) -> Iterator[int]:
    """Of the pod's files of that name on the node. Those of other pods may go meanwhile."""
    for folder, _, names in os.walk(data):
        if uid in folder and name in names:
            with suppress(OSError):
                yield Path(folder, name).lstat().st_size


def test_logs_of_a_pod_are_bounded_while_it_writes_as_fast_as_it_can(arena: AttackedCluster) -> None:
    uid = create(arena.attacker, wild(arena, "logs"))
    with arena.unharmed():
        ready(arena.attacker, "logs", WAIT_SECONDS)
        during = arena.quiet.measure(SECONDS)
        most = size_of(arena.cluster.nodes[0].data / "logs" / uid)
        remove(arena.attacker, "logs")
    assert during.start_ms and not during.failures, during.failures
    assert most <= (FILES_MAX + 1) * LOG_FILE_BYTES_MAX, f"{most >> 20} MiB of logs"


def test_a_pod_that_fills_its_volume_is_evicted_and_no_other(arena: AttackedCluster) -> None:
    with arena.unharmed():
        create(arena.attacker, wild(arena, "fills"))
        found = until(
            arena.attacker, "fills", lambda each: each["status"].get("reason") == "Evicted", WAIT_SECONDS
        )
        assert "exceeds the limit" in found["status"]["message"]
        assert arena.quiet.is_ready
        remove(arena.attacker, "fills")


def test_other_pods_start_beside_wild_ones(arena: AttackedCluster) -> None:
    names = ["forks", "inodes", "probes", "hosts"]
    before = arena.quiet.measure(1.0)
    with arena.unharmed():
        for name in names:
            create(arena.attacker, wild(arena, name))
        try:
            for name in names:
                until(arena.attacker, name, lambda each: each["status"]["phase"] != "Pending", WAIT_SECONDS)
            during = arena.quiet.measure(SECONDS)
            assert arena.quiet.is_ready
        finally:
            remove(arena.attacker, *names)
    assert not during.failures, during.failures
    # Four burning pods share two cores with the pod that starts.
    assert during.start_p50_ms <= 4 * before.start_p50_ms + 5_000
