"""The API server: `python -m bench.apiserver [--quick] [--etcd] [--json FILE]`.

Everything over TLS with client certificates and RBAC. The peers are measured in the same run with the
same load: a bare aiohttp application returning the same bytes, and kube-apiserver with etcd where
KUBEBUILDER_ASSETS names them. With `--etcd` ours has a member of etcd as its store, as theirs has, and only what
depends on the store is measured: `etcd_create_per_s`, `etcd_get_per_s`, `etcd_list_5000_ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import os
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import orjson
import uvloop
from msgspec import Struct

from alcove.testing.etcd import EtcdCluster
from alcove.testing.kube_apiserver import kubernetes_assets
from bench import apiserver_services, load
from bench.servers import Alcove, Bare, Kubernetes

HOST = "127.0.0.1"
HEADERS = {"Accept": "application/json", "User-Agent": "bench"}
PODS = "/api/v1/namespaces/default/pods"
CONNECTIONS = 16
LISTED = 5000
TENANTS = 1000


class Scale(Struct, frozen=True):
    """How long and how much: `--quick` ends within a minute, the other is steadier."""

    seconds: float
    rounds: int
    lists: int
    watch_seconds: float


QUICK = Scale(seconds=2.0, rounds=2, lists=10, watch_seconds=4.0)
FULL = Scale(seconds=6.0, rounds=5, lists=40, watch_seconds=20.0)


def pod(name: str, label: str) -> bytes:
    """About 1.7 KB as stored, as a Deployment's pod is."""
    container = {
        "name": "app",
        "image": "registry.example/shop/frontend:v1.27.3",
        "ports": [{"containerPort": 8080, "name": "http"}],
        "env": [{"name": "MODE", "value": "production"}, {"name": "LOG_LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
    }
    metadata = {"name": name, "labels": {"app": label, "tier": "front"}}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


class Target(Struct, frozen=True):
    port: int
    tls: ssl.SSLContext

    async def run(self, connections: int, seconds: float, requests: Any) -> load.Result:
        result = await load.run(HOST, self.port, self.tls, connections, seconds, requests)
        if result.errors:
            raise SystemExit(f"{result.errors} of {result.requests} requests failed")
        return result


def get(path: str) -> bytes:
    return load.request("GET", path, HEADERS)


def post(path: str, body: bytes) -> bytes:
    return load.request("POST", path, HEADERS, body)


def creates(names: Iterator[str], label: str = "web") -> Any:
    return lambda: (post(PODS, pod(name, label)) for name in names)


async def prepare(target: Target) -> None:
    account = orjson.dumps({"metadata": {"name": "default"}})
    client = await load.connect(HOST, target.port, target.tls)
    await client.send(post("/api/v1/namespaces", orjson.dumps({"metadata": {"name": "default"}})))
    await client.send(post("/api/v1/namespaces/default/serviceaccounts", account))
    client.close()


async def measure_create(target: Target, scale: Scale, mark: str) -> float:
    names = (f"{mark}-{number}" for number in itertools.count())
    result = await target.run(CONNECTIONS, scale.seconds, creates(names))
    return result.per_s


async def measure_services(target: Target, scale: Scale) -> dict[str, float]:
    """Creates per second of ConfigMaps, and of services with their addresses."""
    client = await load.connect(HOST, target.port, target.tls)
    await client.send(post(apiserver_services.NETWORKS, orjson.dumps(apiserver_services.NETWORK)))
    client.close()

    async def rate(requests: Any) -> float:
        return (await target.run(CONNECTIONS, scale.seconds, requests)).per_s

    return await apiserver_services.measure(rate, post, scale.rounds)


async def measure_get(target: Target, scale: Scale, name: str) -> float:
    request = get(f"{PODS}/{name}")
    result = await target.run(CONNECTIONS, scale.seconds, lambda: itertools.repeat(request))
    return result.per_s


async def fill(target: Target, count: int) -> None:
    """Exactly `count` pods in `default`, ten of them labelled apart."""
    client = await load.connect(HOST, target.port, target.tls)
    await client.send(load.request("DELETE", PODS, HEADERS))
    client.close()
    names = iter([f"listed-{number}" for number in range(count - 10)])
    await target.run(CONNECTIONS, 120, creates(names))
    rare = iter([f"rare-{number}" for number in range(10)])
    await target.run(1, 60, creates(rare, "rare"))


async def measure_list(target: Target, scale: Scale, query: str = "") -> float:
    """Median milliseconds, one connection."""
    source = [get(PODS + query)] * scale.lists
    result = await target.run(1, 120, lambda: iter(source))
    return statistics.median(result.latencies_ms)


# Watches


class Watching(asyncio.Protocol):
    """One watch connection that notes when each event arrived."""

    def __init__(self, request: bytes, arrivals: list[tuple[str, float]]) -> None:
        self._request = request
        self._arrivals = arrivals
        self._rest = b""
        self.started = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not self.started.done():
            self.started.set_result(None)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            at = line.find(b'"sent":"')
            if at >= 0:
                self._arrivals.append((line[at + 8 : line.index(b'"', at + 8)].decode(), now))


async def make_tenants(target: Target) -> None:
    """Tenants with what their controller gives each, over the API."""
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "User", "name": "admin"}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "admin-role"}

    def requests() -> Iterator[bytes]:
        for number in range(TENANTS):
            name = f"t{number}"
            base = f"/api/v1/tenants/{name}"
            rbac = f"/apis/{group}/v1/tenants/{name}"
            yield post("/api/v1/tenants", orjson.dumps({"metadata": {"name": name}}))
            for namespace in ("default", "kube-system", "kube-public"):
                yield post(f"{base}/namespaces", orjson.dumps({"metadata": {"name": namespace}}))
                account = orjson.dumps({"metadata": {"name": "default"}})
                yield post(f"{base}/namespaces/{namespace}/serviceaccounts", account)
            role = {"metadata": {"name": "admin-role"}, "rules": [everything]}
            yield post(f"{rbac}/clusterroles", orjson.dumps(role))
            binding = {
                "metadata": {"name": "admin-role-binding"},
                "roleRef": reference,
                "subjects": [subject],
            }
            yield post(f"{rbac}/clusterrolebindings", orjson.dumps(binding))
            network = {"metadata": {"name": "default"}, "spec": {"type": "flat"}}
            yield post(f"{base}/networks", orjson.dumps(network))

    await target.run(1, 300, requests)


async def measure_watches(target: Target, scale: Scale, rate: int = 500) -> float:
    """p99 milliseconds from sending a write to its event, over 1,000 watchers on 1,000 tenants."""
    loop = asyncio.get_running_loop()
    arrivals: list[tuple[str, float]] = []
    watchers: list[Watching] = []
    for number in range(TENANTS):
        path = f"/api/v1/tenants/t{number}/namespaces/default/configmaps?watch=true&timeoutSeconds=600"
        _, watcher = await loop.create_connection(
            partial(Watching, get(path), arrivals),
            HOST,
            target.port,
            ssl=target.tls,
            server_hostname="localhost",
        )
        watchers.append(watcher)
    await asyncio.gather(*(watcher.started for watcher in watchers))
    # A collection of all that this process has would be measured as a delay of the server.
    gc.collect()
    gc.freeze()
    sent: dict[str, float] = {}
    writers = [await load.connect(HOST, target.port, target.tls) for _ in range(8)]
    total = int(rate * scale.watch_seconds)
    began = time.perf_counter()

    async def write(index: int) -> None:
        for number in range(index, total, len(writers)):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            name = f"m{number}"
            path = f"/api/v1/tenants/t{number % TENANTS}/namespaces/default/configmaps"
            body = orjson.dumps({"metadata": {"name": name}, "data": {"sent": name}})
            sent[name] = time.perf_counter()
            await writers[index].send(post(path, body))

    await asyncio.gather(*(write(index) for index in range(len(writers))))
    for _ in range(100):
        if len(arrivals) >= total:
            break
        await asyncio.sleep(0.05)
    for watcher in watchers:
        watcher.transport.abort()
    for writer in writers:
        writer.close()
    if len(arrivals) < total:
        raise SystemExit(f"{total - len(arrivals)} of {total} events did not arrive")
    delays = sorted((at - sent[name]) * 1000 for name, at in arrivals)
    return delays[int(len(delays) * 0.99)]


async def measure_flood(alcove: Alcove, target: Target, scale: Scale) -> float:
    """p99 milliseconds of one tenant's GETs while another floods with 64 connections of LIST."""
    flooder = Target(alcove.port, alcove.caller("t0", "admin", ()))
    neighbour = Target(alcove.port, alcove.caller("t1", "admin", ()))
    base = "/api/v1/tenants/t0/namespaces/default/configmaps"
    names = iter(range(2000))
    await target.run(
        CONNECTIONS,
        60,
        lambda: (
            post(base, orjson.dumps({"metadata": {"name": f"f{n}"}, "data": {"x": "y" * 1000}}))
            for n in names
        ),
    )
    # In a process of its own: what one measures here must not wait for the flood's own reading.
    flood = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.flood",
        str(flooder.port),
        str(alcove.pair("t0", "admin")),
        str(scale.seconds + 2),
        base,
    )
    await asyncio.sleep(1.5)
    request = get("/api/v1/namespaces/default")
    result = await neighbour.run(1, scale.seconds, lambda: itertools.repeat(request))
    await flood.wait()
    return result.percentile_ms(0.99)


# Runs


async def alcove_figures(scale: Scale, directory: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    with Alcove(directory) as alcove:
        target = Target(alcove.port, alcove.caller())
        await prepare(target)
        figures["rss_empty_mb"] = alcove.resident_mb()
        client = await load.connect(HOST, target.port, target.tls)
        await client.send(post(PODS, pod("seen", "web")))
        client.close()
        body = await fetch(target, f"{PODS}/seen")
        gets, bares, made = [], [], []
        with Bare(directory, body, alcove.server.directory / "pki") as bare:
            plain = Target(bare.port, target.tls)
            for number in range(scale.rounds):
                bares.append(await measure_get(plain, scale, "seen"))
                gets.append(await measure_get(target, scale, "seen"))
                made.append(await measure_create(target, scale, f"made{number}"))
        figures["get_per_s"] = statistics.median(gets)
        figures["bare_aiohttp_per_s"] = statistics.median(bares)
        figures["create_per_s"] = statistics.median(made)
        figures.update(await measure_services(target, scale))
    with Alcove(directory / "listed") as alcove:
        target = Target(alcove.port, alcove.caller())
        await prepare(target)
        before = alcove.resident_mb()
        await fill(target, LISTED)
        figures["rss_5000_pods_mb"] = alcove.resident_mb() - before
        figures["list_5000_ms"] = await measure_list(target, scale)
        figures["list_selector_10_ms"] = await measure_list(target, scale, "?labelSelector=app%3Drare")
    with Alcove(directory / "tenants") as alcove:
        target = Target(alcove.port, alcove.caller())
        await prepare(target)
        before = alcove.resident_mb()
        await make_tenants(target)
        figures["rss_per_tenant_kb"] = (alcove.resident_mb() - before) * 1024 / TENANTS
        figures["watch_1000_p99_ms"] = await measure_watches(target, scale)
        figures["flooded_neighbour_get_p99_ms"] = await measure_flood(alcove, target, scale)
    return figures


async def fetch(target: Target, path: str) -> bytes:
    reader, writer = await asyncio.open_connection(
        HOST, target.port, ssl=target.tls, server_hostname="localhost"
    )
    writer.write(load.request("GET", path, {**HEADERS, "Connection": "close"}))
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def etcd_figures(scale: Scale, directory: Path) -> dict[str, float]:
    with EtcdCluster(directory / "etcd") as etcd, Alcove(directory, options=etcd.options()) as alcove:
        target = Target(alcove.port, alcove.caller())
        await prepare(target)
        figures = await store_figures(target, scale)
    return {f"etcd_{name}": value for name, value in figures.items()}


async def store_figures(target: Target, scale: Scale) -> dict[str, float]:
    """Of a server that has nothing yet: creates and GETs per second, and a list."""
    figures = {"create_per_s": await measure_create(target, scale, "made")}
    client = await load.connect(HOST, target.port, target.tls)
    await client.send(post(PODS, pod("seen", "web")))
    client.close()
    figures["get_per_s"] = await measure_get(target, scale, "seen")
    await fill(target, LISTED)
    figures["list_5000_ms"] = await measure_list(target, scale)
    return figures


async def kubernetes_figures(scale: Scale, directory: Path, assets: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    with Kubernetes(directory, assets) as kubernetes:
        target = Target(kubernetes.port, kubernetes.caller())
        await prepare(target)
        figures["kube_rss_empty_mb"] = kubernetes.resident_mb()
        found = await store_figures(target, scale)
        figures |= {f"kube_{name}": value for name, value in found.items()}
    return figures


GOALS = {
    "get_per_s": "≥ 0.5 of bare aiohttp",
    "bare_aiohttp_per_s": "",
    "create_per_s": "≥ 3,000",
    "etcd_create_per_s": "≥ 1.5 of kube-apiserver",
    "create_configmap_per_s": "",
    "create_service_per_s": "≥ 0.9 of ConfigMaps",
    "list_5000_ms": "≤ 0.1 of kube-apiserver",
    "list_selector_10_ms": "< 5",
    "watch_1000_p99_ms": "< 50",
    "rss_empty_mb": "< 90",
    "rss_5000_pods_mb": "≤ 100 more",
    "rss_per_tenant_kb": "≤ 100",
    "flooded_neighbour_get_p99_ms": "< 50",
}


def show(figures: dict[str, float]) -> None:
    for name, value in figures.items():
        print(f"{name:34}{value:12,.1f}   {GOALS.get(name, '')}")
    if "etcd_create_per_s" in figures:
        _compare(figures, "etcd_")
        return
    print(f"{'get / bare aiohttp':34}{figures['get_per_s'] / figures['bare_aiohttp_per_s']:12.2f}")
    services = figures["create_service_per_s"] / figures["create_configmap_per_s"]
    print(f"{'services / ConfigMaps':34}{services:12.2f}")
    _compare(figures, "")


def _compare(figures: dict[str, float], prefix: str) -> None:
    """Prints ours in relation to kube-apiserver's, if that was measured."""
    for name in ("get_per_s", "create_per_s", "list_5000_ms"):
        if f"kube_{name}" in figures:
            ratio = figures[prefix + name] / figures[f"kube_{name}"]
            print(f"{prefix + name + ' / kube-apiserver':34}{ratio:12.3f}")


async def main(scale: Scale, *, is_on_etcd: bool) -> dict[str, float]:
    assets = kubernetes_assets()
    if assets is not None:
        # Both have the same etcd.
        os.environ["PATH"] = f"{assets}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        figures = await (etcd_figures if is_on_etcd else alcove_figures)(scale, directory)
        if assets is not None:
            figures.update(await kubernetes_figures(scale, directory, assets))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="end within a minute")
    parser.add_argument("--etcd", action="store_true", help="with etcd as the store")
    parser.add_argument("--json", type=Path, help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    found = uvloop.run(main(QUICK if arguments.quick else FULL, is_on_etcd=arguments.etcd))
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + "\n")
