"""Reading logs from their end, and mounts as the kernel writes them; who is a node's program and who is not."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from alcove.processes.machine import cleanup, logs, mounts
from alcove.processes.machine.preflight import dropping, existing, nameservers


@pytest.mark.parametrize("count", [1, 3, 5000, 30000])
def test_the_last_lines_of_a_long_log(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.log"
    every = [f"line {number} {'x' * (number % 90)}" for number in range(20_000)]
    path.write_text("\n".join(every) + "\n")
    assert logs.last_lines(path, count) == every[-count:]


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert logs.last_lines(tmp_path / "none.log", 5) == []


def test_following_survives_a_log_that_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.write_text("old\n")
    steps = iter(
        (
            lambda: one.write_text("old\nfirst\nhal"),
            lambda: one.write_text("old\nfirst\nhalf\n"),
            lambda: one.write_text("x\n"),
            lambda: two.write_text("other\n"),
        )
    )
    monkeypatch.setattr("alcove.processes.machine.logs.time.sleep", lambda _seconds: next(steps)())
    lines = [(path.stem, line) for path, line in islice(logs.follow([one, two]), 4)]
    assert lines == [("one", "first"), ("one", "half"), ("one", "x"), ("two", "other")]


def test_paths_with_blanks_are_read_as_the_kernel_writes_them() -> None:
    assert mounts.unescaped(rb"/a\040b\134c\011") == b"/a b\\c\t"


def test_only_nodes_own_programs_are_ended(tmp_path: Path) -> None:
    """An editor or `tail` that has a node's file open is a person's."""
    folder = tmp_path / "nodes"
    folder.mkdir()
    sleep = "import time; time.sleep(60)"
    ours = subprocess.Popen([sys.executable, "-c", sleep, f"--root={folder}/node-1/x"])
    theirs = subprocess.Popen(["/bin/sh", "-c", "sleep 60; :", f"{folder}/node-1/x"])
    other = subprocess.Popen([sys.executable, "-c", sleep, f"{folder}-2/x"])
    try:
        assert cleanup.programs_of(folder) == [ours.pid]
    finally:
        for process in (ours, theirs, other):
            process.kill()
            process.wait()


def test_what_resolv_conf_names(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("# x\nnameserver 127.0.0.53\nsearch a\nnameserver\nnameserver 192.0.2.1\n")
    assert nameservers(path) == ["127.0.0.53", "192.0.2.1"]
    assert nameservers(tmp_path / "none") == []
    assert existing(tmp_path / "a" / "b") == tmp_path


def test_a_firewall_that_forwards_nothing_is_named() -> None:
    message = """table ip filter {
\tchain FORWARD {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
table ip alcove_60 {
\tchain forward {
\t\ttype filter hook forward priority filter; policy drop;
\t}
}
table inet other {
\tchain forward {
\t\ttype filter hook forward priority filter; policy accept;
\t}
}
"""
    assert dropping(message) == ["ip filter"]
