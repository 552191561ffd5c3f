"""What can be wrong with a machine, and what `up` and its friends say about it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from alcove.processes.machine import supervisor_state
from alcove.processes.machine.cluster import LocalCluster
from alcove.processes.main import app
from alcove.testing.claims import free_port
from alcove.testing.server import wait_until

NOBODY = 65534


def alcove(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def up(data: Path, *words: str) -> Result:
    return alcove("up", "--hollow", "--no-demo", "--data", str(data), *words)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = up(tmp_path / "state", "--port", port)
        assert done.exit_code == 1
        assert port in done.stderr and "--port" in done.stderr
        result = alcove("doctor", "--data", str(tmp_path / "state"), "-o", "json")
        assert '"port"' in result.stdout
    # Nothing was begun: the way back is to go on.
    assert not (tmp_path / "state" / "cluster.json").exists()


@pytest.mark.parametrize("name", ["Bad", "a/b", "", "logs", "nodes", "x" * 40, "-a"])
def test_names_that_cannot_be(name: str) -> None:
    done = alcove("up", "--name", name, "--no-demo", "--hollow")
    assert done.exit_code == 2 and "name" in done.stderr


def test_more_nodes_than_fit(tmp_path: Path) -> None:
    done = up(tmp_path / "state", "--nodes", "1000")
    assert done.exit_code == 1 and "64" in done.stderr


def test_a_damaged_cluster_is_reported_and_can_be_destroyed(tmp_path: Path) -> None:
    data = tmp_path / "state"
    data.mkdir()
    (data / "cluster.json").write_text("{half")
    for words in (("up", "--hollow"), ("status",), ("doctor",)):
        done = alcove(*words, "--data", str(data))
        assert done.exit_code == 1 and "damaged" in done.stderr, words
    assert alcove("destroy", "--yes", "--data", str(data)).stdout == "destroyed\n"
    assert not data.exists()


def test_destroy_removes_nothing_that_is_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = alcove("destroy", "--yes", "--data", str(tmp_path))
    assert done.exit_code == 1 and "nothing was removed" in done.stderr
    assert (tmp_path / "thesis.txt").exists()
    assert alcove("destroy", "--yes", "--data", str(tmp_path / "none")).stdout == "no cluster found\n"


def test_destroying_the_default_cluster_leaves_the_named_ones(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "blue"):
        folder.mkdir(exist_ok=True)
        LocalCluster(data=folder, name="x", number=1, port=1, hollow=True).save()
    (tmp_path / "pki").mkdir()
    assert alcove("destroy", "--yes", "--data", str(tmp_path)).stdout == "destroyed\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["blue"]
    assert alcove("destroy", "--yes", "--data", str(tmp_path)).stdout == "no cluster found\n"


def test_destroy_asks_and_without_a_terminal_it_needs_yes(tmp_path: Path) -> None:
    done = alcove("destroy", "--data", str(tmp_path))
    assert done.exit_code == 2 and "--yes" in done.stderr


def test_down_does_not_get_in_the_way_of_an_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alcove.processes.down.BUSY_SECONDS_MAX", 0.1)
    LocalCluster(data=tmp_path, name="x", number=1, port=1, hollow=True).save()
    with supervisor_state.at_work(tmp_path, 0.1):
        for words in (("down",), ("destroy", "--yes")):
            done = alcove(*words, "--data", str(tmp_path))
            assert done.exit_code == 1 and "at work" in done.stderr, words
    assert alcove("destroy", "--yes", "--data", str(tmp_path)).stdout == "destroyed\n"


def test_what_is_down_exits_with_3(tmp_path: Path) -> None:
    for verb in ("status", "logs"):
        done = alcove(verb, "--data", str(tmp_path / "none"))
        assert done.exit_code == 3 and "alcove up" in done.stderr, verb
    assert alcove("down", "--data", str(tmp_path / "none")).stdout == "already down\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, so that it can be full or read-only."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(folder)], check=False)
    if done.returncode:
        pytest.skip("cannot mount here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_read_only(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = up(small_disk / "state")
    assert done.exit_code == 1
    assert "Read-only" in done.stderr and "--data" in done.stderr
    result = alcove("doctor", "--data", str(small_disk / "state"))
    assert result.exit_code == 1 and "read-only" in result.stdout


def test_a_disk_that_is_full(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (60 << 20))
    done = up(small_disk / "state")
    assert done.exit_code == 1 and "free some space" in done.stderr
    with pytest.raises(OSError, match="No space"):
        (small_disk / "rest").write_bytes(b"x" * (90 << 20))
    done = up(small_disk / "state")
    assert done.exit_code == 1 and "space" in done.stderr


@pytest.fixture
def their_home() -> Iterator[Path]:
    """Where another user can go: pytest's own folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="alcove-test-"))
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    try:
        os.chown(home, NOBODY, NOBODY)
        yield home
    except PermissionError:
        pytest.skip("needs root to become somebody else")
    finally:
        shutil.rmtree(folder)


def test_without_root_nodes_are_hollow_and_it_says_why(their_home: Path) -> None:
    """The whole way, as another user."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv to become somebody else")
    port = str(free_port())

    # Who may read everything, wherever the checkout is, and do nothing else that root may.
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    become += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]

    def as_nobody(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*become, sys.executable, "-m", "alcove.processes.main", *words],
            capture_output=True,
            text=True,
            env={"HOME": str(their_home), "PATH": os.environ["PATH"]},
            cwd="/",
            timeout=180,
        )

    if as_nobody("--help").returncode:
        pytest.skip("another user cannot read this checkout")
    try:
        done = as_nobody("up", "--no-demo", "--port", port)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "! root: no" in done.stdout and "hollow" in done.stdout
        wait_until(lambda: "Ready" in as_nobody("status").stdout)
        assert as_nobody("doctor").returncode == 1
    finally:
        gone = as_nobody("destroy", "--yes")
        assert gone.stdout == "destroyed\n", gone.stderr
