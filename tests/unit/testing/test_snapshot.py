"""Looking at a machine before and after: whatever is left is found, whatever it is called."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from alcove.dataplane import bpf, namespaces
from alcove.testing import needs, snapshot
from alcove.testing.server import wait_until

WHY = needs.namespaces() or needs.bpf() or needs.tools("ip", "tc", "nft")
pytestmark = [pytest.mark.root, pytest.mark.alone, pytest.mark.skipif(bool(WHY), reason=WHY)]
MARK = f"marked-{os.getpid()}"
LINK = f"sn{os.getpid()}"


def run(*words: str) -> None:
    subprocess.run(words, check=True)


def a_namespace() -> Callable[[], None]:
    os.close(namespaces.make(MARK))
    return lambda: namespaces.remove(MARK)


def a_namespace_without_a_name() -> Callable[[], None]:
    held = namespaces.make(MARK)
    namespaces.remove(MARK)
    return lambda: os.close(held)


def a_link() -> Callable[[], None]:
    run("ip", "link", "add", LINK, "type", "bridge")
    return lambda: run("ip", "link", "delete", LINK)


def a_program_s_map() -> Callable[[], None]:
    made = bpf.create_map("left", 1, 4, 4, 1)
    return made.close


def a_table() -> Callable[[], None]:
    run("nft", "add", "table", "ip", "left_here")
    return lambda: run("nft", "delete", "table", "ip", "left_here")


def a_process() -> Callable[[], None]:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", MARK])

    def end() -> None:
        left.kill()
        left.wait()

    return end


def a_file() -> Callable[[], None]:
    path = Path("/run", MARK)
    path.touch()
    return path.unlink


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (a_namespace, "namespace named"),
        (a_namespace_without_a_name, "namespace net:"),
        (a_link, "link"),
        (a_program_s_map, "map"),
        (a_table, "firewall"),
        (a_process, "process"),
        (a_file, "file"),
    ],
)
def test_what_is_left_is_reported_until_it_goes(make: Callable[[], Callable[[], None]], kind: str) -> None:
    before = snapshot.look(MARK)
    remove = make()
    try:
        made = {each for each in snapshot.look(MARK) - before if each.startswith(kind)}
        assert made
    finally:
        remove()
    # Others may have made such things, too: one that is gone now was ours.
    wait_until(lambda: made - snapshot.look(MARK), 10)


def test_what_is_missing_is_reported_but_for_what_went_with_its_link() -> None:
    here = "address lo inet 127.0.0.9/8"
    gone = "address gone0 inet 10.0.0.1/24"
    before = snapshot.look(MARK) | {here, gone, "setting /proc/sys/net/ipv4/nothing 1"}
    messages = snapshot.left_since(before, MARK, 0)
    assert f"- {here}" in messages and "- setting /proc/sys/net/ipv4/nothing 1" in messages
    assert f"- {gone}" not in messages
