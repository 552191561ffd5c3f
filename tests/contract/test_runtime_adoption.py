"""The process that creates containers is killed at any point: containers keep running, are adopted, and none
is created twice."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.base import ContainerId, ContainerPhase
from alcove.agent.runtime.flavors import RuntimeFlavor
from alcove.agent.runtime.oci import OciRuntime
from alcove.testing.containers import ContainerLab, working_flavor

pytestmark = [pytest.mark.root]

MAKER = """
import asyncio, sys
from pathlib import Path
from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime import flavors
from alcove.agent.runtime.config import BindMount
from alcove.agent.runtime.oci import OciRuntime
from alcove.testing.containers import ContainerLab

async def main(flavor, folder, name, forever):
    runtime = OciRuntime(getattr(flavors, flavor), folder / "run", Cgroups.of_machine())
    lab = ContainerLab(runtime, folder, name=name)
    await lab.__aenter__()
    sandbox = await lab.sandbox()
    mounts = [BindMount(str(folder / "shared"), "/shared")]
    while True:
        script = "echo started; while [ ! -e /shared/end ]; do sleep 0.05; done; echo ended; exit 5"
        container = await lab.container(sandbox, {"command": ["sh", "-c", script]}, mounts=mounts)
        print(container, flush=True)
        if not forever:
            await asyncio.sleep(1000)

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4] == "forever"))
"""


class Maker:
    """Another process that creates containers, and can be killed."""

    def __init__(self, flavor: RuntimeFlavor, constant: str, folder: Path) -> None:
        self.folder = folder
        (folder / "shared").mkdir()
        self.name = f"alcove-adopt-{os.getpid()}-{time.monotonic_ns()}"
        self._constant = constant
        self.runtime = OciRuntime(flavor, folder / "run", Cgroups.of_machine())

    async def start(self, how: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", MAKER, self._constant, str(self.folder), self.name, how),
            stdout=asyncio.subprocess.PIPE,
        )

    def lab(self) -> ContainerLab:
        """Sees what the other process created, and removes it."""
        return ContainerLab(self.runtime, self.folder, name=self.name)


@pytest.fixture(params=["crun", pytest.param("runc", marks=pytest.mark.slow), "gvisor"])
async def maker(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Maker]:
    flavor, why = await working_flavor(request.param)
    if flavor is None:
        pytest.skip(why)
    constant = "GVISOR_HIDING" if flavor.hides_proc_sys_net else request.param.upper()
    maker = Maker(flavor, constant, tmp_path)
    async with maker.lab():
        yield maker


async def _kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def _made(process: asyncio.subprocess.Process) -> ContainerId:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return ContainerId((await process.stdout.readline()).decode().strip())


async def test_running_containers_go_on_and_are_found_again(maker: Maker) -> None:
    process = await maker.start("once")
    container = await _made(process)
    await _kill(process)
    lab = maker.lab()
    found = {status.id: status for status in await maker.runtime.list()}
    assert len(found) == 2
    assert {status.phase for status in found.values()} == {ContainerPhase.RUNNING}
    assert found[container].labels == {"pod": found[container].sandbox}
    await maker.runtime.start(container)
    waiting = asyncio.ensure_future(maker.runtime.wait(container))
    (maker.folder / "shared/end").touch()
    async with asyncio.timeout(60):
        status = await waiting
    assert (status.phase, status.exit_code) == (ContainerPhase.EXITED, 5)
    assert lab.lines(container) == ["started", "ended"]


async def test_how_a_container_ended_is_known_though_nobody_watched(maker: Maker) -> None:
    process = await maker.start("once")
    container = await _made(process)
    await _kill(process)
    lab = maker.lab()
    (maker.folder / "shared/end").touch()
    async with asyncio.timeout(60):
        while "ended" not in lab.lines(container):  # noqa: ASYNC110  It happens in another process.
            await asyncio.sleep(0.02)
        status = await maker.runtime.wait(container)
    assert (status.exit_code, status.finished_at > status.started_at) == (5, True)


async def test_a_container_whose_watcher_was_killed_too_is_over_when_it_is_over(maker: Maker) -> None:
    process = await maker.start("once")
    container = await _made(process)
    await _kill(process)
    monitor = int((maker.folder / "run/containers" / container / "conmon.pid").read_text())
    os.kill(monitor, signal.SIGKILL)
    await maker.runtime.kill(container, signal.SIGKILL)
    async with asyncio.timeout(60):
        status = await maker.runtime.wait(container)
    assert (status.phase, status.exit_code) == (ContainerPhase.EXITED, 255)


@pytest.mark.parametrize(
    "milliseconds", [500, 800, *(pytest.param(each, marks=pytest.mark.slow) for each in (400, 600, 700, 900))]
)
async def test_killed_at_any_point_nothing_is_broken_for_good(maker: Maker, milliseconds: int) -> None:
    """What is found is running, or made and can be started, or broken and can be removed; nothing remains."""
    process = await maker.start("forever")
    await asyncio.sleep(milliseconds / 1_000)
    await _kill(process)
    lab = maker.lab()
    statuses = await maker.runtime.list()
    for status in statuses:
        if status.phase is ContainerPhase.CREATED and not status.is_sandbox:
            await maker.runtime.start(status.id)
            status = await maker.runtime.status(status.id)
        assert status.phase in (ContainerPhase.RUNNING, ContainerPhase.BROKEN, ContainerPhase.CREATED)
        if status.phase is ContainerPhase.RUNNING and not status.is_sandbox:
            assert lab.lines(status.id).count("started") <= 1
    for status in sorted(statuses, key=lambda each: each.is_sandbox):
        await maker.runtime.delete(status.id)
    assert list(await maker.runtime.list()) == []
    assert lab.container_cgroups() == []
    assert lab.cgroups.processes(lab.name) == []


@pytest.mark.parametrize(
    "milliseconds", [30, 200, *(pytest.param(each, marks=pytest.mark.slow) for each in (100, 400))]
)
async def test_an_id_can_be_used_again_after_its_creation_was_given_up(
    maker: Maker, milliseconds: int
) -> None:
    lab = maker.lab()
    spec = await lab.spec(await lab.sandbox(), {"command": ["true"]})
    creating = asyncio.create_task(maker.runtime.create(spec))
    await asyncio.wait([creating], timeout=milliseconds / 1_000)
    creating.cancel()
    await asyncio.wait([creating])
    await maker.runtime.delete(spec.id)
    await maker.runtime.create(spec)
    await maker.runtime.start(spec.id)
    async with asyncio.timeout(60):
        assert (await maker.runtime.wait(spec.id)).exit_code == 0


def _processes_of(path: Path) -> list[str]:
    """The command lines that name the path."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(path) in line:
            found.append(line.replace(b"\0", b" ").decode())
    return found


async def test_no_process_waits_for_ever_for_a_container_that_nobody_starts(maker: Maker) -> None:
    """Its maker was killed before it was started, and its directory removed before its process was known."""
    lab = maker.lab()
    spec = await lab.spec(await lab.sandbox(), {"command": ["true"]})
    await maker.runtime.create(spec)
    bundle = maker.folder / "run/containers" / spec.id
    assert _processes_of(bundle)
    (bundle / "pid").unlink()
    (bundle / "process").unlink(missing_ok=True)
    await maker.runtime.delete(spec.id)
    async with asyncio.timeout(60):
        while _processes_of(bundle):  # noqa: ASYNC110  It happens in other processes.
            await asyncio.sleep(0.05)
