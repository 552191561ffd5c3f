"""Ingress as a whole: API server, controllers, two nodes with their networks; a client of the world asks by name."""

import asyncio
import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from alcove.agent.ingress.start import bind, serve
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.controllers.all import CONTROLLERS
from alcove.controllers.ingress import IngressController
from alcove.dataplane.namespaces import inside
from alcove.testing.agent import node_kubeconfig
from alcove.testing.certificates import self_signed
from alcove.testing.controllers import RunningControllers
from alcove.testing.nodecluster import AttachedPod, NodeCluster, node_cluster
from alcove.testing.nodenetworks import LabNodeNetwork
from alcove.testing.nodes import lacking
from alcove.testing.probes import connect, tcp_server
from alcove.testing.server import LocalServer, wait_until

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]

TENANTS = ("red", "blue")
DOMAINS = {
    "red": ["red.example", "shown.example", "wanted.example"],
    "blue": ["blue.example", "*.secure.example"],
}
WORLD = "203.0.113.5"
RANGE = {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}


@contextmanager
def serving(node: LabNodeNetwork, server: LocalServer) -> Iterator[None]:
    """The node's ingress, with the node's own credentials, on the node's loop."""
    begun: list[asyncio.Task[None]] = []

    async def run() -> None:
        transport = HttpPool(kubeconfig.load(node_kubeconfig(server, node.name)))
        with inside(node.node.namespace):
            plain, secure = (bind(str(node.node.address), port) for port in (80, 443))
        try:
            async with Planes() as planes:
                planes.join(HOME, transport)
                await serve(planes, node.network, lambda *_: None, plain, secure)
        finally:
            await transport.close()

    async def begin() -> None:
        begun.append(asyncio.create_task(run()))

    async def end() -> None:
        begun[0].cancel()
        await asyncio.wait(begun)

    node.call(begin())
    try:
        yield
    finally:
        node.call(end())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    directory: Path = tmp_path_factory.mktemp("ingress-nodes")
    with ExitStack() as stack:
        made = stack.enter_context(node_cluster(directory, 2, f"{WORLD}/24"))
        if IngressController not in CONTROLLERS:
            stack.enter_context(RunningControllers(made.server.admin_kubeconfig, (IngressController,)))
        for node in made.nodes.all:
            stack.enter_context(serving(node, made.server))
        for tenant in TENANTS:
            made.make_tenant(tenant, RANGE)
            grants = {"spec": {"domains": DOMAINS[tenant]}}
            made.must(made.server.system.patch(f"/api/v1/tenants/{tenant}", grants))
        yield made


@pytest.fixture(scope="module")
def pods(cluster: NodeCluster) -> Iterator[dict[str, list[AttachedPod]]]:
    """Of each tenant one on either node, behind the service `web`; they say who they are."""
    found = {tenant: [cluster.place_pod(tenant, node) for node in (0, 1)] for tenant in TENANTS}
    with ExitStack() as stack:
        for tenant in TENANTS:
            for pod in found[tenant]:
                path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{pod.key.name}"
                cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"app": "web"}}}))
                stack.enter_context(answering(pod))
            cluster.make_service(tenant, "web", selector={"app": "web"})
        yield found


@contextmanager
def answering(pod: AttachedPod) -> Iterator[None]:
    with tcp_server(pod.namespace, pod.address, 8080) as server:

        def serve_all() -> None:
            while True:
                try:
                    accepted, _ = server.accept()
                except OSError:
                    return
                with accepted:
                    accepted.recv(4096)
                    body = f"{pod.key.tenant}/{pod.address}".encode()
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    accepted.sendall(head.encode() + body)

        thread = threading.Thread(target=serve_all, daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        thread.join(2)


def make_ingress(cluster: NodeCluster, tenant: str, name: str, host: str, secret: str = "") -> str:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    spec: Object = {"ingressClassName": "alcove", "rules": [{"host": host, "http": {"paths": paths}}]}
    if secret:
        spec["tls"] = [{"hosts": [host], "secretName": secret}]
    path = f"/apis/networking.k8s.io/v1/tenants/{tenant}/namespaces/default/ingresses"
    metadata = {"name": name, "labels": {"arktos.futurewei.com/network": "own"}}
    cluster.must(cluster.server.system.post(path, {"metadata": metadata, "spec": spec}))
    return f"{path}/{name}"


def ask(cluster: NodeCluster, node: int, host: str, trusted: bytes = b"") -> str:
    """What a client gets from a node by that host name, with TLS if it trusts somebody; empty: nothing."""
    address = str(cluster.nodes[node].node.address)
    client = connect(cluster.world, address, 443 if trusted else 80)
    if client is None:
        return ""
    try:
        if trusted:
            client = ssl.create_default_context(cadata=trusted.decode()).wrap_socket(
                client, server_hostname=host
            )
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while data := client.recv(4096):
            answer += data
    except OSError:
        return ""
    finally:
        client.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200") else head.decode().split(" ")[1]


def test_a_name_leads_to_its_tenants_pods_by_every_node_it_is_on(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    """Two tenants with the same addresses, each by its own name."""
    for tenant in TENANTS:
        make_ingress(cluster, tenant, "web", f"{tenant}.example")
    for tenant in TENANTS:
        wanted = {f"{tenant}/{pod.address}" for pod in pods[tenant]}
        for node in (0, 1):
            answers: set[str] = set()

            def all_heard(
                node: int = node, tenant: str = tenant, answers: set[str] = answers, wanted: set[str] = wanted
            ) -> bool:
                answer = ask(cluster, node, f"{tenant}.example")
                if "/" in answer:
                    answers.add(answer)
                return answers == wanted

            wait_until(all_heard)


def test_its_status_has_the_addresses(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
    path = make_ingress(cluster, "red", "shown", "shown.example")
    own = sorted(str(pod.node.node.address) for pod in pods["red"])

    def addresses() -> list[str]:
        found = cluster.server.system.get(path).json
        return sorted(
            each["ip"] for each in found.get("status", {}).get("loadBalancer", {}).get("ingress") or ()
        )

    wait_until(lambda: addresses() == own)


def test_another_tenant_does_not_get_a_name_that_it_was_not_granted(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    make_ingress(cluster, "red", "first", "wanted.example")
    for number in (0, 1):
        wait_until(lambda: ask(cluster, number, "wanted.example").startswith("red/"))  # noqa: B023 - called at once
    second = make_ingress(cluster, "blue", "second", "wanted.example")
    events = "/api/v1/tenants/blue/namespaces/default/events"
    wait_until(
        lambda: (
            "HostNotGranted" in {each["reason"] for each in cluster.server.system.get(events).json["items"]}
        )
    )
    assert all(ask(cluster, node, "wanted.example").startswith("red/") for node in (0, 1) for _ in range(4))
    cluster.must(cluster.server.system.delete(second))


def test_https_with_the_tenants_own_certificate(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    chain, key = self_signed("shop.secure.example")
    data = {"tls.crt": base64.b64encode(chain).decode(), "tls.key": base64.b64encode(key).decode()}
    secret = {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "data": data}
    path = "/api/v1/tenants/blue/namespaces/default/secrets"
    cluster.must(cluster.server.system.post(path, secret))
    make_ingress(cluster, "blue", "secure", "shop.secure.example", "cert")
    wait_until(lambda: ask(cluster, 1, "shop.secure.example", chain).startswith("blue/"))


def test_what_nobody_has_is_not_found(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
    assert ask(cluster, 0, "nobody.example") == "404"
