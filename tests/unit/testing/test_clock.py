"""Virtual time jumps, in order, and notices deadlocks."""

import asyncio
import time

import pytest

from alcove.testing.clock import EPOCH_SECONDS, VirtualClock


def test_hours_pass_at_once_and_in_order() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append((name, clock() - EPOCH_SECONDS))

    async def scenario() -> None:
        await asyncio.gather(sleeper("late", 7_200), sleeper("early", 60), sleeper("middle", 3_600))

    started = time.monotonic()
    clock.run(scenario())
    assert [name for name, _ in seen] == ["early", "middle", "late"]
    assert [when for _, when in seen] == pytest.approx([60, 3_600, 7_200])
    assert time.monotonic() - started < 60


def test_timeouts_go_by_it() -> None:
    async def scenario() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(3_600)
        return asyncio.get_running_loop().time()

    assert VirtualClock().run(scenario()) == pytest.approx(30)


def test_a_deadlock_is_reported() -> None:
    async def scenario() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="deadlock"):
        VirtualClock().run(scenario())
