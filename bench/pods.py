"""How fast pods start, and what the agent takes: `python -m bench.pods [--quick] [--json FILE]`, `--explain`.

A whole cluster on this machine as a user starts it (API server, controllers, scheduler, one node in a network
namespace), and this program as a client that watches. Every pod is a shell that sleeps, in the tenant's own network.

one by one   from the request that creates a pod until a watcher sees that it is Running and Ready
at once      100 pods created without waiting, until the last is Ready; then the agent's memory with them,
             and the share of one core that it takes while nothing happens
idle         the share of one core that a gVisor sandbox takes whose container sleeps

`--explain` instead: what the start of one pod of each runtime waits for, step by step.
`--hollow N` instead: N hollow nodes and ten pods for each, from one process, against one API server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import PODS
from alcove.testing.agent import LocalAgent
from alcove.testing.cluster import RealCluster, condition, lacking, pod, tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import Caller, LocalServer, wait_until
from bench.pod_timeline import Timeline
from bench.servers import resident_mb

TENANT = TenantId("acme")
CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
AT_ONCE = 100
PODS_PER_HOLLOW_NODE = 10
EXPLAINED_AFTER = 3
"""Pods before the one that is explained: the first find everything cold."""
CREATING_MAX = 16
SLEEP = "sleep 1000"
WAIT_SECONDS_MAX = 1_200.0
SETTLE_SECONDS = 10.0
STEADY_SECONDS = 30.0


class Watching:
    """Hears of a tenant's pods, as any client would."""

    def __init__(self, client: Client, planes: Planes) -> None:
        self._client = client
        self._ready: dict[str, float] = {}
        self._there: set[str] = set()
        self.uids: dict[str, str] = {}
        self._changed = asyncio.Event()
        planes.mirror(ListSelection(PODS), tenant=TENANT).subscribe(self._hear)

    def _hear(self, change: ObjectChange) -> None:
        name = change.key.name
        if change.kind is ChangeType.DELETED:
            self._there.discard(name)
        else:
            self._there.add(name)
            if condition(change.obj, "Ready") == "True":
                self._ready.setdefault(name, time.perf_counter())
        self._changed.set()

    async def create(self, wanted: Object) -> float:
        began = time.perf_counter()
        created = await self._client.create(TENANT, PODS, wanted, namespace="default")
        self.uids[created["metadata"]["name"]] = created["metadata"]["uid"]
        return began

    async def ready(self, name: str) -> float:
        """When the watch showed it as ready."""
        await self._until(lambda: name in self._ready)
        return self._ready[name]

    async def delete(self, name: str) -> None:
        await self._client.delete(TENANT, PODS, name, namespace="default", grace_seconds=0)
        await self._until(lambda: name not in self._there)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while not holds():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def watching(path: Path) -> AsyncIterator[Watching]:
    transport = HttpPool(kubeconfig.load(path))
    try:
        async with Planes(user_agent="bench") as planes:
            client = planes.join(HOME, transport)
            watch = Watching(client, planes)
            await planes.synced()
            yield watch
    finally:
        await transport.close()


async def one_by_one(watch: Watching, count: int, prefix: str, **spec: object) -> list[float]:
    """Milliseconds of each; the first, which finds everything cold, does not count."""
    taken = []
    for number in range(count + 1):
        name = f"{prefix}-{number}"
        began = await watch.create(pod(name, SLEEP, **spec))
        taken.append((await watch.ready(name) - began) * 1000)
        await watch.delete(name)
    return taken[1:]


async def at_once(watch: Watching, count: int, **spec: object) -> float:
    """Seconds until the last is ready."""
    limit = asyncio.Semaphore(CREATING_MAX)

    async def make(number: int) -> float:
        async with limit:
            return await watch.create(pod(f"many-{number}", SLEEP, **spec))

    began = min(await asyncio.gather(*(make(number) for number in range(count))))
    return max([await watch.ready(f"many-{number}") for number in range(count)]) - began


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def idle_percent(watch: Watching, directory: Path, seconds: float) -> float:
    """The share of one core that the sandbox of a pod without work takes."""
    await watch.create(pod("idle", SLEEP))
    await watch.ready("idle")
    await asyncio.sleep(1.0)
    [pid] = sandbox_pids(directory, watch.uids["idle"])
    before = cpu_seconds(pid)
    await asyncio.sleep(seconds)
    used = cpu_seconds(pid) - before
    await watch.delete("idle")
    return used / seconds * 100


def sandbox_pids(directory: Path, uid: str) -> list[int]:
    """Of the gVisor sandbox of the pod, on a node with this directory. Other pods' may still be there: a pod that is
    deleted with force is stopped after its object is gone, within its grace period."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes()
            if words.startswith(b"runsc-sandbox\0") and bytes(directory) in words and uid.encode() in words:
                found.append(int(path.parent.name))
    return found


def agent_mb(pid: int) -> float:
    """Of the agent alone: containers are not its memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure(path: Path, pid: int, directory: Path, quick: bool) -> dict[str, float]:
    async with watching(path) as watch:
        count = 10 if quick else 40
        crun = await one_by_one(watch, count, "crun", runtimeClassName="plain")
        gvisor = await one_by_one(watch, count // 2, "gvisor")
        idle = await idle_percent(watch, directory, 5.0 if quick else 20.0)
        many = await at_once(watch, AT_ONCE, runtimeClassName="plain")
        await asyncio.sleep(3.0)
        before, seconds = cpu_seconds(pid), 5.0 if quick else 30.0
        await asyncio.sleep(seconds)
        return {
            "start_p50_ms_crun": round(statistics.median(crun), 1),
            "start_p50_ms_gvisor": round(statistics.median(gvisor), 1),
            "gvisor_idle_cpu_percent": round(idle, 2),
            "start_100_s": round(many, 2),
            "agent_rss_mb": round(agent_mb(pid), 1),
            "agent_idle_cpu_percent": round((cpu_seconds(pid) - before) / seconds * 100, 2),
        }


@contextlib.contextmanager
def real_cluster() -> Iterator[tuple[RealCluster, Caller]]:
    """With a tenant that has a class for plain containers."""
    if why := lacking():
        raise SystemExit(f"no pods can be run here: {why}")
    with tempfile.TemporaryDirectory(prefix="bench-pods-") as folder, RealCluster(Path(folder)) as cluster:
        caller = cluster.make_tenant(TENANT)
        for each in (caller, cluster.server.system):
            each.post(CLASS, {"metadata": {"name": "plain"}, "handler": "crun"})
        yield cluster, caller


def explain() -> None:
    os.environ |= {"ALCOVE_LOG_LEVEL": "debug", "ALCOVE_LOG_FORMAT": "json"}
    timeline = Timeline()

    async def follow(cluster: RealCluster, caller: Caller) -> None:
        async with (
            timeline.watching(cluster.server.system.kubeconfig, TENANT),
            watching(caller.kubeconfig) as watch,
        ):
            for prefix, spec in (("crun", {"runtimeClassName": "plain"}), ("gvisor", {})):
                for number in range(EXPLAINED_AFTER + 1):
                    timeline.add(f"{prefix}-{number}", "client create sent")
                    await watch.create(pod(f"{prefix}-{number}", SLEEP, **spec))
                    timeline.add(f"{prefix}-{number}", "client create answered")
                    await watch.ready(f"{prefix}-{number}")

    with real_cluster() as (cluster, caller):
        uvloop.run(follow(cluster, caller))
        timeline.read_agent_log(cluster.nodes[0].data / "agent.log")
    for prefix in ("crun", "gvisor"):
        timeline.print(f"{prefix}-{EXPLAINED_AFTER}")


def real(quick: bool) -> dict[str, float]:
    with real_cluster() as (cluster, caller):
        return uvloop.run(measure(caller.kubeconfig, cluster.agents["n1"].pid, cluster.nodes[0].data, quick))


async def fill(path: Path, count: int) -> float:
    async with watching(path) as watch:
        return await at_once(watch, count)


def hollow(count: int) -> dict[str, float]:
    """Hollow nodes with ten pods each, and how steady all of it is afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-pods-") as name:
        folder = Path(name)
        with LocalServer(folder / "server") as server, LocalControllers(server, folder) as controllers:
            way = server.admin_kubeconfig
            with LocalScheduler(way, folder) as scheduler:
                began = time.perf_counter()
                with LocalAgent(way, folder / "hollow", "hollow", "--hollow", "--count", str(count)) as agent:
                    registered = time.perf_counter() - began
                    caller = _tenant(server)
                    filled = uvloop.run(fill(caller, count * PODS_PER_HOLLOW_NODE))
                    time.sleep(SETTLE_SECONDS)
                    processes = {
                        "apiserver": server.pid,
                        "controllers": controllers.pid,
                        "scheduler": scheduler.pid,
                        "agent": agent.pid,
                    }
                    before = {what: cpu_seconds(pid) for what, pid in processes.items()}
                    time.sleep(STEADY_SECONDS)
                    figures = {
                        "hollow_nodes": float(count),
                        "hollow_pods": float(count * PODS_PER_HOLLOW_NODE),
                        "nodes_registered_s": round(registered, 1),
                        "pods_running_s": round(filled, 1),
                        "agent_rss_mb": round(agent_mb(agent.pid), 1),
                        "apiserver_rss_mb": round(resident_mb(server.pid), 1),
                        "controllers_rss_mb": round(resident_mb(controllers.pid), 1),
                        "scheduler_rss_mb": round(resident_mb(scheduler.pid), 1),
                    }
                    for what, pid in processes.items():
                        figures[f"{what}_filling_cpu_s"] = round(before[what], 1)
                        share = (cpu_seconds(pid) - before[what]) / STEADY_SECONDS * 100
                        figures[f"{what}_idle_cpu_percent"] = round(share, 1)
                    figures["nodes_ready"] = float(_ready_nodes(server))
                    return figures


def _tenant(server: LocalServer) -> Path:
    assert server.system.post("/api/v1/tenants", {"metadata": {"name": TENANT}}).status == 201
    wait_until(lambda: tenant_is_ready(server, TENANT), 60)
    return server.as_tenant(TENANT).kubeconfig


def _ready_nodes(server: LocalServer) -> int:
    nodes = server.system.get("/api/v1/nodes").json["items"]
    return sum(condition(each, "Ready") == "True" for each in nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="within a minute")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--hollow", type=int, default=0, help="so many hollow nodes instead")
    parser.add_argument("--explain", action="store_true", help="what a start waits for instead")
    options = parser.parse_args()
    if options.explain:
        explain()
        return
    figures = hollow(options.hollow) if options.hollow else real(options.quick)
    for name, value in figures.items():
        print(f"{name:28}{value:>12}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
