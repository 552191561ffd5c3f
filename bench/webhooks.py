"""Webhook calls: `python -m bench.webhooks [--quick]`.

The time of one call to a webhook over a kept connection: directly, as to a URL, and through a node's agent, as to a
service. API server's side, agent and webhook are processes of their own; the webhook allows what it is asked.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import multiprocessing
import ssl
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import orjson
import uvloop

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server.callers import AuthorizedCallers
from alcove.agent.server.server import AgentServer
from alcove.api import destinations
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.apiserver.outbound.resolver import OutboundResolver
from alcove.apiserver.outbound.tunnels import ServiceTunnels
from alcove.apiserver.outbound.webhook_dialer import WebhookDialer
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.apiserver.streams.agents import AgentConnector
from alcove.client.keys import HOME
from alcove.testing.loopback_pods import LoopbackPod
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.nodeserver import LabPods, serving_certificate
from alcove.testing.webhook_server import issue

TENANT = TenantId("acme")
NAME = "hook.default.svc"
POD_ADDRESS = "10.0.0.5"
POD: Object = {
    "metadata": {"name": "p", "namespace": "default", "uid": "u"},
    "spec": {"nodeName": "n"},
    "status": {"phase": "Running", "podIP": POD_ADDRESS, "podIPs": [{"ip": POD_ADDRESS}]},
}


class _Webhook(asyncio.Protocol):
    """Answers each request as soon as its body is complete."""

    def __init__(self) -> None:
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) if separator else 1
        if len(body) < length:
            return
        self._received = b""
        review = orjson.loads(body)
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        answer = orjson.dumps(review)
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))


def serve_webhook(pair: Path, ready: Connection) -> None:
    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair)
        server = await asyncio.get_running_loop().create_server(_Webhook, "127.0.0.1", 0, ssl=context)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


def serve_agent(pki: Path, pair: Path, ready: Connection) -> None:
    async def main() -> None:
        pods = LabPods()
        key = PodKey(HOME, TENANT, "default", "p", "u")
        pods.add(LoopbackPod(key, POD, HollowRuntime(), ContainerId("none"), dialled=[]))
        callers = AuthorizedCallers(pair)
        callers.trust(HOME, (pki / "ca.crt").read_bytes())
        async with AgentServer(pods, callers, "127.0.0.1", 0) as agent:
            ready.send(agent.port)
            await asyncio.Event().wait()

    uvloop.run(main())


def reader_of(agent_port: int, webhook_port: int) -> MemoryReader:
    reader = MemoryReader()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": agent_port}},
    }
    reader.put(SYSTEM, NODES, {"metadata": {"name": "n"}, "status": status})
    reader.put(TENANT, PODS, POD)
    place = {"name": "hook", "namespace": "default"}
    reader.put(TENANT, SERVICES, {"metadata": place, "spec": {"ports": [{"port": 443}]}})
    endpoint = {"addresses": [POD_ADDRESS], "targetRef": {"kind": "Pod", "name": "p", "uid": "u"}}
    slice_ = {
        "metadata": {**place, "labels": {"kubernetes.io/service-name": "hook"}},
        "ports": [{"port": webhook_port}],
        "endpoints": [endpoint],
    }
    reader.put(TENANT, ENDPOINT_SLICES, slice_)
    return reader


async def measure(webhooks: Webhooks, clients: dict[str, Object], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of calls, of each client in turn."""
    data = {f"key-{number}": "x" * 20 for number in range(40)}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "1", "object": data},
    }
    body = orjson.dumps(review)
    took: dict[str, list[float]] = {name: [] for name in clients}
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for name, client in clients.items():
            started = time.perf_counter()
            async with webhooks.call(TENANT, client, body, timeout_seconds=10):
                pass
            took[name].append((time.perf_counter() - started) * 1000)
    return {name: times[5:] for name, times in took.items()}


def run(folder: Path, seconds: float) -> dict[str, list[float]]:
    pki = folder / "pki"
    authority = CertificateAuthority.open(pki, time.time())
    certificate, key = issue((NAME,))
    pair = folder / "webhook.pem"
    pair.write_bytes(certificate + key)
    processes, ports = [], []
    for target, paths in (
        (serve_agent, (pki, serving_certificate(pki, "n", folder))),
        (serve_webhook, (pair,)),
    ):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=target, args=(*paths, there), daemon=True
        )
        process.start()
        processes.append(process)
        ports.append(here.recv())
    bundle = base64.b64encode(certificate).decode()
    clients: dict[str, Object] = {
        "direct": {"url": f"https://127.0.0.1:{ports[1]}/", "caBundle": bundle},
        "through a node": {"service": {"namespace": "default", "name": "hook"}, "caBundle": bundle},
    }

    async def main() -> dict[str, list[float]]:
        reader = reader_of(*ports)
        direct = DirectDialer(NodeAddresses(reader), destinations.networks(["127.0.0.0/8"]))
        tunnels = ServiceTunnels(reader, AgentConnector(folder, authority, time.time), direct)
        webhooks = Webhooks(WebhookDialer(OutboundResolver(reader), direct, tunnels))
        try:
            return await measure(webhooks, clients, seconds)
        finally:
            webhooks.close()

    try:
        return uvloop.run(main())
    finally:
        for process in processes:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        took = run(Path(folder), 3.0 if arguments.quick else 15.0)
    medians = {name: statistics.median(times) for name, times in took.items()}
    for name, times in took.items():
        p99 = statistics.quantiles(times, n=100)[98]
        print(f"webhook call, {name}: p50 {medians[name]:.2f} ms, p99 {p99:.2f} ms, {len(times)} calls")
    print(f"through a node / direct: {medians['through a node'] / medians['direct']:.2f} (bound: 1.5)")


if __name__ == "__main__":
    main()
