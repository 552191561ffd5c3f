"""The parent process of an API server with several workers: owns the embedded store, starts workers, restarts them.

    client ──▶ port ──▶ one of the workers ──▶ channel ──▶ parent: SQLite      (or each worker ──▶ etcd)

The workers listen on the same port (SO_REUSEPORT): the kernel gives each connection to one of them. Each is a whole API
server with its own cache. A worker that exits takes its connections with it and is started again; if the parent exits, the
kernel kills the workers, so that none of them serves what nobody owns any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import socket
import subprocess
import sys
import time
from asyncio import Future
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.signingkeys import SigningKeys
from alcove.apiserver.metrics import ApiServerMetrics
from alcove.apiserver.worker_counts import WorkerCountsMemory
from alcove.apiserver.worker_metrics import pack
from alcove.component.logs import Form, Level
from alcove.component.tasks import BackgroundTasks
from alcove.processes.apiserver_config import ApiServerConfig, ServerKeys
from alcove.processes.starting import StartingServer
from alcove.store.base import StoreError
from alcove.store.shared_revision import SharedRevision
from alcove.store.sqlite import SqliteStore
from alcove.store.store_server import StoreServer
from alcove.store.worker_channel import WorkerChannel

log = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN = 0.5
BACKOFF_SECONDS_MAX = 30.0
STEADY_SECONDS = 60.0
"""A worker that ran for so long is restarted at once, as one that has not failed before."""
STOP_SECONDS_MAX = 15.0
METRICS_SECONDS_MAX = 5.0
"""The metrics of a worker that does not answer in time are missing."""


class WorkerFailed(Exception):
    """A worker exited before it served."""


class WorkerSetup(Struct, frozen=True, kw_only=True):
    """What a worker is told when it starts."""

    config: ApiServerConfig
    port: int
    workers: int
    counts_key: bytes
    log_level: Level
    log_format: Form
    stalls: Path | None


class RunningWorkers(Struct, frozen=True):
    url: str
    authority: CertificateAuthority


class _Worker:
    """A running worker."""

    def __init__(self, process: subprocess.Popen[bytes], channel: WorkerChannel) -> None:
        self.process = process
        self.channel = channel
        self.ready: Future[None] = asyncio.get_running_loop().create_future()
        self.failure = ""

    async def stop(self) -> int:
        """Stops it if it runs; returns its exit code."""
        if self.process.poll() is None and not self.channel.closed.done():
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                while self.process.poll() is None:  # noqa: ASYNC110 - a thread that waits could not be cancelled
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.process.kill()
            self.process.wait()
        self.channel.close()
        return self.process.returncode


class WorkerPool:
    def __init__(self, setup: WorkerSetup, counts: WorkerCountsMemory, metrics: ApiServerMetrics) -> None:
        self._setup = pickle.dumps(setup)
        self._metrics = metrics
        self._revision = SharedRevision.create()
        self._counts = counts
        self._server: StoreServer | None = None
        self._running: dict[int, _Worker] = {}

    def share(self, store: SqliteStore) -> None:
        """Serves the store to workers. Without it, they open etcd."""
        self._server = StoreServer(store, self._revision)

    async def start(self, index: int) -> _Worker:
        """Starts a worker and returns when it serves. Raises WorkerFailed."""
        worker = await self._spawn(index)
        self._running[index] = worker
        try:
            await asyncio.wait([worker.ready, worker.channel.closed], return_when=asyncio.FIRST_COMPLETED)
            if not worker.ready.done():
                code = await worker.stop()
                raise WorkerFailed(worker.failure or f"a worker exited with code {code} before it served")
        except BaseException:
            await self._stop(index)
            raise
        return worker

    async def supervise(self, index: int, worker: _Worker | None = None) -> None:
        """Restarts a worker whenever it exits, until cancelled."""
        wait, began = 0.0, time.monotonic()
        try:
            while True:
                try:
                    worker = worker or await self.start(index)
                    await asyncio.wait([worker.channel.closed])
                    ended = f"exit code {await worker.stop()}"
                except WorkerFailed as error:
                    ended = str(error)
                await self._stop(index)
                if time.monotonic() - began > STEADY_SECONDS:
                    wait = 0.0
                fields = {"worker": index, "ended": ended, "retry_seconds": wait}
                log.warning("worker exited; restarting", extra=fields)
                await asyncio.sleep(wait)
                wait = min(max(2 * wait, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX)
                worker, began = None, time.monotonic()
        finally:
            await self._stop(index)

    async def _stop(self, index: int) -> None:
        worker = self._running.pop(index, None)
        if worker is not None:
            await worker.stop()
        self._counts.clear(index)

    async def _spawn(self, index: int) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptors = [theirs.fileno(), self._revision.descriptor, self._counts.descriptor]
            worker = _Worker(_started(index, descriptors), WorkerChannel())
        worker.channel.handlers |= {
            "setup": self._set_up,
            "ready": partial(_set_ready, worker),
            "failed": partial(_set_failed, worker),
            "metrics": self._gather,
        }
        if self._server is not None:
            self._server.serve(worker.channel)
        await worker.channel.connect(ours)
        return worker

    async def _set_up(self) -> bytes:
        return self._setup

    async def _gather(self) -> dict[str, Any]:
        """The metrics of all workers that serve, and of this process."""
        asked = {index: worker for index, worker in self._running.items() if worker.ready.done()}
        answers = await asyncio.gather(*(_collect(worker) for worker in asked.values()))
        found = {str(index): answer for index, answer in zip(asked, answers, strict=True)}
        return {**found, "parent": pack(self._metrics.families())}


def _started(index: int, descriptors: Sequence[int]) -> subprocess.Popen[bytes]:
    """Call it on the main thread: the kernel kills a worker when the thread exits that started it."""
    command = [sys.executable, "-m", "alcove.processes.worker_main", str(os.getpid()), str(index)]
    return subprocess.Popen(
        [*command, *map(str, descriptors)], pass_fds=descriptors, stdin=subprocess.DEVNULL
    )


async def _collect(worker: _Worker) -> list[Any]:
    with contextlib.suppress(TimeoutError, StoreError):
        async with asyncio.timeout(METRICS_SECONDS_MAX):
            return list(await worker.channel.call("collect"))
    return []


def _set_ready(worker: _Worker) -> None:
    if not worker.ready.done():
        worker.ready.set_result(None)


def _set_failed(worker: _Worker, text: str) -> None:
    worker.failure = text


@asynccontextmanager
async def serve_with_workers(
    config: ApiServerConfig, workers: int, log_level: Level, log_format: Form, stalls: Path | None = None
) -> AsyncIterator[RunningWorkers]:
    """Serves for the duration of the block, which begins when the first worker serves. Raises WorkerFailed,
    StoreError, OSError."""
    config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    metrics = ApiServerMetrics()
    counts = WorkerCountsMemory.create(workers)
    addresses = (config.host, *config.listen)
    with reserved_port(addresses, config.port) as port:
        # Created here, so that workers that start together find them.
        keys = ServerKeys.open(config, time.time)
        SigningKeys.open(config.keys or config.pki)
        setup = WorkerSetup(
            config=config,
            port=port,
            workers=workers,
            counts_key=counts.key,
            log_level=log_level,
            log_format=log_format,
            stalls=stalls,
        )
        pool = WorkerPool(setup, counts, metrics)
        async with AsyncExitStack() as stack:
            async with StartingServer(addresses, port, keys.serving.context, is_port_shared=True):
                if not config.etcd:
                    store = await SqliteStore.open(config.store, observe=metrics.committed)
                    stack.push_async_callback(store.close)
                    pool.share(store)
                # The first alone: while all read the store together, none of them would serve.
                first = await pool.start(0)
            async with BackgroundTasks() as tasks:
                tasks.restart("worker 0", partial(pool.supervise, 0, first))
                for index in range(1, workers):
                    tasks.restart(f"worker {index}", partial(pool.supervise, index))
                yield RunningWorkers(config.url(port), keys.authority)
                tasks.cancel()


@contextmanager
def reserved_port(hosts: Sequence[str], port: int) -> Iterator[int]:
    """Finds a port for the workers at all addresses, 0 for a free one, and keeps the system from giving it to somebody
    else. Raises OSError if another server has it."""
    held: list[socket.socket] = []
    try:
        for host in hosts:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, resolved = found[0]
            address = (str(resolved[0]), port)
            if port:
                # Without sharing: sharing the port with a server that is not ours would succeed.
                _bound(family, address, is_shared=False).close()
            held.append(_bound(family, address, is_shared=True))
            port = int(held[0].getsockname()[1])
        yield port
    finally:
        for each in held:
            each.close()


def _bound(family: int, address: tuple[str, int], *, is_shared: bool) -> socket.socket:
    """A socket that is bound, but does not listen."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
