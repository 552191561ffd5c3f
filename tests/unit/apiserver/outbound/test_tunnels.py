"""Which nodes lead to a service's endpoints, and in which order they are tried."""

import asyncio
from ipaddress import ip_address
from typing import Any

import pytest

from alcove.api import destinations
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import NODES, PODS
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.resolver import ResolvedEndpoint, ResolvedService, ServiceBackend
from alcove.apiserver.outbound.tunnels import ATTEMPTS_MAX, TunnelRoute
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_calls import service_tunnels

ACME, OTHER = TenantId("acme"), TenantId("other")


def pod(name: str, node: str, ip: str, network: str = "default", phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "network": network},
        "status": {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}]},
    }


def backend(ip: str, pod: str = "", uid: str = "") -> ServiceBackend:
    return ServiceBackend(ip_address(ip), 8443, pod, uid)


def routes(
    reader: MemoryReader, *backends: ServiceBackend, tenant: TenantId = ACME, allowed: tuple[str, ...] = ()
) -> list[TunnelRoute | ResolvedEndpoint]:
    tunnels = service_tunnels(reader, destinations.networks(allowed))
    return tunnels._routes(tenant, "n", ResolvedService("default", backends))


async def test_a_pod_is_reached_by_its_own_node() -> None:
    reader = MemoryReader()
    reader.put(ACME, PODS, pod("p", "node-1", "10.0.0.1"))
    for uid in ("", "uid-p"):
        [route] = routes(reader, backend("10.0.0.1", "p", uid))
        assert isinstance(route, TunnelRoute)
        assert (route.node, route.path) == ("node-1", "/pods/system/acme/n/p/uid-p/proxy?port=8443")


@pytest.mark.parametrize(
    ("ip", "name", "uid"),
    [
        ("10.0.0.9", "p", "uid-p"),
        ("10.0.0.1", "ghost", ""),
        ("10.0.0.1", "p", "another"),
        ("10.0.0.1", "", ""),
    ],
)
async def test_an_address_that_is_not_the_named_pods_is_reached_from_the_network(
    ip: str, name: str, uid: str
) -> None:
    reader = MemoryReader()
    reader.put(ACME, PODS, pod("p", "node-1", "10.0.0.1"))
    [route] = routes(reader, backend(ip, name, uid))
    assert isinstance(route, TunnelRoute)
    assert route.path == f"/networks/system/acme/default?address={ip}&port=8443"


async def test_only_nodes_that_have_the_network_are_ways_into_it() -> None:
    reader = MemoryReader()
    reader.put(ACME, PODS, pod("a", "node-1", "10.0.0.1"))
    reader.put(ACME, PODS, pod("b", "node-2", "10.0.0.2", network="another"))
    reader.put(ACME, PODS, pod("c", "node-3", "10.0.0.3", phase="Succeeded"))
    reader.put(ACME, PODS, pod("d", "", "", phase="Pending"))
    reader.put(OTHER, PODS, pod("e", "node-4", "10.0.0.5"))
    [route] = routes(reader, backend("192.0.2.1"))
    assert isinstance(route, TunnelRoute) and route.node == "node-1"
    with pytest.raises(WebhookError, match=r'192.0.2.1:8443: no node has a pod in network "default"'):
        routes(MemoryReader(), backend("192.0.2.1"))


async def test_an_address_of_a_pod_that_is_not_named_is_reached_by_that_pods_node() -> None:
    reader = MemoryReader()
    for number in range(8):
        reader.put(ACME, PODS, pod(f"p{number}", f"node-{number}", f"10.0.0.{number}"))
    [route] = routes(reader, backend("10.0.0.5"))
    assert isinstance(route, TunnelRoute) and route.node == "node-5"
    assert len(routes(reader, backend("192.0.2.1"))) == ATTEMPTS_MAX


async def test_ring0_and_what_it_allows_are_reached_directly() -> None:
    reader = MemoryReader()
    direct = ResolvedEndpoint((ip_address("192.0.2.1"),), 8443)
    assert routes(reader, backend("192.0.2.1"), tenant=SYSTEM) == [direct]
    assert routes(reader, backend("192.0.2.1"), allowed=("192.0.2.0/24",)) == [direct]
    reader.put(SYSTEM, PODS, pod("p", "node-1", "10.0.0.1"))
    [route] = routes(reader, backend("10.0.0.1", "p"), tenant=SYSTEM)
    assert isinstance(route, TunnelRoute), "a pod of ring0 is in a network too"


async def test_a_node_that_could_not_be_reached_is_tried_last_for_a_while() -> None:
    reader = MemoryReader()
    # Nothing listens at the node's port, so the connection is refused.
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }
    reader.put(SYSTEM, NODES, {"metadata": {"name": "dead"}, "status": status})
    reader.put(ACME, PODS, pod("a", "dead", "10.0.0.1"))
    reader.put(ACME, PODS, pod("b", "alive", "10.0.0.2"))
    tunnels = service_tunnels(reader)
    backends = (backend("10.0.0.1", "a"), backend("10.0.0.2", "b"))
    service = ResolvedService("default", backends)
    with pytest.raises(WebhookError, match='node "alive" is not registered'):
        await tunnels.dial(ACME, "n", service)

    def order() -> list[str]:
        found = tunnels._routes(ACME, "n", service)
        return [route.node for route in found if isinstance(route, TunnelRoute)]

    assert order() == ["alive", "dead"]
    tunnels._avoided["dead"] = asyncio.get_running_loop().time()
    assert order() == ["dead", "alive"]
