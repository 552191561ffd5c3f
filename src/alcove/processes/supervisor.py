"""Looks after the processes of one machine's cluster: starts them in order, restarts what dies, stops them all.

One supervisor per data directory, held by a lock that ends with it. SIGHUP makes it read again what was asked
(`cluster.json`): nodes come and go without the others noticing. What it knows of them is in `components.json`.
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

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0
"""A process that ran this long starts over with the shortest wait."""
STOP_SECONDS_MAX = 20.0
LOG_BYTES_MAX = 16 << 20
"""A log that has grown beyond this becomes NAME.log.old, and begins anew."""
TEND_SECONDS = 30.0

log = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, data: Path) -> None:
        self._data = data
        self._states: dict[str, ComponentState] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._background = BackgroundTasks()
        self._woken = asyncio.Event()
        """Set by signals: there is something to do, or it is time to stop."""
        self._is_stopping = False
        self._parts: dict[str, Component] = {}
        self._asked_again = asyncio.Event()
        """Set, and made anew, when somebody types `up` again: whoever waits to be restarted waits no more."""

    async def run(self) -> None:
        """Until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._request_stop)
        loop.add_signal_handler(signal.SIGHUP, self._woken.set)
        self._woken.set()
        async with self._background:
            self._background.restart("log rotation", partial(_tend_logs, self._data / "logs"))
            while True:
                await self._woken.wait()
                self._woken.clear()
                if self._is_stopping:
                    break
                await self._follow()
            # The API server goes last: the others say goodbye to it.
            await self._end(*(name for name in self._tasks if name != "apiserver"))
            await self._end(*self._tasks)
            self._background.cancel()

    def _request_stop(self) -> None:
        self._is_stopping = True
        self._woken.set()

    async def _follow(self) -> None:
        """Starts what is asked for and not there; ends what is there and not asked for, or otherwise."""
        self._asked_again.set()
        self._asked_again = asyncio.Event()
        asked = cluster.load(self._data)
        if asked is not None:
            logs.configure("supervisor", asked.log_level, asked.log_format)
        wanted = {part.name: part for part in components(asked)} if asked else {}
        gone = [name for name, part in self._parts.items() if wanted.get(name) != part]
        await self._end(*gone)
        for name, part in wanted.items():
            if name not in self._tasks:
                self._parts[name] = part
                self._tasks[name] = self._background.restart(name, partial(self._keep, part))

    async def _end(self, *names: str) -> None:
        tasks = [self._tasks.pop(name) for name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for name in names:
            del self._parts[name]
            self._states.pop(name, None)
        self._write()

    async def _keep(self, part: Component) -> None:
        while part.needs is not None and not part.needs.exists():  # noqa: ASYNC110 - nobody tells of a file
            await asyncio.sleep(0.02)
        wait, restarts, ended = BACKOFF_SECONDS_MIN, 0, ""
        while True:
            began = time.time()
            try:
                ended = await self._live(part, ComponentState(None, began, restarts, ended))
            except OSError as error:
                # A full disk or process table: it may pass.
                ended = f"not started: {error.strerror or error}"
            self._note(part.name, ComponentState(None, time.time(), restarts, ended))
            log.warning("process ended; restarting", extra={"child": part.name, "ended": ended})
            wait = BACKOFF_SECONDS_MIN if time.time() - began > STEADY_SECONDS else wait
            try:
                async with asyncio.timeout(wait):
                    await self._asked_again.wait()
                wait, restarts = BACKOFF_SECONDS_MIN, 0
            except TimeoutError:
                wait, restarts = min(wait * 2, BACKOFF_SECONDS_MAX), restarts + 1

    async def _live(self, part: Component, before: ComponentState) -> str:
        """One life of a process; how it ended."""
        path = self._data / "logs" / f"{part.name}.log"
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "alcove.processes.launch", str(os.getpid())),
                *(str(part.namespace) if part.namespace else "-", "--", *part.arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._note(part.name, msgspec.structs.replace(before, pid=process.pid))
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def _note(self, name: str, state: ComponentState) -> None:
        self._states[name] = state
        self._write()

    def _write(self) -> None:
        path = self._data / "components.json"
        fresh = path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(self._states))
            fresh.replace(path)
        except OSError as error:
            # Only `status` suffers: the processes are looked after all the same.
            log.warning("failed to write component states", extra={"error": str(error)})


async def _tend_logs(folder: Path) -> None:
    while True:
        _turn_all(folder)
        await asyncio.sleep(TEND_SECONDS)


def _turn_all(folder: Path) -> None:
    for path in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            turn(path)


def turn(path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Sets a log aside that has grown too long. Its process goes on writing to the same file, at its end."""
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
    """The supervisor as a process of its own."""
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
