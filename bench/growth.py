"""What one more tenant costs beside many others: `python -m bench.growth [--quick] [--json FILE]`.

An API server and the controllers, as a user starts them, and this program as a client that watches. Tenants are
made until there are 5,000. At 500 and at 5,000 it is measured

tenants_per_s, deletes_per_s   how fast tenants become ready and go, many at once
exponent_*                     how the CPU time of both processes for one object (made, reconciled, deleted) or one
                               request grows with the number of tenants: log(cost at 5,000 / cost at 500) / log(10)
kb_per_tenant_*                resident memory that the tenants in between added, with the history of their making

and with all of them there: `restart_s_at_5000`, from the start of the API server's process until it has answered a
request; `get_per_s`, `create_per_s`, and `get_cpu_us` and `create_cpu_us`, its own CPU time for each, without controllers.
The same with `_4_workers` is of another server, with four workers: of all its processes together.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.testing.controlplane import LocalControllers
from bench.apiserver import CONNECTIONS, PODS, Target, creates, get, prepare
from bench.growth_costs import USER, CpuMeter, exponents, object_costs, reading_costs
from bench.servers import Alcove, compile_package, cpu_seconds, resident_mb
from bench.tenants import Ready, all_at_once, delete

FEW = 500
BATCH = 250
"""Tenants that are created at once."""
TRIM_SECONDS = 2.5
"""Within which quiet processes have returned the memory that they freed."""


class Scale(Struct, frozen=True, kw_only=True):
    tenants: int
    objects: int
    """Of each kind."""
    requests: int
    load_seconds: float


QUICK = Scale(tenants=5_000, objects=48, requests=300, load_seconds=2.0)
FULL = Scale(tenants=20_000, objects=200, requests=2_000, load_seconds=6.0)


class ControlPlane:
    """The two processes that are measured."""

    def __init__(self, directory: Path) -> None:
        self.apiserver = Alcove(directory)
        self._directory = directory

    def __enter__(self) -> ControlPlane:
        self.apiserver.__enter__()
        self.controllers = LocalControllers(self.apiserver.server, self._directory)
        self.controllers.__enter__()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.controllers.stop()
        self.apiserver.server.stop()

    def pids(self) -> list[int]:
        return [self.apiserver.server.pid, self.controllers.pid]

    def resident_kb(self) -> list[float]:
        return [resident_mb(pid) * 1024 for pid in self.pids()]


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as name, ControlPlane(Path(name)) as plane:
        yield plane


class Tenants:
    """Makes and deletes tenants, and measures both."""

    def __init__(self, client: Client, ready: Ready, meter: CpuMeter) -> None:
        self._client = client
        self._ready = ready
        self._meter = meter
        self.names: list[TenantId] = []
        self._numbers = itertools.count()

    async def make(self, count: int) -> float:
        """Makes so many at once, and returns how many became ready in a second."""
        names = [TenantId(f"t-{next(self._numbers)}") for _ in range(count)]
        self.names += names
        return count / await all_at_once(self._client, self._ready, names)

    async def fill(self, count: int) -> None:
        """Makes tenants until there are so many."""
        while len(self.names) < count:
            rate = await self.make(min(BATCH, count - len(self.names)))
            print(f"{len(self.names)} tenants, the last at {rate:.0f}/s", flush=True)

    async def delete(self, count: int) -> float:
        """Deletes so many at once, and returns how many were gone in a second."""
        names, self.names = self.names[-count:], self.names[:-count]
        return count / await delete(self._client, self._ready, names)

    async def come_and_go(self, costs: dict[str, float]) -> tuple[float, float]:
        """Tenants that are ready, and that are gone, in a second; `costs` gets the CPU time for one."""
        await self._meter.idle()
        with self._meter.measured(costs, "tenant", BATCH):
            created = await self.make(BATCH)
            await self._meter.idle()
        with self._meter.measured(costs, "tenant_deleted", BATCH):
            deleted = await self.delete(BATCH)
            await self._meter.idle()
        return created, deleted


async def costs_of(client: Client, meter: CpuMeter, scale: Scale) -> dict[str, float]:
    costs = await object_costs(client, meter, scale.objects)
    return costs | await reading_costs(client, meter, scale.requests)


async def measure_tenants(plane: ControlPlane, scale: Scale) -> dict[str, float]:
    pool = HttpPool(kubeconfig.load(plane.apiserver.server.admin_kubeconfig))
    meter = CpuMeter(plane.pids)
    few: dict[str, float] = {}
    many: dict[str, float] = {}
    async with Planes(user_agent="bench") as planes:
        ready = Ready(planes)
        client = planes.join(HOME, pool)
        await planes.synced()
        await all_at_once(client, ready, [USER])
        tenants = Tenants(client, ready, meter)
        at_0 = await tenants.make(BATCH)
        await tenants.fill(FEW)
        await tenants.come_and_go(few)
        few |= await costs_of(client, meter, scale)
        await asyncio.sleep(TRIM_SECONDS)
        before = plane.resident_kb()
        await tenants.fill(scale.tenants)
        await meter.idle()
        await asyncio.sleep(TRIM_SECONDS)
        grown = [after - kb for kb, after in zip(before, plane.resident_kb(), strict=True)]
        at_5000, deletes_at_5000 = await tenants.come_and_go(many)
        many |= await costs_of(client, meter, scale)
    await pool.close()
    per_tenant = [kb / (scale.tenants - FEW) for kb in grown]
    growth = exponents(few, many, scale.tenants / FEW)
    return {
        "tenants": scale.tenants,
        "tenants_per_s_at_0": round(at_0, 1),
        "tenants_per_s_at_5000": round(at_5000, 1),
        "deletes_per_s_at_5000": round(deletes_at_5000, 1),
        "kb_per_tenant_all": round(sum(per_tenant), 1),
        "kb_per_tenant_apiserver": round(per_tenant[0], 1),
        "kb_per_tenant_controllers": round(per_tenant[1], 1),
        **{f"cpu_ms_{name}": round(value, 2) for name, value in many.items()},
        **{f"exponent_{name}": value for name, value in growth.items()},
        "exponent_max": max(growth.values()),
    }


def restart_seconds(apiserver: Alcove) -> float:
    apiserver.server.stop()
    began = time.perf_counter()
    apiserver.server.start()
    answer = apiserver.server.system.get(f"/api/v1/tenants/{USER}/namespaces/default")
    assert answer.status == 200, answer.body
    return time.perf_counter() - began


async def measure_requests(apiserver: Alcove, scale: Scale) -> dict[str, float]:
    target = Target(apiserver.port, apiserver.caller())
    await prepare(target)
    names = (f"bench-{number}" for number in itertools.count())
    used = [cpu_seconds(apiserver.server.pid)]
    created = await target.run(CONNECTIONS, scale.load_seconds, creates(names))
    used.append(cpu_seconds(apiserver.server.pid))
    request = get(f"{PODS}/bench-0")
    got = await target.run(CONNECTIONS, scale.load_seconds, lambda: itertools.repeat(request))
    used.append(cpu_seconds(apiserver.server.pid))
    return {
        "create_per_s": round(created.per_s),
        "get_per_s": round(got.per_s),
        "create_cpu_us": round((used[1] - used[0]) / created.requests * 1e6, 1),
        "get_cpu_us": round((used[2] - used[1]) / got.requests * 1e6, 1),
    }


def measure_workers(scale: Scale, workers: int) -> dict[str, float]:
    """The same requests to a server with several workers, and nothing else in it."""
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as name, Alcove(Path(name), workers) as alcove:
        figures = uvloop.run(measure_requests(alcove, scale))
    return {f"{name}_{workers}_workers": value for name, value in figures.items()}


def run(scale: Scale) -> dict[str, float]:
    with control_plane() as plane:
        figures = uvloop.run(measure_tenants(plane, scale))
        plane.controllers.stop()
        figures["restart_s_at_5000"] = round(restart_seconds(plane.apiserver), 2)
        figures |= uvloop.run(measure_requests(plane.apiserver, scale))
    return figures | measure_workers(scale, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="5,000 tenants instead of 20,000; within 150 seconds"
    )
    parser.add_argument("--count", type=int, help="so many tenants instead of 5,000")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.count:
        scale = Scale(
            tenants=options.count,
            objects=scale.objects,
            requests=scale.requests,
            load_seconds=scale.load_seconds,
        )
    compile_package()
    figures = run(scale)
    for name, value in figures.items():
        print(f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
