"""No task fails unseen: it is restarted or ends the block, and its name is in the log or the error."""

import asyncio
import logging
from contextlib import suppress

import pytest

from alcove.component import request_ids
from alcove.component.tasks import BackgroundTasks, Backoff, TaskSet, spawn, stop

AT_ONCE = Backoff(seconds_min=0.0, seconds_max=0.0)


class Broken(Exception):
    pass


async def fail() -> None:
    raise Broken("no luck")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.getMessage(), vars(record)["task"]) for record in caplog.records]


async def test_a_task_that_raises_is_logged_and_restarted(caplog: pytest.LogCaptureFixture) -> None:
    runs, done = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise Broken("no luck")
        done.set()

    async with BackgroundTasks(AT_ONCE) as tasks:
        tasks.restart("compaction", work)
        await done.wait()
    assert runs == 3
    assert lines(caplog) == [("background task failed; restarting", "compaction")] * 2
    assert all(record.exc_info for record in caplog.records)


async def test_a_task_that_keeps_failing_waits_longer_each_time(caplog: pytest.LogCaptureFixture) -> None:
    runs = iter(range(5))

    async def work() -> None:
        if next(runs) < 4:
            await fail()

    async with BackgroundTasks(Backoff(seconds_min=0.001, seconds_max=0.004)) as tasks:
        tasks.restart("renewal", work)
    assert [vars(record)["retry_seconds"] for record in caplog.records] == [0.001, 0.002, 0.004, 0.004]


async def test_a_cancellation_from_within_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    runs, done = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        done.set()

    async with BackgroundTasks(AT_ONCE) as tasks:
        tasks.restart("feed", work)
        await done.wait()
    assert lines(caplog) == [("background task failed; restarting", "feed")]


async def test_a_fatal_task_ends_the_block_with_its_name() -> None:
    reached = False
    with pytest.raises(ExceptionGroup) as raised:
        async with BackgroundTasks() as tasks:
            tasks.restart("other", asyncio.Event().wait)  # type: ignore[arg-type]
            tasks.fatal("watch cache", fail())
            await asyncio.Event().wait()
            reached = True
    (error,) = raised.value.exceptions
    assert isinstance(error, Broken) and not reached
    assert error.__notes__ == ["background task 'watch cache' failed"]


async def test_what_the_block_raises_is_not_wrapped() -> None:
    with pytest.raises(Broken):
        async with BackgroundTasks() as tasks:
            tasks.fatal("other", asyncio.sleep(60))
            await fail()


async def test_cancelling_the_block_cancels_its_tasks() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def block() -> None:
        async with BackgroundTasks() as tasks:
            tasks.restart("work", work)
            await asyncio.Event().wait()

    running = asyncio.create_task(block())
    while not ended:
        await asyncio.sleep(0)
        running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert ended == ["work"] and running.cancelled()


async def test_an_error_instead_of_a_cancellation_ends_a_task_too() -> None:
    """What a part of the task needs may be closed before it."""
    begun = asyncio.Event()

    async def part() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise Broken("closed already")

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part())

    async with asyncio.timeout(60), BackgroundTasks(AT_ONCE) as tasks:
        tasks.restart("pods", work)
        await begun.wait()
        tasks.cancel()


async def test_a_background_task_does_not_carry_the_request_it_began_in() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append(request_ids.current.get())

    with request_ids.scope("abc"):
        async with BackgroundTasks() as tasks:
            tasks.restart("work", work)
    assert seen == [""]


async def test_a_spawned_task_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet()
    await asyncio.wait([tasks.spawn("DNS query", fail()), spawn("usage of node-1", fail())])
    assert not len(tasks)
    assert sorted(lines(caplog)) == [("task failed", "DNS query"), ("task failed", "usage of node-1")]


async def test_a_set_of_tasks_ends_when_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    tasks = TaskSet()
    waiting = tasks.spawn("connection", asyncio.sleep(60))
    await tasks.close()
    assert waiting.cancelled() and not len(tasks) and not caplog.records


async def test_stopping_reports_errors_but_not_of_peers_that_hung_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang_up() -> None:
        raise ConnectionResetError

    tasks = [
        asyncio.create_task(hang_up(), name="in"),
        asyncio.create_task(fail(), name="out"),
        asyncio.create_task(asyncio.sleep(60), name="resize"),
    ]
    await asyncio.sleep(0)
    with caplog.at_level(logging.DEBUG):
        await stop(*tasks)
    assert lines(caplog) == [("task failed", "out")]
    assert all(task.done() for task in tasks)
