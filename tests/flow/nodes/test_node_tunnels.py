"""What the API server reaches through a node on a tenant's behalf: what the tenant's pods reach, and nothing else."""

import asyncio
import socket
from functools import partial
from ipaddress import ip_address

import pytest

from alcove.agent.network.network_dialer import OUTER_DEVICE
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.nodenetworks import LabNodeNetwork
from alcove.testing.podprobes import WORLD, reaches
from alcove.testing.probes import tcp_server
from alcove.testing.server import wait_until

SECONDS = 1.0
RED = TenantKey(HOME, TenantId("red"))


def arrives(
    where: LabNodeNetwork, address: str, port: int, network: str = "own", tenant_key: TenantKey = RED
) -> bool:
    """Whether a connection through the node succeeds."""

    async def dial() -> bool:
        try:
            async with asyncio.timeout(SECONDS):
                sock = await where.network.dial_from(tenant_key, network, ip_address(address), port)
        except (OSError, TimeoutError):
            return False
        sock.close()
        return True

    return where.call(dial())


def test_a_tunnel_ends_in_the_tenants_own_network(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    """Both tenants' pods have the same addresses."""
    red, blue = pods["red"][0], pods["blue"][0]
    assert red.address == blue.address
    with tcp_server(blue.namespace, blue.address, 8443):
        assert not arrives(red.node, red.address, 8443)
        wait_until(
            partial(arrives, red.node, red.address, 8443, tenant_key=TenantKey(HOME, TenantId("blue")))
        )
    with tcp_server(red.namespace, red.address, 8443):
        wait_until(partial(arrives, red.node, red.address, 8443))
    for network in ("another", ""):
        assert not arrives(red.node, red.address, 8443, network)
    assert not arrives(cluster.nodes[2], red.address, 8443), "a node without the network"


def test_a_tunnel_does_not_reach_nodes_ring0_or_link_local_addresses(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    """Not even if ring0 lets the tenant's pods out to such ranges."""
    red = pods["red"][0]
    here, other = red.node.node, cluster.nodes[2].node
    api_server, api_port = cluster.server.address
    cidrs = ["203.0.113.0/24", "192.168.0.0/16", "10.0.0.0/8"]
    tenant, system = "/api/v1/tenants/red", cluster.server.system
    network = "/apis/arktos.futurewei.com/v1/tenants/red/networks/own"
    cluster.must(system.patch(tenant, {"spec": {"egress": {"allowedCIDRs": cidrs}}}))
    cluster.must(system.patch(network, {"spec": {"egress": {"enabled": True}}}))
    try:
        with tcp_server(cluster.world, WORLD, 80):
            wait_until(partial(arrives, red.node, WORLD, 80))
        with (
            tcp_server(here.namespace, str(here.address), 10250),
            tcp_server(other.namespace, str(other.address), 10250),
            tcp_server(here.namespace, "127.0.0.1", 10250),
        ):
            for address in (str(here.address), str(other.address), "127.0.0.1", "0.0.0.0", "::1", "::"):
                assert not arrives(red.node, address, 10250), address
        assert not arrives(red.node, api_server, api_port)
        for address in ("169.254.169.254", "169.254.64.0", "169.254.64.1", "fe80::1", "224.0.0.1"):
            assert not arrives(red.node, address, 80), address
    finally:
        cluster.must(system.patch(network, {"spec": {"egress": {"enabled": False}}}))
        cluster.must(system.patch(tenant, {"spec": {"egress": {"allowedCIDRs": []}}}))


def test_a_tunnel_leaves_the_network_as_its_pods_do(cluster: NodeCluster) -> None:
    cluster.make_network("red", "wide", {"type": "vpc", "ip": "10.9.0.0", "prefix": 24})
    pod = cluster.place_pod("red", 0, "wide")
    system, path = cluster.server.system, "/apis/arktos.futurewei.com/v1/tenants/red/networks/wide"

    def enable(value: bool) -> None:
        cluster.must(system.patch(path, {"spec": {"egress": {"enabled": value}}}))

    def allow(*cidrs: str) -> None:
        cluster.must(system.patch("/api/v1/tenants/red", {"spec": {"egress": {"allowedCIDRs": list(cidrs)}}}))

    def both() -> tuple[bool, bool]:
        return reaches(pod, WORLD, 80), arrives(pod.node, WORLD, 80, "wide")

    with tcp_server(cluster.world, WORLD, 80):
        assert both() == (False, False)
        allow("203.0.113.0/24")
        enable(True)
        wait_until(lambda: both() == (True, True))
        allow()
        wait_until(lambda: both() == (False, False))
        allow("203.0.113.0/24")
        wait_until(lambda: both() == (True, True))
        enable(False)
        wait_until(lambda: both() == (False, False))
    allow()
    cluster.remove_pod(pod)


@pytest.mark.parametrize("egress", [False, True])
def test_the_gateways_rules_hold_without_the_agents_check(cluster: NodeCluster, egress: bool) -> None:
    """The world's address is not public here, and ring0 does not allow it."""
    name = f"rules{int(egress)}"
    spec = {"type": "vpc", "ip": "10.10.0.0", "prefix": 24, "egress": {"enabled": egress}}
    cluster.make_network("red", name, spec)
    pod = cluster.place_pod("red", 0, name)
    view = pod.node.network._ready_view(RED, name)
    assert view is not None and view.has_egress() == egress

    async def dial() -> socket.socket | None:
        try:
            async with asyncio.timeout(SECONDS):
                dialer = pod.node.network._reconciler.dialer
                return await dialer.connect(view.backing.vni, "", WORLD, 80, OUTER_DEVICE)
        except (OSError, TimeoutError):
            return None

    with tcp_server(cluster.world, WORLD, 80):
        assert pod.node.call(dial()) is None
    cluster.remove_pod(pod)
