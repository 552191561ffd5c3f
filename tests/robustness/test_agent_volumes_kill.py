"""kill -9 of an agent between any two steps of making and removing volumes: the next start leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from alcove.agent.volumes.local import LocalVolumes

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or subprocess.run(["losetup", "--find"], capture_output=True).returncode != 0,
        reason="needs root and loop devices",
    ),
]

_WORK = """
import asyncio, os, signal, sys, time
from pathlib import Path
from alcove.agent.podkey import PodKey
from alcove.agent.volumes.local import Volume
from alcove.agent.volumes.sources import Empty, Local, Plan
from alcove.agent.volumes.volumes import Volumes
from alcove.api.ids import TenantId
from alcove.client.keys import HOME

work, folder, left = sys.argv[1], Path(sys.argv[2]), [int(sys.argv[3])]
key = PodKey(HOME, TenantId("acme"), "default", "web", "u1")
local = Volume(HOME, TenantId("acme"), "pv-1", "v1", 8 << 20)
pod = {"metadata": {"name": "web"}, "spec": {"containers": [], "securityContext": {"fsGroup": 7}}}

class Planned:
    async def plan(self, *_):
        return Plan([Empty("disk", False, 0), Empty("memory", True, 1 << 20), Local("pv", local, False, True)], {})

def step(_what):
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1

def volumes(checkpoint):
    made = Volumes(folder, None, time.time, node="here", checkpoint=checkpoint)
    made._sources = Planned()
    return made

async def main():
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

asyncio.run(main())
"""


def _run(work: str, folder: Path, steps: int) -> int:
    return subprocess.run([sys.executable, "-c", _WORK, work, folder, str(steps)]).returncode


@pytest.mark.parametrize("work", ["mount", "unmount", "wipe"])
def test_killed_between_any_two_steps(tmp_path: Path, work: str) -> None:
    steps = 0
    while (ended := _run(work, tmp_path / "volumes", steps)) == -signal.SIGKILL:
        assert _run("clean", tmp_path / "volumes", 1_000_000) == 0, steps
        _check_clean(tmp_path)
        steps += 1
    assert ended == 0
    assert steps >= 2
    assert _run("clean", tmp_path / "volumes", 1_000_000) == 0
    _check_clean(tmp_path)


def test_killed_while_cleaning_up_after_a_kill(tmp_path: Path) -> None:
    assert _run("mount", tmp_path / "volumes", 1_000_000) == 0
    steps = 0
    while _run("clean", tmp_path / "volumes", steps) == -signal.SIGKILL:
        steps += 1
        assert steps < 100
    assert steps >= 5
    _check_clean(tmp_path)


def _check_clean(folder: Path) -> None:
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    backing = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [path for path in backing if str(folder) in path]
    assert list((folder / "volumes/pods").iterdir()) == []
    assert list((folder / "volumes/local").iterdir()) == []
    assert LocalVolumes(folder / "volumes/local", lambda _step: None).all() == []
