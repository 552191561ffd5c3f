"""A cluster created by `alcove up` on this machine, as users do it, and simulated machine failures.

    with Machine(folder) as machine:
        machine.up("--nodes", "2")
        dead = machine.cut_power()
        machine.boot()
        machine.up()

All its processes carry a unique mark, so that no others are touched. The cluster is destroyed at the end of
the block.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from uuid import uuid4

from alcove.agent.cgroups import Cgroups
from alcove.cli.session import CliSession
from alcove.dataplane import namespaces
from alcove.processes import down
from alcove.processes.machine import cluster
from alcove.processes.machine.cluster import RUN, LocalCluster
from alcove.processes.machine.mounts import mounted, unmount
from alcove.processes.nodes import reboots
from alcove.testing import cluster as real
from alcove.testing import needs, processes_with_pids, snapshot
from alcove.testing.server import wait_until

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
GROUP = "/alcove"
UP_SECONDS_MAX = 150
REAPED_SECONDS_MAX = 60.0


def lacking() -> str:
    """Why `alcove up` cannot start real nodes on this machine. Empty if it can."""
    return real.lacking() or needs.tools("conmon", "kubectl")


class SimulatedMachine:
    def __init__(self, folder: Path) -> None:
        self.mark = f"machine-{secrets.token_hex(6)}"
        self.folder = folder / self.mark
        self.data = self.folder / "state"
        self.home, self.scratch = self.folder / "home", self.folder / "tmp"
        self._strangers: subprocess.Popen[str] | None = None
        self._stranger_pids: list[int] = []

    def __enter__(self) -> SimulatedMachine:
        for each in (self.home, self.scratch):
            each.mkdir(parents=True)
        self._forwarding = FORWARDING.read_text()
        return self

    def __exit__(self, *_exc: object) -> None:
        down.destroy(self.data)
        if self._strangers is not None:
            os.killpg(self._strangers.pid, signal.SIGKILL)
            self._strangers.communicate()

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Runs `alcove ARGUMENTS…` with its own state directories."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        own = {"HOME": str(self.home), "TMPDIR": str(self.scratch), "ALCOVE_MARK": self.mark}
        return subprocess.Popen(
            [sys.executable, "-m", "alcove.processes.main", *words, "--data", str(self.data)],
            env={**inherited, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def alcove(self, *words: str) -> str:
        """Output of the command, which must succeed."""
        running = self.command(*words)
        said, _ = running.communicate(timeout=UP_SECONDS_MAX)
        assert running.returncode == 0, said
        return said

    def up(self, *words: str) -> CliSession:
        self.alcove("up", "--no-demo", *words)
        return CliSession(self.data / "admin.kubeconfig")

    def kubectl(self, tenant: str, *words: str, stdin: str = "") -> str:
        """Output of kubectl as ring0's administrator in the tenant; it must succeed."""
        way = (
            "--kubeconfig",
            str(self.data / "admin.kubeconfig"),
            "--cache-dir",
            str(self.scratch / "kubectl"),
        )
        server = CliSession(self.data / "admin.kubeconfig").connection.server
        done = subprocess.run(
            ["kubectl", *way, "--server", f"{server}/tenants/{tenant}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=UP_SECONDS_MAX,
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    @property
    def cluster(self) -> LocalCluster:
        found = cluster.load(self.data)
        assert found is not None
        return found

    def processes(self) -> list[int]:
        """Pids of the cluster's processes, container monitors, and containers."""
        groups = Cgroups.of_machine()
        own = [f"{GROUP}/{each}" for each in groups.children(GROUP) if each.startswith(self.cluster.token)]
        marked = [int(each.split()[0]) for each in snapshot.processes(self.mark)]
        return sorted({*marked, *(pid for group in own for pid in groups.processes(group))})

    def cut_power(self) -> list[int]:
        """Kills all processes at the same moment, so that none observes another's exit; returns their
        pids."""
        known: set[int] = set()
        while found := set(self.processes()) - known:
            _signal(found, signal.SIGSTOP)
            known |= found
        _signal(known, signal.SIGKILL)
        wait_until(lambda: not self.processes())
        _await_reaped(known)
        return sorted(known)

    def boot(self) -> None:
        """Simulates a power failure: removes everything that is only in kernel memory."""
        asked = self.cluster
        for path in reversed(mounted()):
            if f"{path}/".startswith((f"{self.data}/", f"{asked.run}/")):
                unmount(path)
        for name in namespaces.names(f"alcove-{asked.token}"):
            namespaces.remove(name)
        subprocess.run(["ip", "link", "delete", asked.uplink], check=True)
        subprocess.run(["nft", "delete", "table", "ip", asked.table], check=True)
        groups = Cgroups.of_machine()
        for name in groups.children(GROUP):
            if name.startswith(asked.token):
                wait_until(partial(groups.remove, f"{GROUP}/{name}"))
        groups.remove_if_empty(GROUP)
        for folder in (self.data / "nodes").glob("*/runtimes"):
            # The boot id cannot be changed: write another one to the recorded file.
            (folder / reboots.MARK).write_text(str(uuid4()))
        shutil.rmtree(asked.run)
        if not any(RUN.iterdir()):
            RUN.rmdir()
            FORWARDING.write_text(self._forwarding)

    def give_numbers_away(self, pids: Iterable[int]) -> int:
        """Starts unrelated processes with the pids of exited ones; returns how many."""
        ended = list(pids)
        _await_reaped(ended)
        self._strangers = subprocess.Popen(
            [sys.executable, "-m", processes_with_pids.__name__, *map(str, ended)],
            env={},
            start_new_session=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._strangers.stdout is not None
        self._stranger_pids = [int(each) for each in self._strangers.stdout.readline().split()]
        return len(self._stranger_pids)

    def harmed(self) -> list[int]:
        """Unrelated processes that were killed."""
        return [pid for pid in self._stranger_pids if _has_ended(pid)]


def _await_reaped(pids: Iterable[int]) -> None:
    """A pid is free once init has reaped the process."""
    wait_until(lambda: not any(map(_has_ended, pids)), REAPED_SECONDS_MAX)


def _has_ended(pid: int) -> bool:
    """Whether a process with this pid ends or waits to be reaped: it has no memory, so no command line."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def traces(cluster: LocalCluster) -> list[str]:
    """Descriptions of all kernel objects named after the cluster, and of processes in its directory."""
    own = re.compile(rf"alcove[-_/]{cluster.token}[0-9a-z]{{0,2}}\b")
    inner = Cgroups.of_machine().children(GROUP)
    named = {
        "namespace": _names(Path("/run/netns")),
        "link": [
            *(f"alcove-{name[2:]}" for name in _names(Path("/sys/class/net")) if name == cluster.uplink)
        ],
        "table": _tables(),
        "cgroup": [f"alcove/{name}" for name in inner],
        "claim": [f"alcove/{name}" for name in _names(RUN)],
    }
    found = [f"{kind} {name}" for kind, names in named.items() for name in names if own.search(name)]
    places = (f"{cluster.data}/", f"{cluster.run}/")
    found += [f"mount {path}" for path in mounted() if f"{path}/".startswith(places)]
    return found + [f"process {each}" for each in snapshot.processes(str(cluster.data))]


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


def _tables() -> list[str]:
    program = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        return []
    message = subprocess.run([program, "list", "tables"], capture_output=True, text=True, check=False).stdout
    return message.splitlines()
