"""Two machines join a cluster of a third: here each is a network namespace on a wire of their own. Their pods
talk across it as they must, and when they have left, nothing of them is there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from alcove.dataplane import namespaces
from alcove.processes import down
from alcove.processes.agent import instance_of
from alcove.processes.machine import cluster
from alcove.testing.machine import lacking
from alcove.testing.server import wait_until

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
ALCOVE = [sys.executable, "-m", "alcove.processes.main"]
OURS = "198.18.91.1"
THEIRS = {"far1": "198.18.91.11", "far2": "198.18.91.12"}
MTU = "1550"


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def wire() -> Iterator[None]:
    """A bridge on this machine, and the two others on it."""
    with ExitStack() as undo:
        run("ip", "link", "add", "alfar", "mtu", MTU, "type", "bridge")
        undo.callback(run, "ip", "link", "delete", "alfar")
        run("ip", "address", "add", f"{OURS}/24", "dev", "alfar")
        run("ip", "link", "set", "alfar", "up")
        for name, address in THEIRS.items():
            os.close(namespaces.make(name))
            undo.callback(namespaces.remove, name)
            run(
                "ip",
                "link",
                "add",
                f"al{name}",
                "mtu",
                MTU,
                "type",
                "veth",
                "peer",
                "eth0",
                "mtu",
                MTU,
                "netns",
                name,
            )
            run("ip", "link", "set", f"al{name}", "master", "alfar", "up")
            inside = ("nsenter", f"--net={namespaces.path_of(name)}", "ip")
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "address", "add", f"{address}/24", "dev", "eth0")
            run(*inside, "link", "set", "eth0", "up")
            run(*inside, "route", "add", "default", "via", OURS)
        yield


@pytest.mark.usefixtures("wire")
def test_pods_of_machines_that_joined_talk_across_the_wire_and_leave_nothing(tmp_path: Path) -> None:
    data = tmp_path / "state"
    agents: list[subprocess.Popen[bytes]] = []
    try:
        run(*ALCOVE, "up", "--no-demo", "--nodes", "0", "--listen", OURS, "--data", str(data))
        asked = cluster.load(data)
        assert asked is not None
        way = ("--kubeconfig", str(data / "admin.kubeconfig"))
        token = tmp_path / "token"
        token.write_text(run(*ALCOVE, "node", "token", "--server", f"https://{OURS}:{asked.port}", *way))
        agents = [_join(name, token, tmp_path) for name in THEIRS]
        wait_until(lambda: run(*ALCOVE, "node", "list", *way).count(" Ready ") == len(THEIRS), 90)
        message = run(*ALCOVE, "connectivity", "test", *way)
        assert "failed" not in message and "pod" in message
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait(30)
        for name in THEIRS:
            # On its own machine: what it has at its device is in its namespace.
            inside = ("nsenter", f"--net={namespaces.path_of(name)}")
            subprocess.run([*inside, *ALCOVE, "node", "leave", "--data", str(tmp_path / name)], timeout=60)
        down.destroy(data)
    for name in THEIRS:
        assert namespaces.names(f"alcove-{instance_of(name)}-") == []
        assert not (tmp_path / name).exists()


def _join(name: str, token: Path, folder: Path) -> "subprocess.Popen[bytes]":
    inside = ("nsenter", f"--net={namespaces.path_of(name)}")
    words = ("node", "join", f"@{token}", "--name", name, "--data", str(folder / name))
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*inside, *ALCOVE, *words], stdout=log, stderr=log)
