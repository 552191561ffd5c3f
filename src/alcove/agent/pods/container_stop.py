"""Stopping a container: its preStop hook, a signal to end, time to do so, and the signal that none survives.

How long it may take can be cut short while it is under way, never made longer.
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
    told = (container.get("lifecycle") or {}).get("stopSignal") or (mark.stop_signal if mark else "")
    if told.isdigit():
        return int(told)
    try:
        return int(signal.Signals[told if told.startswith("SIG") else f"SIG{told}"])
    except KeyError:
        return int(signal.SIGTERM)


class ContainerStop:
    """`run` goes on until it is cancelled: whoever waits for the container's end does that."""

    def __init__(
        self,
        executor: PodExecutor,
        container: Object,
        id: ContainerId,
        sent: int,
        grace_seconds: float,
        clock: Callable[[], float],
        hook_failed: Callable[[str], None],
    ) -> None:
        self._executor = executor
        self._container = container
        self._id = id
        self._signal = sent
        self._clock = clock
        self._hook_failed = hook_failed
        self._deadline = clock() + grace_seconds
        self._sooner = asyncio.Event()

    def hasten(self, grace_seconds: float) -> None:
        """From now on it has only so long."""
        deadline = self._clock() + grace_seconds
        if deadline < self._deadline:
            self._deadline = deadline
            self._sooner.set()

    async def run(self) -> None:
        if self._left > 0:
            await self._run_hook()
            await self._send(self._signal)
            await self._until_deadline()
        waits = KILL_AGAIN_SECONDS
        while True:
            await self._send(int(signal.SIGKILL))
            await asyncio.sleep(waits)
            log.warning("container does not end", extra={"container": self._id})
            waits = min(waits * 2, KILL_AGAIN_SECONDS_MAX)

    @property
    def _left(self) -> float:
        return self._deadline - self._clock()

    async def _run_hook(self) -> None:
        hook = (self._container.get("lifecycle") or {}).get("preStop")
        if not hook:
            return
        began = self._clock()
        running = asyncio.create_task(lifecycle_hooks.run(hook, self._container, self._executor, self._id))
        try:
            while not running.done() and self._left > 0:
                self._sooner.clear()
                sooner = asyncio.create_task(self._sooner.wait())
                await asyncio.wait((running, sooner), timeout=self._left, return_when="FIRST_COMPLETED")
                sooner.cancel()
            if running.done() and (error := running.exception()) is not None:
                self._hook_failed(str(error))
        finally:
            running.cancel()
        if self._clock() - began > 0 and 0 < self._left < AFTER_HOOK_SECONDS_MIN:
            self._deadline = self._clock() + AFTER_HOOK_SECONDS_MIN

    async def _until_deadline(self) -> None:
        while (left := self._left) > 0:
            self._sooner.clear()
            try:
                async with asyncio.timeout(left):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    async def _send(self, number: int) -> None:
        try:
            await self._executor.runtime.kill(self._id, number)
        except NoSuchContainer:
            return
        except RuntimeFailure as error:
            log.warning("signal not sent", extra={"container": self._id, "error": str(error)})
