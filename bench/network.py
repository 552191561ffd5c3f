"""How fast addresses are given out, and networks become ready.

    python -m bench.network [--quick] [--json FILE]

| figure                  | what is measured                                                            |
|-------------------------|-----------------------------------------------------------------------------|
| `alloc_per_s`           | endpoints created in a /16, 10,000 of them, by one allocator with requests side by side; the API server is on the same machine and makes each durable |
| `alloc_growth_ratio`    | time of the last 1,000 of them to that of the first 1,000: the median of the rounds, each in a subnet of its own |
| `alloc_large_ratio`     | time of 2,000 in a /8 to that of 2,000 in a /20: what the range's size costs |
| `network_ready_p50_ms`  | from sending a network to seeing it Ready, one after the other, with a VPC, a subnet and two services each |
| `networks_ready_s`      | from the first of `networks` tenants sent, each with a network of the same range, to the last network Ready |
| `pod_attach_p50_ms`     | from sending a pod to seeing its address                                    |

Everything runs for real: the API server and all controllers, each a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from itertools import count
from pathlib import Path

import orjson
import uvloop

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.client import kubeconfig
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool, RequestLimits
from alcove.client.resources import NETWORKS, PODS, SERVICE_ACCOUNTS, TENANTS, VPC_ENDPOINTS
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer
from alcove.vpc.addressing import AddressPool, EndpointPurpose
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.vpc_cache import VpcCache

ENDPOINTS = 10_000
SLICE = 1_000
SIDE_BY_SIDE = 32
TEMPLATE = '{"metadata": {"name": "default"}, "spec": {"type": "mizar", "ip": "10.0.0.0", "prefix": 16}}'
Figures = dict[str, float]
_SCOPES = count(100)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[Planes]:
    transport = HttpPool(kubeconfig.load(path), RequestLimits(connections_max=SIDE_BY_SIDE))
    async with Planes(user_agent="bench") as planes:
        planes.join(HOME, transport)
        yield planes
    await transport.close()


# Addresses


async def allocate(allocator: AddressAllocator, cidr: str, many: int) -> list[float]:
    """Seconds since the start at which each of the endpoints was there."""
    scope = next(_SCOPES)
    pool = AddressPool(vpc="bench", net=f"bench-{scope}", network=ip_network(cidr), scope=scope, vni=scope)
    numbers, done, started = iter(range(many)), [], time.perf_counter()

    async def work() -> None:
        for number in numbers:
            await allocator.claim(
                pool, EndpointPurpose(owner_uid=f"bench-{number}", what=f"bench/{scope}/{number}")
            )
            done.append(time.perf_counter() - started)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(SIDE_BY_SIDE):
            tasks.create_task(work())
    return done


async def addresses(path: Path, rounds: int) -> Figures:
    async with connected(path) as planes:
        cache = VpcCache(planes, time.time)
        await planes.synced()
        allocator = AddressAllocator(cache, time.monotonic)
        await allocate(allocator, "10.0.0.0/16", SLICE)
        rates, ratios = [], []
        for _ in range(rounds):
            done = await allocate(allocator, "10.0.0.0/16", ENDPOINTS)
            rates.append(ENDPOINTS / done[-1])
            ratios.append((done[-1] - done[-1 - SLICE]) / done[SLICE - 1])
        small = (await allocate(allocator, "10.0.0.0/20", 2 * SLICE))[-1]
        large = (await allocate(allocator, "10.0.0.0/8", 2 * SLICE))[-1]
        return {
            "alloc_per_s": statistics.median(rates),
            "alloc_growth_ratio": statistics.median(ratios),
            "alloc_large_ratio": large / small,
        }


# Networks


class Watcher:
    """Notes when things came to be."""

    def __init__(self, planes: Planes) -> None:
        self.seen: dict[str, float] = {}
        self._changed = asyncio.Event()
        planes.mirror(ListSelection(NETWORKS)).subscribe(self._network)
        planes.mirror(ListSelection(VPC_ENDPOINTS), tenant=SYSTEM).subscribe(self._endpoint)

    def _network(self, change: ObjectChange) -> None:
        if objects.get(change.obj, "status", "phase") == "Ready":
            self._note(f"{change.key.tenant}/{change.key.name}")

    def _endpoint(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.ADDED:
            self._note(str(objects.get(change.obj, "spec", "pod")))

    def _note(self, what: str) -> None:
        self.seen.setdefault(what, time.perf_counter())
        self._changed.set()

    async def when(self, what: str) -> float:
        while what not in self.seen:
            self._changed.clear()
            await self._changed.wait()
        return self.seen[what]


async def one_by_one(client: Client, watcher: Watcher, tenant: TenantId, many: int) -> Figures:
    networks, pods = [], []
    for number in range(many):
        name = f"net-{number}"
        spec = {"type": "mizar", "ip": "10.0.0.0", "prefix": 16}
        started = time.perf_counter()
        await client.create(tenant, NETWORKS, {"metadata": {"name": name}, "spec": spec})
        networks.append(await watcher.when(f"{tenant}/{name}") - started)
    for number in range(many):
        name = f"pod-{number}"
        pod = {
            "metadata": {"name": name},
            "spec": {"network": "net-0", "containers": [{"name": "c", "image": "i"}]},
        }
        started = time.perf_counter()
        await client.create(tenant, PODS, pod, namespace="default")
        pods.append(await watcher.when(f"{tenant}/default/{name}") - started)
    return {
        "network_ready_p50_ms": statistics.median(networks) * 1e3,
        "network_ready_p99_ms": sorted(networks)[int(len(networks) * 0.99)] * 1e3,
        "pod_attach_p50_ms": statistics.median(pods) * 1e3,
    }


async def at_once(client: Client, watcher: Watcher, many: int) -> Figures:
    names = [f"crowd-{number}" for number in range(many)]
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for name in names:
            tasks.create_task(client.create(SYSTEM, TENANTS, {"metadata": {"name": name}, "spec": {}}))
    last = max([await watcher.when(f"{name}/default") for name in names])
    return {"networks": many, "networks_ready_s": last - started}


async def networks(path: Path, single: int, crowd: int) -> Figures:
    async with connected(path) as planes:
        watcher = Watcher(planes)
        await planes.synced()
        client = planes.client(HOME)
        tenant = TenantId("bench")
        await client.create(SYSTEM, TENANTS, {"metadata": {"name": tenant}, "spec": {}})
        await watcher.when(f"{tenant}/default")
        while not await client.list(tenant, SERVICE_ACCOUNTS, namespace="default"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        figures = await one_by_one(client, watcher, tenant, single)
        return figures | await at_once(client, watcher, crowd)


def measure(quick: bool) -> Figures:
    with tempfile.TemporaryDirectory(prefix="bench-network-") as folder:
        directory = Path(folder)
        with LocalServer(directory / "addresses") as server:
            figures = uvloop.run(addresses(server.admin_kubeconfig, 1 if quick else 5))
        template = directory / "network.json"
        template.write_text(TEMPLATE)
        options = ("--default-network-template-path", str(template))
        with LocalServer(directory / "networks") as server, LocalControllers(server, directory, *options):
            single, crowd = (40, 100) if quick else (200, 1_000)
            return figures | uvloop.run(networks(server.admin_kubeconfig, single, crowd))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="within a minute, less steady")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    figures = {name: round(value, 3) for name, value in measure(arguments.quick).items()}
    for name, value in figures.items():
        print(f"{name:24} {value:>12,.3f}")
    if arguments.json:
        arguments.json.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
