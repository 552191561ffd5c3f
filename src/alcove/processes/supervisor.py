"""Looks after the processes of one machine's cluster: starts them in order, restarts what dies, stops them all.

One supervisor per data directory, held by a lock that ends with it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import IO

import orjson
from msgspec import Struct

BACKOFF_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0
"""A process that ran this long starts over with the shortest wait."""
STOP_SECONDS_MAX = 20.0


class Component(Struct, frozen=True):
    name: str
    arguments: tuple[str, ...]
    needs: Path | None = None
    """A file that must be there first: the way to the API server."""


def components(data: Path, port: int) -> tuple[Component, ...]:
    """Everything that runs, in the order it starts."""
    kubeconfig = data / "admin.kubeconfig"
    return (
        Component("apiserver", ("apiserver", "--data", str(data), "--port", str(port))),
        Component("controllers", ("controllers", "--kubeconfig", str(kubeconfig)), kubeconfig),
        Component("scheduler", ("scheduler", "--kubeconfig", str(kubeconfig)), kubeconfig),
    )


class AlreadyRunning(Exception):
    pass


def hold(data: Path) -> IO[str]:
    """The lock of this data directory, with our pid in it. Raises AlreadyRunning."""
    lock = (data / "supervisor.lock").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise AlreadyRunning from error
    lock.seek(0)
    lock.truncate()
    lock.write(str(os.getpid()))
    lock.flush()
    return lock


def holder(data: Path) -> int | None:
    """The pid of the supervisor that holds the directory; None if none does."""
    try:
        lock = (data / "supervisor.lock").open("r+")
    except FileNotFoundError:
        return None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read() or 0) or None
    return None


class Supervisor:
    def __init__(self, data: Path, parts: tuple[Component, ...]) -> None:
        self._data = data
        self._parts = parts
        self._pids: dict[str, int] = {}

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._keep(part)) for part in self._parts]
            await stop.wait()
            # The API server goes last: the others say goodbye to it.
            for task in reversed(tasks):
                task.cancel()
                await asyncio.wait([task])

    async def _keep(self, part: Component) -> None:
        while part.needs is not None and not part.needs.exists():  # noqa: ASYNC110 - nobody tells of a file
            await asyncio.sleep(0.05)
        wait = 0.5
        while True:
            started = asyncio.get_running_loop().time()
            with (self._data / "logs" / f"{part.name}.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "alcove.processes.main", *part.arguments, stdout=log, stderr=log
                )
            self._note(part.name, process.pid)
            try:
                await process.wait()
            except asyncio.CancelledError:
                await _end(process)
                raise
            finally:
                self._note(part.name, None)
            ran = asyncio.get_running_loop().time() - started
            wait = 0.5 if ran > STEADY_SECONDS else min(wait * 2, BACKOFF_SECONDS_MAX)
            await asyncio.sleep(wait)

    def _note(self, name: str, pid: int | None) -> None:
        """Who runs, for `alcove status`."""
        if pid is None:
            self._pids.pop(name, None)
        else:
            self._pids[name] = pid
        path = self._data / "components.json"
        fresh = path.with_suffix(".new")
        fresh.write_bytes(orjson.dumps(self._pids))
        fresh.replace(path)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def main(data: Path, port: int) -> int:
    """The supervisor as a process of its own."""
    (data / "logs").mkdir(parents=True, exist_ok=True)
    try:
        lock = hold(data)
    except AlreadyRunning:
        return 1
    with lock:
        asyncio.run(Supervisor(data, components(data, port)).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
