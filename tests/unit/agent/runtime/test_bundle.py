"""Bundle directories of containers: written atomically, and read by later agents."""

import os
import subprocess
from pathlib import Path

import pytest

from alcove.agent.runtime.base import (
    ContainerExists,
    ContainerId,
    ContainerSpec,
    CreateFailed,
    NoSuchContainer,
    SpecRefused,
)
from alcove.agent.runtime.bundle import Bundle, process_of


def spec(id: str = "c1", sandbox: str = "s1") -> ContainerSpec:
    config = {"linux": {"cgroupsPath": "/alcove/c1"}, "process": {"args": ["x"]}}
    return ContainerSpec(ContainerId(id), ContainerId(sandbox), config, Path("/log"), {"a": "b"})


def test_what_was_written_is_read(tmp_path: Path) -> None:
    record = Bundle.make(tmp_path, spec()).record()
    again = Bundle(tmp_path, ContainerId("c1"))
    assert again.record() == record
    assert (record.id, record.sandbox, record.labels, record.cgroup) == ("c1", "s1", {"a": "b"}, "/alcove/c1")
    assert again.config()["annotations"] == {
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.sandbox-id": "s1_",
    }
    assert (
        Bundle.make(tmp_path, spec("s1")).config()["annotations"]["io.kubernetes.cri.container-type"]
        == "sandbox"
    )


def test_an_id_is_used_once_and_leads_nowhere_else(tmp_path: Path) -> None:
    Bundle.make(tmp_path, spec())
    with pytest.raises(ContainerExists):
        Bundle.make(tmp_path, spec())
    for id in ("", "../x", "a/b", "A", "a_b", ".hidden", "x" * 300):
        with pytest.raises(SpecRefused):
            Bundle.make(tmp_path, spec(id))


def test_no_name_for_a_runtime_begins_another(tmp_path: Path) -> None:
    names = [
        Bundle(tmp_path, ContainerId(id)).runtime_id
        for id in ("web-1", "web-10", "web", "web-1.2", "web-1-2")
    ]
    assert not [(a, b) for a in names for b in names if a != b and b.startswith(a)]


def test_what_was_not_written_whole_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "c2").mkdir()
    (tmp_path / "c2/.record.json.new").write_text("{")
    with pytest.raises(NoSuchContainer):
        Bundle(tmp_path, ContainerId("c2")).record()


def test_a_process_is_not_mistaken_for_a_later_one_of_its_id(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    assert bundle.process() is None
    (bundle.path / "pid").write_text(str(os.getpid()))
    assert bundle.is_alive()
    kept = bundle.path / "process"
    kept.write_text(kept.read_text().replace('"start":', '"start":9'))
    assert not bundle.is_alive()


def test_a_process_that_has_ended_is_not_alive(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    child = subprocess.Popen(["sleep", "1000"])
    (bundle.path / "pid").write_text(str(child.pid))
    assert bundle.is_alive()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_of(child.pid) is None, "what is left of it is no process"
    child.wait()
    assert not bundle.is_alive()


def test_how_it_ended(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    assert (bundle.exit_code(), bundle.finished_at, bundle.started_at) == (None, 0.0, 0.0)
    (bundle.path / "c1_").write_text("137")
    assert bundle.exit_code() == 137
    assert bundle.finished_at > 0
    bundle.set_started()
    assert bundle.started_at > 0
    bundle.remove()
    bundle.remove()
    assert not bundle.path.exists()


def test_another_process_is_not_mistaken_for_the_watcher(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    (bundle.path / "conmon.pid").write_text(str(os.getpid()))
    assert bundle.monitor() is None


def test_an_exit_that_was_not_reported_is_recorded_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle.make(tmp_path, spec())
    os.utime(bundle.path / "lost", (1, 1))

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert bundle.exit_code() is None and not bundle.is_lost
    bundle.set_lost()
    assert bundle.exit_code() == 255 and bundle.is_lost
    assert bundle.finished_at > 1, "it ended now, not when it was made"


def test_a_code_that_conmon_has_recorded_is_known(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    (bundle.path / bundle.runtime_id).write_text("255")
    assert bundle.exit_code() == 255 and not bundle.is_lost


def test_an_end_of_what_an_earlier_version_made(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    (bundle.path / "lost").unlink()
    bundle.set_lost()
    assert bundle.exit_code() == 255


def test_no_id_leads_out_of_the_folder_of_containers(tmp_path: Path) -> None:
    """A symlink in a folder that a pod can write must not be reached through an id."""
    for id in ("", ".", "..", "../x", "a/../../x", "a/b", "/etc", "a\0", "a\n", "x" * 300):
        with pytest.raises(SpecRefused):
            Bundle(tmp_path, ContainerId(id))


def test_a_record_that_cannot_be_read_is_no_container(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    (bundle.path / "record.json").write_text("{")
    with pytest.raises(NoSuchContainer):
        bundle.record()


class ShortLived(Bundle):
    """A container that starts and exits while somebody looks whether it is alive."""

    def is_alive(self) -> bool:
        self.set_started()
        return False


def test_a_container_that_exits_at_once_was_started(tmp_path: Path) -> None:
    ShortLived.make(tmp_path, spec())
    assert ShortLived(tmp_path, ContainerId("c1")).is_started()


def test_a_container_that_is_over_and_was_not_started_has_failed(tmp_path: Path) -> None:
    bundle = Bundle.make(tmp_path, spec())
    with pytest.raises(CreateFailed, match="start failed"):
        bundle.is_started()
    (bundle.path / "start.log").write_text('{"msg": "first"}\n{"msg": "no such file"}\n')
    with pytest.raises(CreateFailed, match="no such file"):
        bundle.is_started()
    with subprocess.Popen(["sleep", "60"]) as child:
        (bundle.path / "process").unlink(missing_ok=True)
        (bundle.path / "pid").write_text(str(child.pid))
        assert not bundle.is_started()
        child.kill()
