"""Virtual time: an event loop whose clock jumps to the next timer when all tasks wait.

    def test_backoff_grows() -> None:
        clock = VirtualClock()
        clock.run(scenario(clock))      # hours of waiting in no time

Everything based on the loop's time (`asyncio.sleep`, `asyncio.timeout`, `call_later`) uses it.
Sockets do not: time would run ahead of them, so the tested code must not use any.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_SECONDS = 1_700_000_000.0


class VirtualClock:
    """Calling it returns the virtual wall clock time in epoch seconds."""

    def __init__(self) -> None:
        self._loop: _VirtualLoop | None = None

    def __call__(self) -> float:
        assert self._loop is not None, "time begins with `run`"
        return EPOCH_SECONDS + self._loop.time()

    def run(self, scenario: Coroutine[Any, Any, T]) -> T:
        """Runs the scenario to completion. Raises RuntimeError on a deadlock."""
        with asyncio.Runner(loop_factory=self._make) as runner:
            return runner.run(scenario)

    def _make(self) -> asyncio.AbstractEventLoop:
        self._loop = _VirtualLoop()
        return self._loop


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual_seconds = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._virtual_seconds

    def jump(self, seconds: float) -> None:
        self._virtual_seconds += seconds


class _Selector(selectors.DefaultSelector):
    """Advances the clock instead of waiting."""

    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("deadlock: all tasks wait, and no timer is set")
        self._loop.jump(max(timeout, 0.0))
        return ready


__all__ = ["EPOCH_SECONDS", "VirtualClock"]
