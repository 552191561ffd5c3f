"""A gRPC relay between an API server and etcd that can hold back the events of watches, and nothing else.

    with EtcdRelay(etcd_endpoint) as relay:
        LocalServer(directory, "--etcd", relay.endpoint)
        with relay.held():
            …  # The server can read and write, but receives no watch events.
        relay.event_seconds = 0.2  # From here on, each event is delayed.

It simulates a member whose watch lags behind: reads and writes are forwarded immediately.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, Self

import grpc.aio  # type: ignore[import-untyped]

WATCH = "/etcdserverpb.Watch/Watch"
RANGE = "/etcdserverpb.KV/Range"
START_SECONDS_MAX = 60.0


class EtcdRelay(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Runs in its own thread for the duration of the block; `endpoint` is its address."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open = asyncio.Event()
        self._read_seconds = 0.0
        self.event_seconds = 0.0
        self._calls: dict[str, int] = {}
        self._called = threading.Condition()
        self.endpoint = ""

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_SECONDS_MAX)
        return self

    def __exit__(self, *_exc: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_SECONDS_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._open.set()
        self._channel = grpc.aio.insecure_channel(self._target)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self.endpoint = f"127.0.0.1:{port}"

    async def _stop(self) -> None:
        self._open.set()
        await self._server.stop(None)
        await self._channel.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds back all events for the duration of the block (or until `release`); then delivers them in
        order."""
        self._loop.call_soon_threadsafe(self._open.clear)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._open.set)

    @contextmanager
    def slowed(self, seconds: float) -> Iterator[None]:
        """Delays every read by this time."""
        self._read_seconds = seconds
        try:
            yield
        finally:
            self._read_seconds = 0.0

    def reads(self) -> int:
        """Number of forwarded reads."""
        return self._calls.get(RANGE, 0)

    def wait_for_read(self, after: int, seconds_max: float) -> bool:
        """Waits until there are more reads than `after`. False on timeout."""
        with self._called:
            return self._called.wait_for(lambda: self.reads() > after, seconds_max)

    # grpc.GenericRpcHandler

    def service(self, details: Any) -> Any:
        method = details.method
        if method == WATCH:
            return grpc.stream_stream_rpc_method_handler(self._watch)

        async def forward(request: bytes, _context: Any) -> bytes:
            with self._called:
                self._calls[method] = self._calls.get(method, 0) + 1
                self._called.notify_all()
            if method == RANGE:
                await asyncio.sleep(self._read_seconds)
            answer: bytes = await self._channel.unary_unary(method)(request)
            return answer

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _watch(self, requests: AsyncIterator[bytes], _context: Any) -> AsyncIterator[bytes]:
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        receiving = asyncio.create_task(self._receive(requests, arrived))
        try:
            while True:
                due, response = await arrived.get()
                await asyncio.sleep(due - self._loop.time())
                await self._open.wait()
                yield response
        finally:
            receiving.cancel()

    async def _receive(
        self, requests: AsyncIterator[bytes], arrived: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        async for response in self._channel.stream_stream(WATCH)(requests):
            arrived.put_nowait((self._loop.time() + self.event_seconds, response))
