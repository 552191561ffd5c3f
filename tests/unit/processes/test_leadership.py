"""Working until the lease is lost, until work fails, or until a signal."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from alcove.processes.leadership import identity, run_until_signal, until_lost


async def test_work_is_ended_with_the_lease_and_tidies_up_first() -> None:
    lost, messages = asyncio.Event(), []

    async def work() -> None:
        lost.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            messages.append("tidy")

    await until_lost(lost, work())
    assert messages == ["tidy"]


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await until_lost(asyncio.Event(), work())


async def test_being_cancelled_ends_work() -> None:
    messages = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            messages.append("ended")

    task = asyncio.create_task(until_lost(asyncio.Event(), work()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert messages == ["ended"]


def test_a_signal_ends_the_process_in_good_order() -> None:
    messages = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            messages.append("ended")

    run_until_signal(work())
    assert messages == ["ended"]


def test_every_start_has_a_name_of_its_own() -> None:
    assert identity() != identity()
    assert identity().split("_")[1] == str(os.getpid())
