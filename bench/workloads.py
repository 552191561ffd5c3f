"""How fast workloads get their pods, alone and beside a tenant that floods the server.

a thousand     one Deployment of 1,000 replicas: from the request until 1,000 pods are seen by a watch
small tenant   Deployments of 3, one after another, while another tenant creates objects without pause
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from pathlib import Path

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.changes import Change, Kind
from alcove.client.client import Client, Selection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, SERVICE_ACCOUNTS, TENANTS

BIG, SMALL, FLOOD = TenantId("big"), TenantId("small"), TenantId("flood")
NAMESPACE = "default"
WAIT_SECONDS_MAX = 120.0
FLOOD_CONNECTIONS = 8


class Figures(Struct, frozen=True):
    deployment_s: float
    small_ms: list[float]
    flooded: int
    """Objects that the greedy tenant made meanwhile."""


class Seen:
    """Counts, as a client that watches, what is there: pods by their `app`, accounts by tenant."""

    def __init__(self, planes: Planes) -> None:
        self._counts: Counter[tuple[TenantId, str]] = Counter()
        self._waiting: dict[tuple[TenantId, str], tuple[int, asyncio.Future[float]]] = {}
        planes.mirror(Selection(PODS, metadata_only=True)).subscribe(self._on_pod)
        planes.mirror(Selection(SERVICE_ACCOUNTS, metadata_only=True)).subscribe(self._on_account)
        self._usable: defaultdict[TenantId, asyncio.Event] = defaultdict(asyncio.Event)

    def _on_pod(self, change: Change) -> None:
        if change.kind is Kind.UPDATED:
            return
        app = (change.obj["metadata"].get("labels") or {}).get("app", "")
        mark = (change.key.tenant, app)
        self._counts[mark] += 1 if change.kind is Kind.ADDED else -1
        wanted, future = self._waiting.get(mark, (-1, None))
        if self._counts[mark] == wanted and future is not None and not future.done():
            future.set_result(time.perf_counter())

    def _on_account(self, change: Change) -> None:
        if change.key.namespace == NAMESPACE:
            self._usable[change.key.tenant].set()

    async def pods(self, tenant: TenantId, app: str, count: int) -> float:
        """When there were so many, in the time of `perf_counter`."""
        if self._counts[tenant, app] == count:
            return time.perf_counter()
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[tenant, app] = (count, future)
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            return await future

    async def usable(self, tenant: TenantId) -> None:
        """Waits until pods can be made in it."""
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await self._usable[tenant].wait()


def deployment(name: str, replicas: int) -> Object:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


async def deploy(client: Client, seen: Seen, tenant: TenantId, name: str, replicas: int) -> float:
    """Seconds from the request until all pods were seen."""
    began = time.perf_counter()
    await client.create(tenant, DEPLOYMENTS, deployment(name, replicas))
    return await seen.pods(tenant, name, replicas) - began


async def flood(client: Client, most: int, made: Counter[str]) -> None:
    """Objects without pause, on all connections it has."""

    async def fill() -> None:
        while made["objects"] < most:
            made["objects"] += 1
            name = f"object-{made['objects']}"
            obj = {"metadata": {"name": name}, "data": {"key": "value" * 40}}
            await client.create(FLOOD, CONFIG_MAPS, obj, namespace=NAMESPACE)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(FLOOD_CONNECTIONS):
            tasks.create_task(fill())


async def measure(path: Path, *, rounds: int, flood_max: int) -> Figures:
    account = kubeconfig.load(path)
    pool, greedy = HttpPool(account), HttpPool(account, connections_max=FLOOD_CONNECTIONS)
    async with Planes(user_agent="bench") as planes:
        seen = Seen(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        for tenant in (BIG, SMALL, FLOOD):
            await client.create(SYSTEM, TENANTS, {"metadata": {"name": tenant}})
            await seen.usable(tenant)
        # The first of everything warms up what a process does once.
        await deploy(client, seen, SMALL, "first", 3)
        big = await deploy(client, seen, BIG, "big", 1000)
        made: Counter[str] = Counter()
        flooding = asyncio.create_task(flood(Client(greedy), flood_max, made))
        small = []
        for number in range(rounds):
            if flooding.done():
                break
            small.append(await deploy(client, seen, SMALL, f"small-{number}", 3) * 1000)
        await flooding
    await pool.close()
    await greedy.close()
    return Figures(big, small, made["objects"])
