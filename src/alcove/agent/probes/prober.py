"""Runs a container's probes and tells what they found, when it changes.

startup ──succeeded──▶ liveness and readiness, each in its own time

The outcome of a probe changes after as many equal results in a row as its threshold says.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from msgspec import Struct

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes.checks import ProbeResult, check
from alcove.agent.runtime.base import ContainerId
from alcove.api.objects import Object

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"


class ResultStreak(Struct):
    """Equal results in a row."""

    success_threshold: int
    failure_threshold: int
    is_good: bool
    """What holds, as of now."""
    count: int = 0
    last: bool | None = None

    def add(self, result: bool) -> bool:
        """Whether what holds is now decided by enough results, for the first time in this row or again."""
        self.count = self.count + 1 if result is self.last else 1
        self.last = result
        if self.count < (self.success_threshold if result else self.failure_threshold):
            return False
        self.is_good = result
        return True


class ProbeCallbacks(Struct, frozen=True):
    """What the prober tells of a container."""

    started: Callable[[], None]
    ready: Callable[[bool], None]
    restart_needed: Callable[[str], None]
    """A probe's kind: the container has to be started anew."""
    unhealthy: Callable[[str, str], None]
    """A probe's kind, and what it said: for those who read events."""


class Prober:
    def __init__(
        self, executor: PodExecutor, container: Object, id: ContainerId, callbacks: ProbeCallbacks
    ) -> None:
        self._executor = executor
        self._container = container
        self._id = id
        self._callbacks = callbacks

    async def run(self, is_started: bool) -> None:
        """Until cancelled, or until there is nothing left to probe."""
        startup = self._container.get("startupProbe")
        if startup and not is_started and not await self._startup(startup):
            return
        self._callbacks.started()
        liveness, readiness = self._container.get("livenessProbe"), self._container.get("readinessProbe")
        if not readiness:
            self._callbacks.ready(True)
        async with asyncio.TaskGroup() as tasks:
            if liveness:
                tasks.create_task(self._liveness(liveness))
            if readiness:
                tasks.create_task(self._readiness(readiness))

    async def _startup(self, probe: Object) -> bool:
        streak = _streak(probe, is_good=False)
        await _delay(probe)
        while True:
            if streak.add(await self._once(STARTUP, probe)):
                if not streak.is_good:
                    self._callbacks.restart_needed(STARTUP)
                return streak.is_good
            await asyncio.sleep(_period(probe))

    async def _liveness(self, probe: Object) -> None:
        streak = _streak(probe, is_good=True)
        await _delay(probe)
        while True:
            if streak.add(await self._once(LIVENESS, probe)) and not streak.is_good:
                self._callbacks.restart_needed(LIVENESS)
                return
            await asyncio.sleep(_period(probe))

    async def _readiness(self, probe: Object) -> None:
        streak = _streak(probe, is_good=False)
        await _delay(probe)
        while True:
            if streak.add(await self._once(READINESS, probe)):
                self._callbacks.ready(streak.is_good)
            await asyncio.sleep(_period(probe))

    async def _once(self, kind: str, probe: Object) -> bool:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(seconds):
                found = await check(probe, self._container, self._executor, self._id)
        except TimeoutError:
            found = ProbeResult(False, f"no answer within {seconds:.0f}s")
        if not found.is_good:
            self._callbacks.unhealthy(kind, found.message)
        return found.is_good


def _streak(probe: Object, *, is_good: bool) -> ResultStreak:
    return ResultStreak(
        int(probe.get("successThreshold") or 1), int(probe.get("failureThreshold") or 3), is_good
    )


def _period(probe: Object) -> float:
    return float(probe.get("periodSeconds") or 10)


async def _delay(probe: Object) -> None:
    """A little spread, so that an agent that starts anew does not probe all at the same moment."""
    delay = float(probe.get("initialDelaySeconds") or 0)
    await asyncio.sleep(delay + random.random() * min(0.1, _period(probe)))
