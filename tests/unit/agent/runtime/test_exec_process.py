"""Directories of commands in containers: in memory, and none stays of an agent that was killed."""

import os
import subprocess
from pathlib import Path

import pytest

from alcove.agent.runtime import exec_process


def test_leftovers_of_processes_that_are_gone_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_process, "_IN_MEMORY", tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    leftover = tmp_path / f"alcove-exec-{gone.pid}-abc"
    leftover.mkdir()
    (leftover / "process.json").touch()
    stranger = tmp_path / "alcove-other"
    stranger.mkdir()
    with exec_process._exec_directory(b"{}") as own:
        exec_process.remove_leftovers()
        assert {each.name for each in tmp_path.iterdir()} == {Path(own).name, stranger.name}
        assert Path(own).name.startswith(f"alcove-exec-{os.getpid()}-")
