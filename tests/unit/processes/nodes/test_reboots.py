"""After a boot no number of a process means what it meant; what was run, and how it ended, does."""

import os
from pathlib import Path

import pytest

from alcove.agent.runtime.base import ContainerId
from alcove.agent.runtime.bundle import Bundle
from alcove.processes.nodes import reboots


@pytest.fixture
def runtimes(tmp_path: Path) -> Path:
    """Of a node with one container that runs, watched over: both by this very process."""
    bundle = tmp_path / "gvisor" / "containers" / "web"
    bundle.mkdir(parents=True)
    (bundle / "record.json").write_text("{}")
    for name in ("pid", "conmon.pid"):
        (bundle / name).write_text(str(os.getpid()))
    for state in ("gvisor/state", "crun/canary/state"):
        (tmp_path / state).mkdir(parents=True)
        (tmp_path / state / "web.state").write_text("{}")
    (tmp_path / reboots.MARK).write_text(reboots.BOOT_ID.read_text())
    assert Bundle(bundle.parent, ContainerId(bundle.name)).is_alive()
    return tmp_path


def test_in_the_same_boot_everything_is_as_it_was(runtimes: Path) -> None:
    reboots.begin(runtimes)
    assert Bundle(runtimes / "gvisor/containers", ContainerId("web")).is_alive()
    assert (runtimes / "gvisor/state/web.state").exists()


@pytest.mark.parametrize("mark", ["", "11111111-2222-3333-4444-555555555555\n"], ids=["none", "another"])
def test_in_another_boot_a_process_of_the_same_number_is_a_stranger(runtimes: Path, mark: str) -> None:
    (runtimes / reboots.MARK).unlink()
    if mark:
        (runtimes / reboots.MARK).write_text(mark)
    reboots.begin(runtimes)
    bundle = Bundle(runtimes / "gvisor/containers", ContainerId("web"))
    assert not bundle.is_alive() and bundle.monitor() is None
    assert bundle.process() is not None, "it was run once"
    assert (bundle.path / "record.json").exists()
    assert not list(runtimes.glob("**/state"))
    assert (runtimes / reboots.MARK).read_text() == reboots.BOOT_ID.read_text()
    reboots.begin(runtimes)


def test_a_node_that_never_ran_anything_has_nothing_to_forget(tmp_path: Path) -> None:
    reboots.forget(tmp_path / "missing")
    reboots.begin(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [reboots.MARK]
