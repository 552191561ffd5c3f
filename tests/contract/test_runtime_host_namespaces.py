"""Pods of ring0 that share the node's PID or IPC namespace; nothing of them is left when they end."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime import security
from alcove.agent.runtime.base import ContainerPhase, ExecSession
from alcove.agent.runtime.oci import OciRuntime
from alcove.api.objects import Object
from alcove.testing.containers import ContainerLab, working_flavor
from alcove.testing.server import wait_until

pytestmark = [pytest.mark.root]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="alcove-host-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(params=["crun", pytest.param("runc", marks=pytest.mark.slow)])
async def lab(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[ContainerLab]:
    flavor, why = await working_flavor(request.param)
    if flavor is None:
        pytest.skip(why)
    runtime = OciRuntime(flavor, folder / "run", Cgroups.of_machine())
    async with ContainerLab(runtime, folder, security.RING0) as lab:
        yield lab


def namespace(kind: str, process: int | str = "self") -> str:
    return str(Path(f"/proc/{process}/ns/{kind}").readlink())


def own_name() -> str:
    return Path("/proc/self/comm").read_text().strip()


async def output_of(lab: ContainerLab, pod: Object, script: str) -> list[str]:
    sandbox = await lab.sandbox(pod)
    container = await lab.container(sandbox, {"command": ["sh", "-c", script]}, pod)
    await lab.runtime.wait(container)
    assert not lab.lines(container, "stderr")
    return lab.lines(container)


@pytest.mark.parametrize(
    ("pod", "shared"),
    [({}, set()), ({"hostPID": True}, {"pid"}), ({"hostIPC": True}, {"ipc"}),
     ({"hostPID": True, "hostIPC": True}, {"pid", "ipc"})],
)  # fmt: skip
async def test_what_is_asked_for_is_the_nodes_and_nothing_else(
    lab: ContainerLab, pod: Object, shared: set[str]
) -> None:
    kinds = ("pid", "ipc", "uts", "net", "mnt")
    messages = await output_of(lab, pod, f"for k in {' '.join(kinds)}; do readlink /proc/self/ns/$k; done")
    found = {kind for kind, each in zip(kinds, messages, strict=True) if each == namespace(kind)}
    assert found == shared


async def test_the_nodes_processes_are_seen_and_can_be_signalled(lab: ContainerLab) -> None:
    messages = await output_of(
        lab, {"hostPID": True}, f"cat /proc/{os.getpid()}/comm; kill -0 {os.getpid()} && echo can"
    )
    assert messages == [own_name(), "can"]
    hidden = await output_of(lab, {}, "ls -d /proc/[0-9]* | wc -l")
    assert int(hidden[0]) < 10


async def test_memory_is_shared_with_the_node(lab: ContainerLab) -> None:
    name = f"alcove-test-{uuid.uuid4().hex}"
    path = Path("/dev/shm") / name
    try:
        path.write_text("from the node\n")
        assert await output_of(lab, {"hostIPC": True}, f"cat /dev/shm/{name}") == ["from the node"]
        assert await output_of(lab, {}, f"ls /dev/shm | grep -c {name} || true") == ["0"]
    finally:
        path.unlink(missing_ok=True)


async def test_what_a_container_leaves_running_ends_with_it(lab: ContainerLab) -> None:
    """In processes of its own, a container's first one takes all others with it; here nothing does by itself."""
    pod = {"hostPID": True}
    sandbox = await lab.sandbox(pod)
    mark = f"{1_000_000 + os.getpid()}"
    command = ["sh", "-c", f"sleep {mark} & setsid sleep {mark} & exit 0"]
    container = await lab.container(sandbox, {"command": command}, pod)
    await lab.runtime.wait(container)
    await lab.runtime.delete(container)
    wait_until(lambda: not _running(mark))
    assert (await lab.runtime.status(sandbox)).phase is ContainerPhase.RUNNING


async def test_a_container_that_is_killed_takes_its_children_with_it(lab: ContainerLab) -> None:
    pod = {"hostPID": True}
    sandbox = await lab.sandbox(pod)
    mark = f"{2_000_000 + os.getpid()}"
    container = await lab.container(sandbox, {"command": ["sh", "-c", f"sleep {mark} & wait"]}, pod)
    wait_until(lambda: _running(mark))
    await lab.runtime.delete(container)
    wait_until(lambda: not _running(mark))


async def test_commands_in_it_see_the_same(lab: ContainerLab) -> None:
    pod = {"hostPID": True, "hostIPC": True}
    sandbox = await lab.sandbox(pod)
    container = await lab.container(sandbox, {"command": ["sleep", "1000"]}, pod)
    read, write = os.pipe()
    script = "readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc"
    with os.fdopen(read) as output:
        with os.fdopen(write, "w") as out:
            code = await lab.runtime.exec(container, ExecSession(("sh", "-c", script), stdout=out.fileno()))
        assert code == 0
        assert output.read().split() == [namespace("pid"), namespace("ipc")]


def _running(mark: str) -> list[str]:
    """Processes with that argument that are not dead."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (each / "cmdline").read_bytes().split(b"\0"):
                found.append(each.name)
        except OSError:
            continue
    return found
