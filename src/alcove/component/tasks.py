"""Background tasks: every failure is logged or raised, never lost.

    async with BackgroundTasks() as tasks:
        tasks.restart("compaction", compactor.run)
        tasks.fatal("network", network.run())

| policy    | a task that raises                                                                           |
|-----------|----------------------------------------------------------------------------------------------|
| `restart` | is logged with its name and started again, later each time                                   |
| `fatal`   | ends the block, and with it the process: the block raises, and the error has the task's name |

A task that returns is done. `spawn` and `TaskSet` are for short tasks of an object that has no such block (a
connection, a query): one that raises is logged with its name. `stop` cancels tasks that serve one stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextvars import Context
from types import TracebackType
from typing import Any

from msgspec import Struct

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]


class Backoff(Struct, frozen=True, kw_only=True):
    """How long a task that failed waits before it is started again."""

    seconds_min: float = 0.5
    seconds_max: float = 30.0
    steady_seconds: float = 60.0
    """A task that ran this long starts over with the shortest wait."""


class BackgroundTasks(asyncio.TaskGroup):
    """A task group with policies. An exception of the block itself is raised as it is, not in an exception
    group."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        super().__init__()
        self._backoff = backoff or Backoff()
        self._background: set[asyncio.Task[None]] = set()

    def restart(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run `work()` as a task of this name, again and again until it returns or is cancelled."""
        return self._start(name, _restarted(name, work, self._backoff))

    def fatal(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` as a task of this name. If it raises, the block is cancelled and raises."""
        task = self._start(name, _named(name, work))
        _close_with(task, work)
        return task

    def cancel(self) -> None:
        """Cancel every task, so that the block can be left."""
        for task in self._background:
            task.cancel()

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # In a context of its own: a task that outlives a request does not carry the request's id.
        task = self.create_task(work, name=name, context=Context())
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await super().__aexit__(kind, error, traceback)
        except BaseExceptionGroup as group:
            if group.exceptions != (error,):
                raise


class TaskSet:
    """Short tasks that are not awaited."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = spawn(name, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all tasks, and return when they have ended."""
        tasks = list(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def spawn(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run `work` as a task; the caller must keep a reference to it. If it raises, the error is logged with
    its name."""
    task = asyncio.get_running_loop().create_task(_logged(name, work), name=name)
    _close_with(task, work)
    return task


async def stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they have ended. Errors of a closed connection are ignored; others are
    logged."""
    for task in tasks:
        task.cancel()
    for task, outcome in zip(tasks, await asyncio.gather(*tasks, return_exceptions=True), strict=True):
        if isinstance(outcome, Exception) and not isinstance(outcome, OSError | EOFError):
            log.error("task failed", extra={"task": task.get_name(), "error": str(outcome)}, exc_info=outcome)


def _close_with(task: asyncio.Task[None], work: Coroutine[Any, Any, None]) -> None:
    # A task that is cancelled before its first step never awaits its coroutine, which Python would warn
    # about.
    task.add_done_callback(lambda _: work.close())


def stop_if_cancelled() -> None:
    """Call it after an error before what failed is tried again. Raises CancelledError if this task was cancelled: the
    error of a task in a group that was cancelled with it, because something is closed already, replaces the cancellation."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _restarted(name: str, work: Work, backoff: Backoff) -> None:
    loop = asyncio.get_running_loop()
    wait = backoff.seconds_min
    while True:
        began = loop.time()
        try:
            await _cancelled_only_from_outside(work())
            return
        except Exception as error:
            if loop.time() - began >= backoff.steady_seconds:
                wait = backoff.seconds_min
            fields = {"task": name, "error": str(error), "retry_seconds": wait}
            log.exception("background task failed; restarting", extra=fields)
        stop_if_cancelled()
        await asyncio.sleep(wait)
        wait = min(wait * 2, backoff.seconds_max)


async def _cancelled_only_from_outside(work: Coroutine[Any, Any, None]) -> None:
    """Turn a cancellation that was not requested for this task, but came from something it awaited, into an
    error: otherwise the task would end without a trace."""
    try:
        await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the task was cancelled from within") from error


async def _named(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await _cancelled_only_from_outside(work)
    except Exception as error:
        # A note keeps the error's type, which callers of the block may expect.
        error.add_note(f"background task {name!r} failed")
        raise


async def _logged(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:
        log.exception("task failed", extra={"task": name, "error": str(error)})
