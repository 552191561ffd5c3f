"""An agent is killed with SIGKILL between any two steps of creating and removing volumes: the next start
cleans up."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from alcove.testing.needs import loop_devices
from alcove.testing.server import wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(loop_devices()), reason=loop_devices())]

# Reads a line with a work and a number of steps, and forks an agent that is killed after so many steps; writes how it ended.
_WORK = """
import asyncio, os, signal, sys, time
from pathlib import Path
from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.client.planes import Planes
from alcove.agent.volumes.local import LocalVolume
from alcove.agent.volumes.sources import EmptyDirMount, LocalVolumeMount, PodVolumePlan
from alcove.agent.volumes.volumes import PodVolumes
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

folder, left = Path(sys.argv[1]), [0]
key = PodKey(HOME, TenantId("acme"), "default", "web", "u1")
local = LocalVolume(TenantId("acme"), "pv-1", "v1", 8 << 20)
pod = {"metadata": {"name": "web"}, "spec": {"containers": [], "securityContext": {"fsGroup": 7}}}

class Planned:
    async def plan(self, *_):
        return PodVolumePlan([EmptyDirMount("disk", False, 0), EmptyDirMount("memory", True, 1 << 20), LocalVolumeMount("pv", local, False, True)], {})

    def forget(self, _key):
        pass

def step(_what):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1

def volumes(checkpoint):
    made = PodVolumes(folder, ObjectLookup(Planes()), time.time, node="here", checkpoint=checkpoint)
    made._sources = Planned()
    return made

async def main(work):
    match work:
        case "mount":
            await volumes(step).mount(key, pod)
        case "unmount":
            paths = await volumes(lambda _: None).mount(key, pod)
            for path in paths.values():
                (path.path / "file").write_text("x")
            await volumes(step).unmount(key)
        case "wipe":
            made = volumes(lambda _: None)
            await made.mount(key, pod)
            await made.unmount(key)
            assert await volumes(step).wipe(local)
        case "clean":
            made = volumes(step)
            for each in made.ids():
                await made.unmount(each)
            for each in made.local.all():
                assert await made.wipe(each)

for line in sys.stdin:
    work, steps = line.split()
    left[0] = int(steps)
    agent = os.fork()
    if not agent:
        asyncio.run(main(work))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(agent, 0)[1]), flush=True)
"""


class MountNamespace:
    """A mount namespace that outlives the agents in it, and that no other process has a copy of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "volumes"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", sys.executable, "-c", _WORK, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, work: str, steps: int) -> int:
        """The exit status of an agent that is killed after so many steps, unless it ends before."""
        assert self._holder.stdin is not None and self._holder.stdout is not None
        self._holder.stdin.write(f"{work} {steps}\n")
        self._holder.stdin.flush()
        return int(self._holder.stdout.readline())

    def clean(self) -> None:
        assert self.run("clean", 1_000_000) == 0
        self.check_clean()

    def check_clean(self) -> None:
        assert str(self.folder) not in Path(f"/proc/{self._holder.pid}/mounts").read_text()
        wait_until(lambda: not any(str(self.folder) in path for path in _backing_files()))
        assert list((self.folder / "pods").iterdir()) == []
        assert list((self.folder / "local").iterdir()) == []

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


def _backing_files() -> Iterator[str]:
    """Of all loop devices, which other tests attach and detach meanwhile."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with suppress(OSError):
            yield path.read_text()


@pytest.fixture
def namespace(tmp_path: Path) -> Iterator[MountNamespace]:
    made = MountNamespace(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("work", ["mount", "unmount", "wipe"])
def test_killed_between_any_two_steps(namespace: MountNamespace, work: str) -> None:
    steps = 0
    while (ended := namespace.run(work, steps)) == -signal.SIGKILL:
        namespace.clean()
        steps += 1
    assert ended == 0
    assert steps >= 2
    namespace.clean()


def test_killed_while_cleaning_up_after_a_kill(namespace: MountNamespace) -> None:
    assert namespace.run("mount", 1_000_000) == 0
    steps = 0
    while namespace.run("clean", steps) == -signal.SIGKILL:
        steps += 1
        assert steps < 100
    assert steps >= 2
    namespace.check_clean()
