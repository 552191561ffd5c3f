"""Stopping a container: the preStop hook, the stop signal, the grace period, then SIGKILL.

The grace period can be shortened while the container is being stopped, never extended.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from alcove.agent.pods import lifecycle_hooks
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.executor import PodExecutor
from alcove.agent.runtime.base import ContainerId, NoSuchContainer, RuntimeFailure
from alcove.api.objects import Object

log = logging.getLogger(__name__)

AFTER_HOOK_SECONDS_MIN = 2.0
KILL_AGAIN_SECONDS = 1.0
KILL_AGAIN_SECONDS_MAX = 60.0


def signal_of(container: Object, mark: ContainerMark | None) -> int:
    """The container's stop signal: from its spec, else from its image, else SIGTERM."""
    name = (container.get("lifecycle") or {}).get("stopSignal") or (mark.stop_signal if mark else "")
    if name.isdigit():
        return int(name)
    try:
        return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])
    except KeyError:
        return int(signal.SIGTERM)


class ContainerStop:
    """`run` never returns: the watcher cancels it when the container has exited."""

    def __init__(
        self,
        executor: PodExecutor,
        container: Object,
        id: ContainerId,
        stop_signal: int,
        grace_seconds: float,
        clock: Callable[[], float],
        hook_failed: Callable[[str], None],
    ) -> None:
        self._executor = executor
        self._container = container
        self._id = id
        self._signal = stop_signal
        self._clock = clock
        self._hook_failed = hook_failed
        self._deadline = clock() + grace_seconds
        self._shortened = asyncio.Event()

    def shorten(self, grace_seconds: float) -> None:
        """Shortens the grace period to `grace_seconds` from now; a later deadline is ignored."""
        deadline = self._clock() + grace_seconds
        if deadline < self._deadline:
            self._deadline = deadline
            self._shortened.set()

    async def run(self) -> None:
        if self._remaining > 0:
            await self._run_hook()
            await self._send(self._signal)
            await self._until_deadline()
        waits = KILL_AGAIN_SECONDS
        while True:
            await self._send(int(signal.SIGKILL))
            await asyncio.sleep(waits)
            log.warning("container did not stop within the grace period", extra={"container": self._id})
            waits = min(waits * 2, KILL_AGAIN_SECONDS_MAX)

    @property
    def _remaining(self) -> float:
        return self._deadline - self._clock()

    async def _run_hook(self) -> None:
        hook = (self._container.get("lifecycle") or {}).get("preStop")
        if not hook:
            return
        began = self._clock()
        running = asyncio.create_task(lifecycle_hooks.run(hook, self._container, self._executor, self._id))
        try:
            while not running.done() and self._remaining > 0:
                self._shortened.clear()
                shortened = asyncio.create_task(self._shortened.wait())
                await asyncio.wait(
                    (running, shortened), timeout=self._remaining, return_when="FIRST_COMPLETED"
                )
                shortened.cancel()
            if running.done() and (error := running.exception()) is not None:
                self._hook_failed(str(error))
        finally:
            running.cancel()
        if self._clock() - began > 0 and 0 < self._remaining < AFTER_HOOK_SECONDS_MIN:
            self._deadline = self._clock() + AFTER_HOOK_SECONDS_MIN

    async def _until_deadline(self) -> None:
        while (remaining := self._remaining) > 0:
            self._shortened.clear()
            try:
                async with asyncio.timeout(remaining):
                    await self._shortened.wait()
            except TimeoutError:
                continue

    async def _send(self, number: int) -> None:
        try:
            await self._executor.runtime.kill(self._id, number)
        except NoSuchContainer:
            return
        except RuntimeFailure as error:
            log.warning("failed to send signal", extra={"container": self._id, "error": str(error)})
