"""Supervises the processes of a local cluster: starts them in order, restarts those that exit, stops them
all.

One supervisor per data directory, ensured by a file lock. On SIGHUP it reads `cluster.json` again, and starts
or stops only the processes that changed. It writes the processes' states to `components.json`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path

import msgspec

from alcove.component import logs
from alcove.component.tasks import BackgroundTasks
from alcove.processes.machine import cluster
from alcove.processes.machine.components import Component, components
from alcove.processes.machine.supervisor_state import AlreadyRunning, ComponentState, hold
from alcove.processes.priorities import raise_session_priority

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0
"""After running this long, a process's restart backoff is reset."""
STOP_SECONDS_MAX = 20.0
LOG_BYTES_MAX = 16 << 20
"""A larger log is copied to NAME.log.old and truncated."""
TEND_SECONDS = 30.0

log = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._states: dict[str, ComponentState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background = BackgroundTasks()
        self._woken = asyncio.Event()
        """Set by signals: reload or stop."""
        self._is_stopping = False
        self._components: dict[str, Component] = {}
        self._retry_now = asyncio.Event()
        """Set and replaced when `up` is run again: ends all restart backoffs."""

    async def run(self) -> None:
        """Runs until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._request_stop)
        loop.add_signal_handler(signal.SIGHUP, self._woken.set)
        self._woken.set()
        async with self._background:
            self._background.restart("log rotation", partial(_rotate_logs, self._data / "logs"))
            while True:
                await self._woken.wait()
                self._woken.clear()
                if self._is_stopping:
                    break
                await self._reconcile()
            # The API server stops last: the others still write to it while stopping.
            await self._stop_components(*(name for name in self._tasks if name != "apiserver"))
            await self._stop_components(*self._tasks)
            self._background.cancel()

    def _request_stop(self) -> None:
        self._is_stopping = True
        self._woken.set()

    async def _reconcile(self) -> None:
        """Starts missing processes; stops those that are no longer configured or have changed arguments."""
        self._retry_now.set()
        self._retry_now = asyncio.Event()
        configured = cluster.load(self._data)
        if configured is not None:
            logs.configure("supervisor", configured.log_level, configured.log_format)
        desired = {component.name: component for component in components(configured)} if configured else {}
        stale = [name for name, component in self._components.items() if desired.get(name) != component]
        await self._stop_components(*stale)
        for name, component in desired.items():
            if name not in self._tasks:
                self._components[name] = component
                self._tasks[name] = self._background.restart(name, partial(self._supervise, component))

    async def _stop_components(self, *names: str) -> None:
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in names:
            del self._components[name]
            self._states.pop(name, None)
        self._write()

    async def _supervise(self, component: Component) -> None:
        while component.needs is not None and not component.needs.exists():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
        wait, restarts, ended = BACKOFF_SECONDS_MIN, 0, ""
        while True:
            began = time.time()
            try:
                ended = await self._run_once(component, ComponentState(None, began, restarts, ended))
            except OSError as error:
                # A full disk or process table may be temporary.
                ended = f"failed to start: {error.strerror or error}"
            self._set_state(component.name, ComponentState(None, time.time(), restarts, ended))
            log.warning("process exited; restarting", extra={"child": component.name, "ended": ended})
            wait = BACKOFF_SECONDS_MIN if time.time() - began > STEADY_SECONDS else wait
            try:
                async with asyncio.timeout(wait):
                    await self._retry_now.wait()
                wait, restarts = BACKOFF_SECONDS_MIN, 0
            except TimeoutError:
                wait, restarts = min(wait * 2, BACKOFF_SECONDS_MAX), restarts + 1

    async def _run_once(self, component: Component, state: ComponentState) -> str:
        """Runs the process once; returns how it exited."""
        path = self._data / "logs" / f"{component.name}.log"
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "alcove.processes.launch", str(os.getpid())),
                *(str(component.namespace) if component.namespace else "-", "--", *component.arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        raise_session_priority(process.pid, component.arguments[0])
        self._set_state(component.name, msgspec.structs.replace(state, pid=process.pid))
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _set_state(self, name: str, state: ComponentState) -> None:
        self._states[name] = state
        self._write()

    def _write(self) -> None:
        path = self._data / "components.json"
        temporary = path.with_suffix(".new")
        try:
            temporary.write_bytes(msgspec.json.encode(self._states))
            temporary.replace(path)
        except OSError as error:
            # Only `alcove status` needs the file: keep supervising.
            log.warning("failed to write component states", extra={"error": str(error)})


async def _rotate_logs(directory: Path) -> None:
    while True:
        _rotate_all(directory)
        await asyncio.sleep(TEND_SECONDS)


def _rotate_all(directory: Path) -> None:
    for path in directory.glob("*.log"):
        with contextlib.suppress(OSError):
            rotate(path)


def rotate(path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Rotates a log that has grown too large. Its process keeps appending to the same file."""
    if path.stat().st_size > bytes_max:
        shutil.copyfile(path, path.with_suffix(".log.old"))
        os.truncate(path, 0)


async def _stop(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def main(data: Path) -> int:
    """The supervisor process. Returns 1 if another one holds the data directory."""
    logs.configure("supervisor")
    try:
        lock = hold(data)
    except AlreadyRunning:
        return 1
    with lock:
        asyncio.run(Supervisor(data).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
