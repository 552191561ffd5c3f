# ruff: noqa: ASYNC240 - tests may touch files while the loop waits.
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from alcove.agent.logs import rotation
from alcove.agent.logs.rotation import LogRotation, remove
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, NoSuchContainer
from alcove.agent.server.running_containers import ContainerHandle, RunningContainers

ID = ContainerId("c")


class Monitor:
    """A container's monitor: opens a new log when it is asked to, unless it has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.has_ended = False

    async def reopen_log(self, container: ContainerId) -> None:
        if container != ID:
            raise NoSuchContainer(container)
        if not self.has_ended:
            self.path.touch()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


def rotations(files_max: int = 5) -> LogRotation:
    moments = (datetime(2026, 1, 2, tzinfo=UTC) + timedelta(seconds=n) for n in range(1_000))
    return LogRotation(10, files_max, lambda: next(moments))


async def test_a_full_log_is_renamed_and_a_new_one_begun(path: Path) -> None:
    monitor = cast(ContainerRuntime, Monitor(path))
    path.write_text("short")
    assert not await rotations().rotate(monitor, ID, path)
    path.write_text("long enough")
    assert await rotations().rotate(monitor, ID, path)
    assert path.read_text() == ""
    assert [each.name for each in sorted(path.parent.iterdir())] == ["0.log", "0.log.20260102-000000.000000"]


async def test_there_are_never_more_files_than_wanted(path: Path) -> None:
    monitor, rotating = cast(ContainerRuntime, Monitor(path)), rotations(files_max=3)
    for number in range(10):
        path.write_text(f"file number {number}")
        assert await rotating.rotate(monitor, ID, path)
        assert len(list(path.parent.iterdir())) <= 3
    kept = sorted(each.read_text() for each in path.parent.iterdir())
    assert kept == ["", "file number 8", "file number 9"]


async def test_the_log_of_an_ended_container_stays_where_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "REOPEN_SECONDS_MAX", 0.02)
    monitor = Monitor(path)
    monitor.has_ended = True
    path.write_text("long enough")
    assert not await rotations().rotate(cast(ContainerRuntime, monitor), ID, path)
    assert [each.name for each in path.parent.iterdir()] == ["0.log"]


class Pod:
    def __init__(self, runtime: Monitor, containers: dict[str, ContainerHandle]) -> None:
        self.runtime = runtime
        self.containers = containers


class Pods:
    def __init__(self, *pods: Pod) -> None:
        self._pods = pods

    def all(self) -> tuple[Pod, ...]:
        return self._pods


async def test_one_log_that_cannot_be_rotated_keeps_no_other(path: Path) -> None:
    other = path.with_name("other.log")
    path.write_text("long enough")
    other.write_text("long enough")
    containers = {
        "gone": ContainerHandle(ContainerId("gone"), other),
        "here": ContainerHandle(ID, path),
    }
    await rotations().sweep(cast(RunningContainers, Pods(Pod(Monitor(path), containers))))
    assert path.read_text() == ""


def test_all_of_a_log_is_removed(path: Path) -> None:
    for name in ("0.log", "0.log.20260102-000000.000000", "1.log"):
        path.with_name(name).touch()
    remove(path)
    remove(path)
    assert [each.name for each in path.parent.iterdir()] == ["1.log"]
