import asyncio
import socket
from collections.abc import AsyncIterator
from threading import Thread
from typing import Any

import pytest

from alcove.store.base import Compacted, StoreOpenError
from alcove.store.sqlite_channel import Channel, StorageFailed, WorkerProcess
from alcove.store.sqlite_file import CompactedError, UnusableFile
from alcove.store.sqlite_worker import serve


def fail(kind: str) -> None:
    raise {
        "unusable": UnusableFile("gone"),
        "gone": CompactedError(7),
        "value": ValueError("odd"),
        "disk": OSError("bad"),
    }[kind]


@pytest.fixture
async def channel() -> AsyncIterator[Channel]:
    ours, theirs = socket.socketpair()
    handlers: dict[str, Any] = {"echo": lambda *arguments: list(arguments), "fail": fail}
    serving = Thread(target=serve, args=(theirs, handlers))
    serving.start()
    loop = asyncio.get_running_loop()
    channel = Channel(loop)
    await loop.create_connection(lambda: channel, sock=ours)
    yield channel
    channel.close()
    await asyncio.to_thread(serving.join)


async def test_replies_come_in_the_order_of_requests(channel: Channel) -> None:
    replies = await asyncio.gather(*(channel.call("echo", n, b"x" * n) for n in range(300)))
    assert replies == [[n, b"x" * n] for n in range(300)]


async def test_large_requests_and_replies_pass(channel: Channel) -> None:
    large = bytes(5 << 20)
    assert await channel.call("echo", large, None, {1: b"\xff"}) == [large, None, {1: b"\xff"}]


@pytest.mark.parametrize(
    ("kind", "error"),
    [("unusable", StoreOpenError), ("gone", Compacted), ("value", ValueError), ("disk", StorageFailed)],
)
async def test_errors_are_raised_as_ours(channel: Channel, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        await channel.call("fail", kind)
    assert await channel.call("echo", 1) == [1]


async def test_end_of_the_process_answers_everything(channel: Channel) -> None:
    waiting = channel.call("echo", 1)
    channel.close()
    with pytest.raises(StorageFailed, match="closed"):
        await channel.call("echo", 2)
    with pytest.raises(StorageFailed):
        await waiting


async def test_process_stops_on_request_and_needs_no_installed_package(tmp_path: object) -> None:
    process = await WorkerProcess.start()
    assert await process.writes.call("open", f"{tmp_path}/x.db", None, 0.0) == (0, 0)
    assert await process.reads.call("newest", 0, {}, None, True) == []
    await asyncio.wait_for(process.stop(), 60)
