"""What a container makes a node keep or run for it is bounded, and charged to its pod, in every runtime."""

import asyncio
import os
import resource
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from alcove.agent.cgroups import CgroupLimits
from alcove.agent.logs import files
from alcove.agent.logs.reader import LogFormatter, LogOptions
from alcove.agent.logs.rotation import LogRotation
from alcove.agent.runtime import conmon
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ExecSession, Isolation
from alcove.agent.runtime.bundle import UNKNOWN_EXIT_CODE
from alcove.agent.runtime.config import BindMount
from alcove.agent.runtime.node_processes import BYTES_PER_CONTAINER
from alcove.agent.runtime.resources import OPEN_FILES_MAX, OPEN_FILES_SOFT
from alcove.testing.containers import ContainerLab

pytestmark = [pytest.mark.root]
LOG_BYTES = 256 << 10


def size_of_logs(lab: ContainerLab, container: ContainerId) -> int:
    """Of all its files. conmon may rename one meanwhile."""
    size = 0
    for path in lab.log(container).parent.glob(f"{container}.log*"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


async def test_a_container_that_writes_faster_than_logs_are_rotated_keeps_to_one_file(
    lab: ContainerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conmon, "LOG_FILE_BYTES_MAX", LOG_BYTES)
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sh", "-c", "seq 1 100000; echo the end"]})
    waiting = asyncio.create_task(lab.runtime.wait(container))
    while not waiting.done():
        assert size_of_logs(lab, container) <= 2 * LOG_BYTES
        await asyncio.wait({waiting}, timeout=0.05)
    assert 0 < size_of_logs(lab, container) <= LOG_BYTES
    assert lab.lines(container)[-1] == "the end", "what is lost is what is oldest"


async def test_no_line_is_lost_of_a_log_that_is_rotated_in_time(
    lab: ContainerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conmon counts what a container writes over all its files, and replaces the file in the middle of one."""
    # Half of what is written.
    monkeypatch.setattr(conmon, "LOG_FILE_BYTES_MAX", 2 * LOG_BYTES)
    rotation = LogRotation(file_bytes_max=LOG_BYTES // 8, files_max=100)
    sandbox = await lab.sandbox()
    go = lab.folder / "go"
    go.mkdir()
    # However busy the machine is, the container is not more than a few parts ahead of the rotations: each part is more
    # than a file may have.
    script = (
        "for n in $(seq 1 20); do until [ -e /go/$n ]; do sleep 0.05; done;"
        " seq $((n * 1000)) $((n * 1000 + 999)); done"
    )
    container = await lab.container(
        sandbox, {"command": ["sh", "-c", script]}, mounts=[BindMount(str(go), "/go", read_only=True)]
    )
    log = lab.log(container)
    waiting = asyncio.create_task(lab.runtime.wait(container))
    while not waiting.done():
        for part in range(1, len(files.all_of(log)) + 4):
            (go / str(part)).touch()
        await rotation.rotate(lab.runtime, container, log)
        await asyncio.wait({waiting}, timeout=0.01)
    await rotation.rotate(lab.runtime, container, log)
    output = LogFormatter(LogOptions()).format(b"".join(path.read_bytes() for path in files.all_of(log)))
    assert output.decode().split() == [*map(str, range(1_000, 21_000))]
    assert len(files.all_of(log)) > 10


async def test_a_sandbox_cannot_fill_the_disk_by_its_log(lab: ContainerLab) -> None:
    """A pod whose containers share their processes can open the output of the first one."""
    pod = {"shareProcessNamespace": True}
    sandbox = await lab.sandbox(pod)
    command = ["sh", "-c", "seq 1 200000 > /proc/1/fd/1; exit 0"]
    container = await lab.container(sandbox, {"command": command}, pod)
    await lab.runtime.wait(container)
    assert size_of_logs(lab, sandbox) <= conmon.SANDBOX_LOG_BYTES_MAX


def commands_with(*words: str) -> dict[int, str]:
    """The cgroups of all processes of the machine whose command line has all of these words."""
    found: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if all(word in line for word in words):
                found[int(path.name)] = (path / "cgroup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def is_charged(lab: ContainerLab, text: str) -> bool:
    """Whether a process whose /proc/PID/cgroup is `text` counts for the pod, by all that pods are limited in."""
    lines = [line for line in text.splitlines() if f"/{lab.name}/_node" in line]
    controllers = {name for line in lines for name in line.split(":")[1].split(",")}
    return {"memory", "pids", "cpu"} <= controllers or any(line.startswith("0::") for line in lines)


async def test_the_runtimes_command_of_an_exec_is_charged_to_the_pod(lab: ContainerLab) -> None:
    """It runs as long as the process, which a tenant's probe or client can make as long as it likes."""
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sleep", "600"]})
    reading, writing = os.pipe()
    session = ExecSession(
        ["sh", "-c", "cat /proc/1/oom_score_adj /proc/self/oom_score_adj; exec sleep 600"], stdout=writing
    )
    running = asyncio.create_task(lab.runtime.exec(container, session))
    with os.fdopen(reading, "rb") as output:
        own, of_first = [await asyncio.to_thread(output.readline) for _ in range(2)]
        os.close(writing)
    assert own == of_first, "the process itself is as likely to be killed as the container's first one"
    commands = commands_with("exec", f"{container}_")
    assert commands
    assert all(map(partial(is_charged, lab), commands.values()))
    assert set(commands) <= set(lab.cgroups.processes(f"/{lab.name}/_node"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with asyncio.timeout(60):
        while set(commands) & set(lab.cgroups.processes(f"/{lab.name}/_node")):  # noqa: ASYNC110  It is killed.
            await asyncio.sleep(0.05)


async def charged(lab: ContainerLab, *containers: ContainerId) -> None:
    """Waits until the pod is charged for all processes that wait for these containers."""
    kinds = ["--full-attach"] if lab.runtime.isolation is Isolation.NAMESPACES else ["--full-attach", "wait"]

    def is_done() -> bool:
        found = [commands_with(kind, f"{each}_").values() for each in containers for kind in kinds]
        return all(groups and all(map(partial(is_charged, lab), groups)) for groups in found)

    async with asyncio.timeout(60):
        while not is_done():  # noqa: ASYNC110  It happens in other processes.
            await asyncio.sleep(0.05)


async def test_processes_that_wait_for_a_container_are_charged_to_the_pod(lab: ContainerLab) -> None:
    """conmon, and for a container in gVisor the command that waits for it, were the node's: a tenant with many
    containers had them for nothing."""
    lab.cgroups.ensure(f"/{lab.name}", CgroupLimits())
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sleep", "600"]})
    waiting, _ = (asyncio.create_task(lab.runtime.wait(each)) for each in (container, sandbox))
    await charged(lab, container, sandbox)
    await lab.runtime.kill(container, 9)
    assert (await waiting).exit_code == 137
    await lab.runtime.delete(container)
    async with asyncio.timeout(60):
        while commands_with("--full-attach", f"{container}_"):  # noqa: ASYNC110  It happens in other processes.
            await asyncio.sleep(0.05)


async def test_a_pod_is_over_when_all_its_processes_are_killed_with_those_who_wait(lab: ContainerLab) -> None:
    lab.cgroups.ensure(f"/{lab.name}", CgroupLimits())
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sleep", "600"]})
    waiting = [asyncio.create_task(lab.runtime.wait(each)) for each in (container, sandbox)]
    await charged(lab, container, sandbox)
    lab.cgroups.kill(f"/{lab.name}")
    async with asyncio.timeout(60):
        statuses = await asyncio.gather(*waiting)
    assert [each.phase for each in statuses] == [ContainerPhase.EXITED] * 2


async def test_a_pod_whose_memory_is_used_up_still_has_those_who_wait_for_it(lab: ContainerLab) -> None:
    """They are in its cgroup: it is the pod's process that is killed, and its exit is noticed."""
    limit = 64 << 20
    lab.cgroups.ensure(f"/{lab.name}", CgroupLimits(memory_bytes=limit + 2 * BYTES_PER_CONTAINER))
    sandbox = await lab.sandbox()
    command = ["sh", "-c", "exec tail -c 1000000000 /dev/zero"]
    container = await lab.container(sandbox, {"command": command})
    async with asyncio.timeout(120):
        status = await lab.runtime.wait(container)
    assert status.exit_code not in (0, UNKNOWN_EXIT_CODE) or lab.runtime.isolation is Isolation.SANDBOX
    assert status.phase is ContainerPhase.EXITED


async def test_nothing_is_executed_while_the_pods_cgroup_is_removed(lab: ContainerLab) -> None:
    """A cgroup that came too late would stay for ever."""
    with pytest.raises(FileNotFoundError):
        lab.cgroups.make_leaf(f"/{lab.name}-gone/_node")
    assert not lab.cgroups.children(f"/{lab.name}-gone")


async def test_a_container_does_not_inherit_the_agents_limit_of_open_files(lab: ContainerLab) -> None:
    """The agent raises its own; programs that walk all descriptors up to theirs would take long."""
    sandbox = await lab.sandbox()
    hard = min(OPEN_FILES_MAX, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert await lab.output(sandbox, "ulimit -Sn; ulimit -Hn") == [str(OPEN_FILES_SOFT), str(hard), "0"]
