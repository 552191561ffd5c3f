"""How fast tenants come and go: `python -m bench.tenants [--quick] [--json FILE]`.

An API server and the controllers, as a user starts them, and this program as a client that watches.

one by one   a tenant is created, and the next one when all its first objects are there; then all are deleted
at once      all are created without waiting, then all deleted: their times make the ratio, and memory
             is compared before and after: what a process needs at its busiest it has had by then, so what
             it grows by now is what tenants leave behind

A tenant is ready when its namespaces have their service accounts and certificates and its role, binding,
network and storage class are there: 13 objects of two levels of controllers. Times begin with the request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.client import kubeconfig
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    NAMESPACES,
    NETWORKS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    TENANTS,
)
from alcove.processes.memory import TRIM_SECONDS
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer
from bench.servers import resident_mb

FIRST_OBJECTS = 13
"""Namespaces, accounts and certificates (three each), role, binding, network, storage class."""
WAIT_SECONDS_MAX = 120.0
SETTLE_SECONDS = 2.0
AFTERWARDS_SECONDS = TRIM_SECONDS + 1.0
"""Longer than the processes take to hand back memory that they no longer use."""


class Ready:
    """Watches, as a client would, what tenants have."""

    def __init__(self, planes: Planes) -> None:
        self._has: dict[TenantId, int] = {}
        self._waiting: dict[TenantId, asyncio.Future[None]] = {}
        self.ready_at: dict[TenantId, float] = {}
        self.gone_at: dict[TenantId, float] = {}
        self._gone: dict[TenantId, asyncio.Future[None]] = {}
        for resource in (
            NAMESPACES,
            SERVICE_ACCOUNTS,
            CONFIG_MAPS,
            CLUSTER_ROLES,
            CLUSTER_ROLE_BINDINGS,
            NETWORKS,
            STORAGE_CLASSES,
        ):
            planes.mirror(ListSelection(resource, metadata_only=True)).subscribe(self._on_object)
        planes.mirror(ListSelection(TENANTS, metadata_only=True)).subscribe(self._on_tenant)

    def _on_object(self, change: ObjectChange) -> None:
        tenant = change.key.tenant
        if change.kind is ChangeType.ADDED:
            self._has[tenant] = self._has.get(tenant, 0) + 1
            if self._has[tenant] == FIRST_OBJECTS:
                self.ready_at[tenant] = time.perf_counter()
                _resolve(self._waiting.pop(tenant, None))
        elif change.kind is ChangeType.DELETED:
            self._has[tenant] -= 1

    def _on_tenant(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            tenant = TenantId(change.key.name)
            self.gone_at[tenant] = time.perf_counter()
            _resolve(self._gone.pop(tenant, None))

    async def ready(self, tenant: TenantId) -> None:
        if self._has.get(tenant, 0) < FIRST_OBJECTS:
            await self._wait(self._waiting, tenant)

    async def gone(self, tenant: TenantId) -> None:
        if tenant not in self.gone_at:
            await self._wait(self._gone, tenant)

    @staticmethod
    async def _wait(waiting: dict[TenantId, asyncio.Future[None]], tenant: TenantId) -> None:
        waiting[tenant] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            await waiting[tenant]


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


class Figures(Struct):
    ready_ms: list[float]
    create_s: float
    delete_s: float
    rss_before_mb: list[float]
    """Of each process, after as many tenants have come and gone as follow now."""

    def percentile(self, share: float) -> float:
        ordered = sorted(self.ready_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


async def create(client: Client, tenant: TenantId) -> None:
    await client.create(SYSTEM, TENANTS, {"metadata": {"name": tenant}})


async def one_by_one(client: Client, ready: Ready, tenants: list[TenantId]) -> list[float]:
    """Milliseconds from each request until all was there."""
    taken = []
    for tenant in tenants:
        began = time.perf_counter()
        await create(client, tenant)
        await ready.ready(tenant)
        taken.append((ready.ready_at[tenant] - began) * 1000)
    return taken


async def all_at_once(client: Client, ready: Ready, tenants: list[TenantId]) -> float:
    """Seconds from the first request until the last tenant was ready."""
    began = time.perf_counter()
    for tenant in tenants:
        await create(client, tenant)
    for tenant in tenants:
        await ready.ready(tenant)
    return time.perf_counter() - began


async def delete(client: Client, ready: Ready, tenants: list[TenantId]) -> float:
    """Seconds from the first request until the last tenant was gone."""
    began = time.perf_counter()
    for tenant in tenants:
        await client.delete(SYSTEM, TENANTS, tenant)
    for tenant in tenants:
        await ready.gone(tenant)
    return time.perf_counter() - began


@contextmanager
def control_plane() -> Iterator[tuple[LocalServer, LocalControllers]]:
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as name:
        directory = Path(name)
        with LocalServer(directory / "server") as server, LocalControllers(server, directory) as controllers:
            yield server, controllers


async def measure(path: Path, count: int, pids: list[int]) -> Figures:
    pool = HttpPool(kubeconfig.load(path))
    async with Planes(user_agent="bench") as planes:
        ready = Ready(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        single = [TenantId(f"one-{number}") for number in range(count)]
        ready_ms = await one_by_one(client, ready, single)
        await delete(client, ready, single)
        await asyncio.sleep(AFTERWARDS_SECONDS)
        before = [resident_mb(pid) for pid in pids]
        burst = [TenantId(f"all-{number}") for number in range(count)]
        create_s = await all_at_once(client, ready, burst)
        delete_s = await delete(client, ready, burst)
    await pool.close()
    return Figures(ready_ms, create_s, delete_s, before)


def run(count: int) -> dict[str, float]:
    with control_plane() as (server, controllers):
        time.sleep(SETTLE_SECONDS)
        pids = [controllers.pid, server.pid]
        fresh = [resident_mb(pid) for pid in pids]
        figures = uvloop.run(measure(server.admin_kubeconfig, count, pids))
        time.sleep(AFTERWARDS_SECONDS)
        after = [resident_mb(pid) for pid in pids]
    return {
        "tenants": count,
        "tenant_ready_p50_ms": round(figures.percentile(0.5), 1),
        "tenant_ready_p99_ms": round(figures.percentile(0.99), 1),
        "tenants_create_s": round(figures.create_s, 2),
        "tenants_delete_s": round(figures.delete_s, 2),
        "tenant_delete_to_create_ratio": round(figures.delete_s / figures.create_s, 2),
        "controllers_rss_growth_percent": _growth_percent(figures.rss_before_mb[0], after[0]),
        "apiserver_rss_growth_percent": _growth_percent(figures.rss_before_mb[1], after[1]),
        "controllers_rss_fresh_mb": round(fresh[0], 1),
        "controllers_rss_before_mb": round(figures.rss_before_mb[0], 1),
        "controllers_rss_after_mb": round(after[0], 1),
        "apiserver_rss_fresh_mb": round(fresh[1], 1),
        "apiserver_rss_before_mb": round(figures.rss_before_mb[1], 1),
        "apiserver_rss_after_mb": round(after[1], 1),
    }


def _growth_percent(before: float, after: float) -> float:
    return round((after / before - 1) * 100, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--quick", action="store_true", help="60 tenants instead of 1,000; ends within a minute"
    )
    parser.add_argument("--count", type=int, help="so many tenants")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    figures = run(options.count or (60 if options.quick else 1_000))
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
