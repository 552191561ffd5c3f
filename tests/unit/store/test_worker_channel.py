import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import DEPLOYMENTS
from alcove.store.base import (
    Compacted,
    RevisionInFuture,
    RevisionMismatch,
    StoreError,
    StoreUnavailable,
    WriteOutcomeUnknown,
)
from alcove.store.worker_channel import ChannelClosed, WorkerChannel

KEY = Key(DEPLOYMENTS, TenantId("acme"), "default", "web")


@pytest.fixture
async def ends() -> AsyncIterator[list[WorkerChannel]]:
    channels = [WorkerChannel(), WorkerChannel()]
    for channel, end in zip(channels, socket.socketpair(), strict=True):
        await channel.connect(end)
    yield channels
    for channel in channels:
        channel.close()


async def echo(*arguments: Any) -> list[Any]:
    return list(arguments)


async def test_both_ends_call_each_other(ends: list[WorkerChannel]) -> None:
    for channel in ends:
        channel.handlers["echo"] = echo
    for caller in ends:
        answers = await asyncio.gather(*(caller.call("echo", n, b"x" * n) for n in range(300)))
        assert answers == [[n, b"x" * n] for n in range(300)]


async def test_messages_of_many_pieces_arrive_whole(ends: list[WorkerChannel]) -> None:
    ends[1].handlers["echo"] = echo
    body = bytes(range(256)) * 20_000
    assert await ends[0].call("echo", body) == [body]


async def test_notes_come_in_order_and_before_a_later_reply(ends: list[WorkerChannel]) -> None:
    noted: list[int] = []
    ends[0].handlers["note"] = noted.append

    async def answer() -> None:
        for number in range(10):
            ends[1].note("note", number)

    ends[1].handlers["ask"] = answer
    await ends[0].call("ask")
    assert noted == list(range(10))


@pytest.mark.parametrize(
    "error",
    [
        RevisionMismatch(KEY, Revision(7)),
        Compacted(Revision(7)),
        RevisionInFuture(Revision(7)),
        StoreUnavailable("full"),
        WriteOutcomeUnknown("who knows"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_stores_errors_arrive_as_they_were_raised(
    error: StoreError, ends: list[WorkerChannel]
) -> None:
    async def fail() -> None:
        raise error

    ends[1].handlers["fail"] = fail
    with pytest.raises(type(error)) as raised:
        await ends[0].call("fail")
    assert type(raised.value) is type(error)
    assert str(raised.value) == str(error) and vars(raised.value) == vars(error)


async def test_a_call_that_nobody_answers_raises(ends: list[WorkerChannel]) -> None:
    with pytest.raises(ValueError, match="does not answer"):
        await ends[0].call("nothing")


async def test_calls_raise_when_the_other_end_is_gone(ends: list[WorkerChannel]) -> None:
    ends[1].handlers["wait"] = asyncio.Event().wait
    pending = ends[0].call("wait")
    await asyncio.sleep(0)
    ends[1].close()
    with pytest.raises(ChannelClosed):
        await pending
    await ends[0].closed
    with pytest.raises(ChannelClosed):
        ends[0].call("wait")
