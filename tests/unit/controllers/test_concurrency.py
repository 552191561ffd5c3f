"""Several at once: all end before an error is raised."""

import asyncio
import gc
import weakref

import pytest

from alcove.controllers.concurrency import gather_all
from alcove.testing.clock import VirtualClock


async def after(seconds: float, value: int, done: list[int]) -> int:
    await asyncio.sleep(seconds)
    if value < 0:
        raise ValueError(str(value))
    done.append(value)
    return value


def test_results_come_in_order() -> None:
    done: list[int] = []
    assert VirtualClock().run(gather_all([after(2, 1, done), after(1, 2, done)])) == [1, 2]
    assert done == [2, 1]


def test_an_error_is_raised_when_all_have_ended() -> None:
    done: list[int] = []

    async def scenario() -> None:
        with pytest.raises(ValueError, match="-1"):
            await gather_all([after(0, -1, done), after(5, 1, done), after(1, -2, done)])
        assert done == [1]

    VirtualClock().run(scenario())


class _Answer:
    pass


def test_an_error_holds_no_answer_of_the_others() -> None:
    async def answer() -> _Answer:
        made = _Answer()
        answers.append(weakref.ref(made))
        return made

    async def refuse() -> _Answer:
        raise ValueError

    async def scenario() -> None:
        try:
            await gather_all([answer(), refuse()])
        except ValueError:
            pass

    answers: list[weakref.ref[_Answer]] = []
    gc.collect()
    gc.disable()
    try:
        asyncio.run(scenario())
        assert [each() for each in answers] == [None]
    finally:
        gc.enable()
