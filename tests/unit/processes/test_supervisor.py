"""The supervisor's smaller promises: one holder of a folder, and logs that do not fill the disk."""

import subprocess
import sys
from pathlib import Path

import pytest

from alcove.processes.machine.supervisor_state import AlreadyRunning, ComponentState, hold, holder, states
from alcove.processes.supervisor import rotate
from alcove.testing.server import wait_until


def test_a_folder_has_one_holder_until_it_ends(tmp_path: Path) -> None:
    assert holder(tmp_path) is None and holder(tmp_path / "none") is None
    code = (
        "import sys, time; from pathlib import Path; from alcove.processes.machine.supervisor_state import hold\n"
        f"lock = hold(Path({str(tmp_path)!r})); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code])
    try:
        wait_until(lambda: holder(tmp_path) == other.pid)
        with pytest.raises(AlreadyRunning):
            hold(tmp_path)
    finally:
        other.kill()
        other.wait()
    assert holder(tmp_path) is None
    with hold(tmp_path):
        assert holder(tmp_path) is not None


def test_what_runs_is_unknown_where_nothing_was_noted(tmp_path: Path) -> None:
    assert states(tmp_path) == {}
    (tmp_path / "components.json").write_text("{half")
    assert states(tmp_path) == {}
    (tmp_path / "components.json").write_text('{"apiserver": {"pid": 7, "restarts": 2}}')
    assert states(tmp_path) == {"apiserver": ComponentState(pid=7, restarts=2)}


def test_a_log_begins_anew_and_its_process_goes_on_writing(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("ab", buffering=0) as log:
        log.write(b"a" * 100)
        rotate(path, 1000)
        assert path.stat().st_size == 100
        rotate(path, 50)
        log.write(b"b")
    assert path.read_bytes() == b"b"
    assert (tmp_path / "x.log.old").read_bytes() == b"a" * 100
