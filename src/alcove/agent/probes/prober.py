"""Runs a container's probes and reports changes of their outcome through callbacks.

startup ──succeeded──▶ liveness and readiness, each with its own period

The outcome of a probe changes after as many equal consecutive results as its threshold.
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
from alcove.client.keys import TenantKey
from alcove.component.fair_slots import FairSlots

STARTUP, LIVENESS, READINESS = "startup", "liveness", "readiness"


class ResultStreak(Struct):
    """Counts equal consecutive results."""

    success_threshold: int
    failure_threshold: int
    is_good: bool
    """The current outcome."""
    count: int = 0
    last: bool | None = None

    def add(self, result: bool) -> bool:
        """Adds a result; returns whether the number of equal results has reached the threshold."""
        self.count = self.count + 1 if result is self.last else 1
        self.last = result
        if self.count < (self.success_threshold if result else self.failure_threshold):
            return False
        self.is_good = result
        return True


class ProbeSlots(Struct, frozen=True):
    """How many probes of tenants run at the same time."""

    exec: FairSlots[TenantKey]
    network: FairSlots[TenantKey]


class ProbeCallbacks(Struct, frozen=True):
    """Callbacks for the probe results of one container."""

    started: Callable[[], None]
    ready: Callable[[bool], None]
    restart_needed: Callable[[str], None]
    """(kind of probe): the container must be restarted."""
    unhealthy: Callable[[str, str], None]
    """(kind of probe, message): a probe failed; for events."""


class Prober:
    def __init__(
        self,
        executor: PodExecutor,
        container: Object,
        id: ContainerId,
        callbacks: ProbeCallbacks,
        slots: ProbeSlots,
    ) -> None:
        self._executor = executor
        self._container = container
        self._id = id
        self._callbacks = callbacks
        self._slots = slots

    async def run(self, is_started: bool) -> None:
        """Runs until cancelled, or until there is nothing left to probe."""
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
        slots = self._slots.exec if "exec" in probe else self._slots.network
        async with slots.slot(self._executor.key.tenant_key):  # Waiting does not count as a failure.
            result = await self._check(probe)
        if not result.is_good:
            self._callbacks.unhealthy(kind, result.message)
        return result.is_good

    async def _check(self, probe: Object) -> ProbeResult:
        seconds = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(seconds):
                return await check(probe, self._container, self._executor, self._id)
        except TimeoutError:
            return ProbeResult(False, f"probe timed out after {seconds:.0f}s")


def _streak(probe: Object, *, is_good: bool) -> ResultStreak:
    return ResultStreak(
        int(probe.get("successThreshold") or 1), int(probe.get("failureThreshold") or 3), is_good
    )


def _period(probe: Object) -> float:
    return float(probe.get("periodSeconds") or 10)


async def _delay(probe: Object) -> None:
    """Waits for the initial delay plus a small jitter, so that a restarted agent does not run all probes at
    once."""
    delay = float(probe.get("initialDelaySeconds") or 0)
    await asyncio.sleep(delay + random.random() * min(0.1, _period(probe)))
