"""A loop in a thread of its own: what it raises arrives, what is cancelled ends."""

import asyncio
import threading

import pytest
import uvloop

from alcove.component.loop_threads import called_on_this_loop, run_in_thread


async def test_what_it_raises_arrives() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_in_thread("test", fail)


async def test_a_cancelled_one_has_ended_when_the_caller_goes_on() -> None:
    began, steps = threading.Event(), list[str]()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            steps.append("ended")

    running = asyncio.create_task(run_in_thread("test", work))
    await asyncio.to_thread(began.wait)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert steps == ["ended"]


async def test_one_that_is_cancelled_before_it_began_ends_too() -> None:
    running = asyncio.create_task(run_in_thread("test", asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    running.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([running])


async def test_a_function_runs_on_the_loop_that_it_belongs_to() -> None:
    async def where(number: int) -> tuple[int, int]:
        return number, threading.get_ident()

    called, seen = called_on_this_loop(where), list[tuple[int, int]]()

    async def work() -> None:
        assert threading.get_ident() != here
        seen.append(await called(7))

    here = threading.get_ident()
    await run_in_thread("test", work)
    assert seen == [(7, here)]


def test_it_is_the_same_on_the_loop_that_agents_run_on() -> None:
    uvloop.run(test_a_cancelled_one_has_ended_when_the_caller_goes_on())
    uvloop.run(test_a_function_runs_on_the_loop_that_it_belongs_to())
