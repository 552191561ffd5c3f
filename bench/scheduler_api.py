"""The scheduler as users meet it: an API server and the scheduler, each a process, and this program as clients.

end to end   pods wait, the scheduler starts; from the first binding to the last
greedy       10 tenants dump 900 pods each at once; 40 others create 10 pods each, one after another: how
             long each of these takes from its creation until it is seen bound
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.client import Client, ListSelection
from alcove.client.pool import HttpPool, RequestLimits
from alcove.client.resources import NODES, PODS
from alcove.client.watch_events import WatchEventType
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.scheduling import node, pod
from alcove.testing.server import LocalServer
from bench import load
from bench.servers import free_port, resident_mb

AT_ONCE = 24
DUMPED_AT_ONCE = 4
"""Connections that each greedy tenant dumps its pods through."""
WAIT_SECONDS_MAX = 120.0
"""For all of one run: rather no figure than none ever."""


class EndToEnd(Struct, frozen=True):
    per_s: float
    rss_mb: float


class Greedy(Struct, frozen=True):
    latencies_ms: list[float]
    seconds: float

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@asynccontextmanager
async def client_of(path: Path, connections: int = AT_ONCE) -> AsyncIterator[Client]:
    pool = HttpPool(kubeconfig.load(path), RequestLimits(connections_max=connections))
    try:
        yield Client(pool)
    finally:
        await pool.close()


async def _several(count: int, act: Callable[[int], Awaitable[object]], at_once: int = AT_ONCE) -> None:
    """`act` on every number below `count`, so many at a time."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await act(number)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(work())


def _plain(obj: Object) -> Object:
    """As a user sends it: uids and priorities are the server's business."""
    obj["metadata"].pop("uid", None)
    obj["spec"].pop("priority", None)
    return obj


async def add_nodes(server: LocalServer, count: int) -> None:
    async with client_of(server.admin_kubeconfig) as client:
        await _several(count, lambda number: client.create(SYSTEM, NODES, _plain(node(f"node-{number}"))))


def _small(name: str) -> Object:
    return _plain(pod(name, cpu="10m", memory="10Mi"))


async def _placed(port: int) -> float:
    """How many bindings the scheduler made, as it reports."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    text = (await reader.read()).decode()
    writer.close()
    for line in text.splitlines():
        if line.startswith("alcove_scheduler_placed_total "):
            return float(line.split()[1])
    return 0.0


async def end_to_end(directory: Path, nodes: int, pods: int) -> EndToEnd:
    """The server and the scheduler have two cores between them, as have kube-scheduler and its own."""
    port = free_port()
    with LocalServer(directory / "server") as server:
        server.make_namespace("system", "kube-system")
        tenant = server.make_tenant("acme")
        await add_nodes(server, nodes)
        async with client_of(tenant.kubeconfig) as client:
            await _several(
                pods,
                lambda number: client.create(
                    TenantId("acme"), PODS, _plain(pod(f"pod-{number}", cpu="100m", memory="500Mi"))
                ),
            )
        scheduler = LocalScheduler(server.admin_kubeconfig, directory, "--probe-port", str(port))
        with scheduler:
            return EndToEnd(await _rate(port, pods), resident_mb(scheduler.pid))


async def _rate(port: int, pods: int) -> float:
    """Pods bound per second, from the first that are seen bound until all are. What was bound by the first
    look does not count, nor the time until then: so it is in scheduler_perf, too."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        at_first = await _at_least(port, 1)
        started = time.perf_counter()
        await _at_least(port, pods)
        return (pods - at_first) / (time.perf_counter() - started)


async def _at_least(port: int, pods: int) -> float:
    """How many are bound, once there are so many."""
    while True:
        found = await _placed(port)
        if found >= pods:
            return found
        await asyncio.sleep(0.02)


class Scale(Struct, frozen=True, kw_only=True):
    nodes: int = 500
    greedy: int = 10
    dumped: int = 900
    regular: int = 40
    each: int = 10


class Arena:
    """A server with nodes and tenants, where nothing is placed yet."""

    def __init__(self, server: LocalServer, directory: Path, scale: Scale) -> None:
        self._server = server
        self._directory = directory
        self._scale = scale
        self._greedy = [f"greedy-{number}" for number in range(scale.greedy)]
        self._regular = [f"regular-{number}" for number in range(scale.regular)]

    async def prepare(self) -> None:
        self._server.make_namespace("system", "kube-system")
        for name in (*self._greedy, *self._regular):
            self._server.make_tenant(name)
        await add_nodes(self._server, self._scale.nodes)

    async def run(self, is_fair: bool) -> Greedy:
        """Over when the regular tenants have what they wanted."""
        how = "--fair" if is_fair else "--first-come"
        with LocalScheduler(self._server.admin_kubeconfig, self._directory, how):
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                return await self._compete()

    async def _compete(self) -> Greedy:
        latencies: list[float] = []
        connected = asyncio.Barrier(len(self._regular) + 1)
        begin = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for tenant in self._regular:
                tasks.create_task(self._one_by_one(tenant, latencies, connected, begin))
            # Everybody is connected before it begins: measured is scheduling, not handshakes.
            await connected.wait()
            started = time.perf_counter()
            dumping = [tasks.create_task(self._dump(tenant)) for tenant in self._greedy]
            # The dump is well under way when the others come.
            await asyncio.sleep(0.5)
            begin.set()
            await asyncio.gather(*dumping)
        return Greedy(latencies, time.perf_counter() - started)

    async def _dump(self, tenant: str) -> None:
        """All requests are encoded beforehand, so that the dump costs the server and not this program."""
        tls = kubeconfig.load(self._server.as_tenant(tenant).kubeconfig).tls()
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        requests = iter(
            [
                load.request("POST", path, {}, orjson.dumps(_small(f"pod-{number}")))
                for number in range(self._scale.dumped)
            ]
        )

        async def send() -> None:
            client = await load.connect(*self._server.address, tls)
            for data in requests:
                status, _ = await client.send(data)
                assert status == 201, status
            client.close()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(DUMPED_AT_ONCE):
                tasks.create_task(send())

    async def _one_by_one(
        self, tenant: str, latencies: list[float], connected: asyncio.Barrier, begin: asyncio.Event
    ) -> None:
        """Create a pod, wait until it is seen bound, create the next."""
        async with client_of(self._server.as_tenant(tenant).kubeconfig, 2) as client:
            bound: asyncio.Queue[str] = asyncio.Queue()
            watching = asyncio.create_task(_watch(client, TenantId(tenant), bound))
            await client.list(TenantId(tenant), PODS, namespace="default")
            await connected.wait()
            await begin.wait()
            try:
                for number in range(self._scale.each):
                    made = _small(f"pod-{number}")
                    started = time.perf_counter()
                    await client.create(TenantId(tenant), PODS, made)
                    while await bound.get() != f"pod-{number}":
                        pass
                    latencies.append(1000 * (time.perf_counter() - started))
            finally:
                watching.cancel()


async def compete(directory: Path, scale: Scale, is_fair: bool) -> Greedy:
    """One run, on a server of its own: each begins with nothing placed and nothing in line."""
    with LocalServer(directory / "server") as server:
        arena = Arena(server, directory, scale)
        await arena.prepare()
        return await arena.run(is_fair)


async def _watch(client: Client, tenant: TenantId, bound: asyncio.Queue[str]) -> None:
    selection = ListSelection(PODS, namespace="default")
    async with client.watch(tenant, selection, after=None, seconds_max=600) as watch:
        async for batch in watch.batches():
            for event in batch:
                if event.happened is not WatchEventType.BOOKMARK and event.obj["spec"].get("nodeName"):
                    bound.put_nowait(event.obj["metadata"]["name"])
