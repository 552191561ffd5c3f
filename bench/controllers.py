"""What the controllers do, and how fast: `python -m bench.controllers [--quick] [--json FILE]`.

An API server and the controllers, as a user starts them, and this program as their users. Tenants first
(`bench.tenants`), then on the same control plane:

deployment_1000_s     a Deployment of 1,000 replicas: until 1,000 pods are there
small_tenant_p99_ms   Deployments of 3 replicas, one after another, until their pods are there, while
                      another tenant creates 20,000 objects as fast as the server lets it
rss_mb                resident memory of the controllers with all those tenants and objects
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, DEPLOYMENTS, PODS
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer
from bench.servers import resident_mb
from bench.tenants import (
    SETTLE_SECONDS,
    WAIT_SECONDS_MAX,
    Ready,
    all_at_once,
    control_plane,
    delete,
    one_by_one,
)

BIG, GREEDY, SMALL = TenantId("big"), TenantId("greedy"), TenantId("small")
GREEDY_REQUESTS_AT_ONCE = 16


class Scale(Struct, frozen=True, kw_only=True):
    single: int
    """Tenants created one by one."""
    burst: int
    """Tenants created, and deleted, at once."""
    standing: int
    """Tenants that are there while memory is measured."""
    objects: int = 20_000
    replicas: int = 1_000


QUICK = Scale(single=60, burst=60, standing=100)
FULL = Scale(single=1_000, burst=1_000, standing=1_000)


class Pods:
    """Watches how many pods each tenant has."""

    def __init__(self, planes: Planes) -> None:
        self._count: dict[TenantId, int] = {}
        self._waiting: list[tuple[TenantId, int, asyncio.Future[None]]] = []
        planes.mirror(ListSelection(PODS, metadata_only=True)).subscribe(self._on_pod)

    def _on_pod(self, change: ObjectChange) -> None:
        step = {ChangeType.ADDED: 1, ChangeType.UPDATED: 0, ChangeType.DELETED: -1}[change.kind]
        tenant = change.key.tenant
        self._count[tenant] = self._count.get(tenant, 0) + step
        for who, wanted, future in self._waiting:
            if who == tenant and self._count[tenant] == wanted and not future.done():
                future.set_result(None)

    async def reach(self, tenant: TenantId, wanted: int) -> None:
        if self._count.get(tenant, 0) == wanted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (tenant, wanted, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                await future
        finally:
            self._waiting.remove(entry)


def deployment(name: str, replicas: int) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": "example.com/app:1", "ports": [{"containerPort": 80}]}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def deployment_seconds(client: Client, pods: Pods, replicas: int) -> float:
    began = time.perf_counter()
    await client.create(BIG, DEPLOYMENTS, deployment("big", replicas), namespace="default")
    await pods.reach(BIG, replicas)
    return time.perf_counter() - began


async def flood(client: Client, count: int) -> None:
    """So many objects, by the tenant's own user, as fast as they are taken."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            body = {"metadata": {"name": f"c{number}"}, "data": {"key": "value" * 20}}
            await client.create(GREEDY, CONFIG_MAPS, body, namespace="default")

    await asyncio.gather(*(worker() for _ in range(GREEDY_REQUESTS_AT_ONCE)))


async def small_ms(client: Client, pods: Pods, until: asyncio.Task[None]) -> list[float]:
    """Milliseconds of one small Deployment after another, as long as the flood lasts."""
    taken: list[float] = []
    while not until.done():
        began = time.perf_counter()
        name = f"small-{len(taken)}"
        await client.create(SMALL, DEPLOYMENTS, deployment(name, 3), namespace="default")
        await pods.reach(SMALL, 3 * (len(taken) + 1))
        taken.append((time.perf_counter() - began) * 1000)
    await until
    return taken


@asynccontextmanager
async def as_tenant(server: LocalServer, tenant: TenantId) -> AsyncIterator[Client]:
    pool = HttpPool(kubeconfig.load(server.as_tenant(tenant).kubeconfig))
    try:
        yield Client(pool, user_agent="bench")
    finally:
        await pool.close()


async def tenants(client: Client, ready: Ready, scale: Scale) -> dict[str, float]:
    single = [TenantId(f"one-{number}") for number in range(scale.single)]
    ready_ms = sorted(await one_by_one(client, ready, single))
    await delete(client, ready, single)
    burst = [TenantId(f"all-{number}") for number in range(scale.burst)]
    create_s = await all_at_once(client, ready, burst)
    delete_s = await delete(client, ready, burst)
    return {
        "tenant_ready_p50_ms": _percentile(ready_ms, 0.5),
        "tenant_ready_p99_ms": _percentile(ready_ms, 0.99),
        "tenant_delete_to_create_ratio": round(delete_s / create_s, 2),
    }


def _percentile(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)


async def workloads(server: LocalServer, client: Client, pods: Pods, scale: Scale) -> dict[str, float]:
    figures = {"deployment_1000_s": round(await deployment_seconds(client, pods, scale.replicas), 2)}
    async with as_tenant(server, GREEDY) as greedy, as_tenant(server, SMALL) as small:
        flooding = asyncio.create_task(flood(greedy, scale.objects))
        taken = sorted(await small_ms(small, pods, flooding))
    return {
        **figures,
        "small_tenant_p50_ms": _percentile(taken, 0.5),
        "small_tenant_p99_ms": _percentile(taken, 0.99),
        "small_tenant_deployments": len(taken),
    }


async def measure(server: LocalServer, controllers: LocalControllers, scale: Scale) -> dict[str, float]:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    async with Planes(user_agent="bench") as planes:
        ready, pods = Ready(planes), Pods(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        figures = await tenants(client, ready, scale)
        standing = [TenantId(f"standing-{number}") for number in range(scale.standing - 3)]
        await all_at_once(client, ready, [BIG, GREEDY, SMALL, *standing])
        figures |= await workloads(server, client, pods, scale)
        figures["rss_mb"] = round(resident_mb(controllers.pid), 1)
    await pool.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer tenants; ends within a minute")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    with control_plane() as (server, controllers):
        time.sleep(SETTLE_SECONDS)
        figures = uvloop.run(measure(server, controllers, QUICK if options.quick else FULL))
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
