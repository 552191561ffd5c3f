"""Processes that are forked are like processes that are started."""

import signal
from pathlib import Path

import pytest

from alcove.testing import forkserver


@pytest.fixture(autouse=True)
def enabled() -> None:
    assert forkserver._server is not None, "tests/conftest.py enables it"


def test_output_errors_and_exit_codes_are_those_of_the_command(tmp_path: Path) -> None:
    for arguments, code, output, errors in (
        (["--version"], 0, "alcove ", ""),
        (["no-such-command"], 2, "", "No such command"),
        (["status", "--data", str(tmp_path / "none")], 3, "", ""),
    ):
        log = tmp_path / "log"
        process = forkserver.start(arguments, log)
        assert process.stdout is not None
        with process.stdout as stdout:
            assert stdout.read().startswith(output)
        assert process.wait(30) == process.poll() == code
        assert errors in log.read_text()


def test_a_killed_process_ends_by_the_signal_and_gets_no_other(tmp_path: Path) -> None:
    process = forkserver.start(["apiserver", "--data", str(tmp_path), "--port", "0"], tmp_path / "log")
    assert process.stdout is not None
    with process.stdout as stdout:
        assert stdout.readline().startswith("serving ")
        assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
        process.send_signal(signal.SIGTERM)


def test_a_process_has_the_environment_of_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "second"):
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / name))
        process = forkserver.start(["tenant", "list"], tmp_path / "log")
        assert process.wait(30) != 0
        assert name in (tmp_path / "log").read_text()
