"""Long work on one tenant's files leaves threads for the others'."""

import asyncio
import threading

import pytest

from alcove.agent.tenant_threads import THREADS_MAX, TenantThreads
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey

HOG, QUIET = (TenantKey(HOME, TenantId(name)) for name in ("hog", "quiet"))


async def test_volumes_that_take_long_to_remove_do_not_delay_another_tenant() -> None:
    """They took all threads, and nobody's pods started meanwhile."""
    threads, end = TenantThreads(), threading.Event()
    long = [asyncio.create_task(threads.run(HOG, end.wait)) for _ in range(3 * THREADS_MAX)]
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert await threads.run(QUIET, lambda: "done") == "done"
        assert not any(task.done() for task in long)
    finally:
        end.set()
        await asyncio.gather(*long)


async def test_a_cancelled_caller_waits_until_its_files_are_no_longer_used() -> None:
    threads, began, end, ended = TenantThreads(), threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        end.wait()
        ended.set()

    task = asyncio.create_task(threads.run(HOG, work))
    assert await asyncio.to_thread(began.wait, 60)
    task.cancel()
    _, waiting = await asyncio.wait({task}, timeout=0.05)
    assert waiting
    end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
