"""Measures the time that each request takes on the event loop, charges its tenant, and spreads it over
iterations of the loop.

A request that waits for something (every write does) is a coroutine, which runs in steps. A step is short,
but hundreds of steps may be due in one iteration of the loop, while other clients wait to be read. So once an
iteration has taken ITERATION_SECONDS, a tenant that had its part in it continues in the next one.
"""

from __future__ import annotations

from asyncio import get_running_loop
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, TypeVar

from alcove.api.ids import TenantId

T = TypeVar("T")

ITERATION_SECONDS = 0.002


class LoopMeter:
    """Use it from one event loop only."""

    def __init__(self, charge: Callable[[TenantId, float], None]) -> None:
        """`charge` is called with the seconds that a tenant's request took on the loop."""
        self._charge = charge
        self._seconds = 0.0
        self._tenants: set[TenantId] = set()
        """Tenants that took time in this iteration."""
        self._is_reset_scheduled = False

    def is_over(self, tenant: TenantId) -> bool:
        """Whether the tenant should continue in the loop's next iteration."""
        return self._seconds > ITERATION_SECONDS and tenant in self._tenants

    @property
    def is_late(self) -> bool:
        """Whether so much was done in this iteration that further requests should wait for the next one."""
        return self._seconds > ITERATION_SECONDS

    def add(self, seconds: float) -> None:
        """Counts time that is covered by the seats of a request: it is not charged."""
        self._seconds += seconds
        if self._seconds > ITERATION_SECONDS:
            # Not before: a callback per iteration would cost more than it helps.
            self._schedule_reset()

    def record(self, tenant: TenantId, seconds: float) -> None:
        self._schedule_reset()
        self._seconds += seconds
        self._tenants.add(tenant)
        self._charge(tenant, seconds)

    def measured(self, tenant: TenantId, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """The same work, measured."""
        return _MeasuredCoroutine(self, tenant, work)

    def _schedule_reset(self) -> None:
        if not self._is_reset_scheduled:
            self._is_reset_scheduled = True
            get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_reset_scheduled = False
        self._seconds = 0.0
        self._tenants.clear()


class _MeasuredCoroutine(Coroutine[Any, Any, T]):
    """A coroutine whose steps are measured, and delayed when the iteration is over."""

    __slots__ = ("_meter", "_tenant", "_work")

    def __init__(self, meter: LoopMeter, tenant: TenantId, work: Coroutine[Any, Any, T]) -> None:
        self._meter = meter
        self._tenant = tenant
        self._work = work

    def send(self, value: Any) -> Any:
        if self._meter.is_over(self._tenant):
            # A task that is given None runs again in the next iteration.
            return None
        started = perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._meter.record(self._tenant, perf_counter() - started)

    def throw(self, *error: Any) -> Any:
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __next__(self) -> Any:
        return self.send(None)

    def __iter__(self) -> _MeasuredCoroutine[T]:
        return self

    def __await__(self) -> Generator[Any, Any, T]:
        return self
