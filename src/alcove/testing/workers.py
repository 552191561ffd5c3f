"""An API server with several workers, for tests, and callers whose connection a certain worker serves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from alcove.testing.server import Caller, LocalServer, wait_until

START_SECONDS_MAX = 270.0
"""Workers import what they need when they start, on a machine that does ten other things."""
CONNECTIONS_MAX = 200
"""Connections that are opened until one comes to a certain worker."""


class WorkerServer(LocalServer):
    def __init__(self, directory: Path, workers: int, *options: str) -> None:
        super().__init__(directory, "--workers", str(workers), *options)
        self.workers = workers

    def start(self) -> None:
        """Starts the server, and waits until all workers serve."""
        super().start()
        self.wait_for_workers()

    def wait_for_workers(self) -> None:
        wait_until(lambda: self.serving() == set(range(self.workers)), START_SECONDS_MAX)

    def serving(self) -> set[int]:
        """The workers that serve."""
        metrics = self.system.get("/metrics").body.decode()
        return {index for index in range(self.workers) if f'worker="{index}"' in metrics}

    def pids(self) -> dict[int, int]:
        """The process of each worker."""
        found: dict[int, int] = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                try:
                    command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                except FileNotFoundError:
                    continue  # It has exited since.
                if b"alcove.processes.worker_main" in command:
                    found[int(command[command.index(b"alcove.processes.worker_main") + 2])] = int(child)
        return found

    def caller_at(self, worker: int, kubeconfig: Path | None = None) -> Caller:
        """A caller whose connection is at a worker, for as long as the connection lasts."""
        for _ in range(CONNECTIONS_MAX):
            caller = Caller(kubeconfig or self.admin_kubeconfig)
            assert caller.get("/version").status == 200
            if self.worker_of(caller) == worker:
                return caller
            caller.close()
        raise AssertionError(f"none of {CONNECTIONS_MAX} connections came to worker {worker}")

    def worker_of(self, caller: Caller) -> int | None:
        """The worker that serves the caller's connection."""
        inode = _inode(self.pid, self.address[1], caller.local_port)
        pids = self.pids().items()
        return next((worker for worker, pid in pids if f"socket:[{inode}]" in _files(pid)), None)


def _inode(pid: int, server_port: int, client_port: int) -> str:
    """The server's end of a connection on loopback."""
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(fields[index].partition(":")[2], 16) for index in (1, 2))
        if (local, remote) == (server_port, client_port):
            return fields[9]
    raise AssertionError("the connection is closed")


def _files(pid: int) -> set[str]:
    found: set[str] = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(each.readlink()))
    return found
