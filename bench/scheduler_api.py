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
from alcove.client.client import Client, Selection
from alcove.client.pool import HttpPool
from alcove.client.resources import NODES, PODS
from alcove.client.watching import Happened
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.scheduling import node, pod
from alcove.testing.server import LocalServer
from bench import load
from bench.servers import free_port, resident_mb

AT_ONCE = 24
DUMPED_AT_ONCE = 4
"""Connections that each greedy tenant dumps its pods through."""
WAIT_SECONDS_MAX = 120.0


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
    pool = HttpPool(kubeconfig.load(path), connections_max=connections)
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
    """How many bindings the scheduler made, as it tells."""
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
            seconds = await _until_placed(port, pods)
            return EndToEnd(pods / seconds, resident_mb(scheduler.pid))


async def _until_placed(port: int, pods: int) -> float:
    """Seconds in which so many were bound, from the moment the scheduler decides."""
    started = time.perf_counter()
    while await _placed(port) < pods:
        if time.perf_counter() - started > WAIT_SECONDS_MAX:
            raise TimeoutError(f"not all of {pods} pods are bound after {WAIT_SECONDS_MAX:.0f} s")
        await asyncio.sleep(0.02)
    return time.perf_counter() - started


class Scale(Struct, frozen=True, kw_only=True):
    nodes: int = 500
    greedy: int = 10
    dumped: int = 900
    regular: int = 40
    each: int = 10


class Arena:
    """A server with nodes and tenants, for as many runs as wanted."""

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

    async def run(self, name: str, is_fair: bool, is_last: bool = False) -> Greedy:
        """`name` is a prefix of the pods' names, another for each run."""
        how = "--fair" if is_fair else "--first-come"
        port = free_port()
        with LocalScheduler(self._server.admin_kubeconfig, self._directory, how, "--probe-port", str(port)):
            result = await self._compete(name)
            if not is_last:
                # The next run begins with nothing in line.
                scale = self._scale
                await _until_placed(port, scale.greedy * scale.dumped + scale.regular * scale.each)
            return result

    async def _compete(self, name: str) -> Greedy:
        latencies: list[float] = []
        connected = asyncio.Barrier(len(self._regular) + 1)
        begin = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for tenant in self._regular:
                tasks.create_task(self._one_by_one(tenant, name, latencies, connected, begin))
            # Everybody is connected before it begins: measured is scheduling, not handshakes.
            await connected.wait()
            started = time.perf_counter()
            dumping = [tasks.create_task(self._dump(tenant, name)) for tenant in self._greedy]
            # The dump is well under way when the others come.
            await asyncio.sleep(0.5)
            begin.set()
            await asyncio.gather(*dumping)
        return Greedy(latencies, time.perf_counter() - started)

    async def _dump(self, tenant: str, name: str) -> None:
        """All requests are encoded beforehand, so that the dump costs the server and not this program."""
        tls = kubeconfig.load(self._server.as_tenant(tenant).kubeconfig).tls()
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        requests = iter(
            [
                load.request("POST", path, {}, orjson.dumps(_small(f"{name}-{number}")))
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
        self, tenant: str, name: str, latencies: list[float], connected: asyncio.Barrier, begin: asyncio.Event
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
                    made = _small(f"{name}-{number}")
                    started = time.perf_counter()
                    await client.create(TenantId(tenant), PODS, made)
                    async with asyncio.timeout(WAIT_SECONDS_MAX):
                        while await bound.get() != f"{name}-{number}":
                            pass
                    latencies.append(1000 * (time.perf_counter() - started))
            finally:
                watching.cancel()


@asynccontextmanager
async def arena(directory: Path, scale: Scale) -> AsyncIterator[Arena]:
    with LocalServer(directory / "server") as server:
        made = Arena(server, directory, scale)
        await made.prepare()
        yield made


async def _watch(client: Client, tenant: TenantId, bound: asyncio.Queue[str]) -> None:
    selection = Selection(PODS, namespace="default")
    async with client.watch(tenant, selection, after=None, seconds_max=600) as watch:
        async for batch in watch.batches():
            for event in batch:
                if event.happened is not Happened.BOOKMARK and event.obj["spec"].get("nodeName"):
                    bound.put_nowait(event.obj["metadata"]["name"])
