"""Nodes of `alcove up` on their underlay: they reach each other, the API and hosts outside, and nothing else of
this machine; removal leaves the machine as it was.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from alcove.dataplane import namespaces
from alcove.processes.machine import cluster, cluster_numbers, underlay
from alcove.processes.machine.cluster import LocalCluster, LocalNode
from alcove.testing.machine import FORWARDING, traces
from alcove.testing.probes import TIMEOUT, connect, ping, tcp_server, tcp_talks

pytestmark = pytest.mark.root


def made(data: Path, nodes: int) -> LocalCluster:
    data.mkdir()
    requested = LocalCluster(data=data, name="c", number=cluster.first_number(data), port=6443, nodes=nodes)
    requested.save()
    claimed = cluster_numbers.claim(requested)
    claimed.save()
    underlay.make(claimed)
    return claimed


def gone(given: LocalCluster) -> None:
    underlay.remove(given)
    cluster_numbers.release(given)


@pytest.fixture
def one(tmp_path: Path) -> Iterator[LocalCluster]:
    given = made(tmp_path / "one", 2)
    yield given
    gone(given)


def inside_of(node: LocalNode, stack: ExitStack) -> int:
    descriptor = namespaces.open_named(node.namespace)
    assert descriptor is not None
    stack.callback(os.close, descriptor)
    return descriptor


def test_nodes_reach_each_other_and_this_machine(one: LocalCluster) -> None:
    with ExitStack() as stack:
        first, second = (inside_of(node, stack) for node in one.all_nodes())
        assert ping(first, str(one.node(2).address))
        assert ping(second, str(one.gateway))


def test_nodes_reach_the_api_and_no_other_service_of_this_machine(one: LocalCluster) -> None:
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    with ExitStack() as stack:
        stack.callback(os.close, own)
        node = inside_of(one.node(1), stack)
        api = stack.enter_context(tcp_server(own, str(one.gateway), one.port))
        other = stack.enter_context(tcp_server(own, str(one.gateway), one.port + 1))
        assert tcp_talks(node, str(one.gateway), one.port, api)
        assert connect(node, str(one.gateway), one.port + 1, timeout=0.3) is None
        assert other.getsockname()[1] == one.port + 1


def test_nodes_reach_a_registry_of_this_machine_that_ring0_has_named(one: LocalCluster) -> None:
    """At the address of the underlay only, which exits keep from tenants' pods."""
    address, port = str(one.gateway), one.port + 2
    named = (f"{address}:{port}", f"192.0.2.77:{port + 1}")
    underlay.make(replace(one, insecure_registries=named))
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    with ExitStack() as stack:
        stack.callback(os.close, own)
        node = inside_of(one.node(1), stack)
        registry = stack.enter_context(tcp_server(own, address, port))
        stack.enter_context(tcp_server(own, address, port + 1))
        assert tcp_talks(node, address, port, registry)
        assert connect(node, address, port + 1, timeout=0.3) is None
        api = stack.enter_context(tcp_server(own, address, one.port))
        assert tcp_talks(node, address, one.port, api), "as before"


def test_nodes_have_no_ipv6_on_the_uplink(one: LocalCluster) -> None:
    interfaces = Path("/proc/net/if_inet6")
    assert not interfaces.exists() or one.uplink not in interfaces.read_text()


def test_clusters_do_not_reach_each_other(one: LocalCluster, tmp_path: Path) -> None:
    two = made(tmp_path / "two", 1)
    try:
        assert two.token != one.token and two.underlay != one.underlay
        with ExitStack() as stack:
            first, theirs = inside_of(one.node(1), stack), inside_of(two.node(1), stack)
            assert ping(theirs, str(two.gateway))
            assert not ping(first, str(two.node(1).address), timeout=0.3)
    finally:
        gone(two)
    with ExitStack() as stack:
        assert ping(inside_of(one.node(1), stack), str(one.node(2).address))


def test_egress_is_through_this_machine(one: LocalCluster) -> None:
    """A server elsewhere on this machine's networks sees this machine's address, not the node's."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    outside = namespaces.make(f"alcove-{one.token}-outside")
    try:
        run = ["nsenter", f"--net=/run/netns/alcove-{one.token}-outside"]
        for words in (
            [
                "ip",
                "link",
                "add",
                f"al{one.token}o",
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                f"alcove-{one.token}-outside",
            ],
            ["ip", "address", "add", "198.18.77.1/30", "dev", f"al{one.token}o"],
            ["ip", "link", "set", f"al{one.token}o", "up"],
            [*run, "ip", "address", "add", "198.18.77.2/30", "dev", "eth0"],
            [*run, "ip", "link", "set", "eth0", "up"],
        ):
            subprocess.run(words, check=True)
        with ExitStack() as stack:
            node = inside_of(one.node(1), stack)
            server = stack.enter_context(tcp_server(outside, "198.18.77.2", 80))
            client = connect(node, "198.18.77.2", 80)
            assert client is not None
            stack.enter_context(client)
            server.settimeout(TIMEOUT)
            accepted, (address, _port) = server.accept()
            stack.enter_context(accepted)
            assert address == "198.18.77.1"
    finally:
        os.close(own)
        os.close(outside)


def test_creating_it_again_repairs_what_is_missing(one: LocalCluster) -> None:
    namespaces.remove(one.node(2).namespace)
    subprocess.run(["nft", "delete", "table", "ip", one.table], check=True)
    more = replace(one, nodes=3)
    underlay.make(more)
    underlay.make(more)
    with ExitStack() as stack:
        nodes = [inside_of(node, stack) for node in more.all_nodes()]
        assert all(ping(node, str(one.gateway)) for node in nodes)


def test_removal_leaves_the_machine_as_it_was(tmp_path: Path) -> None:
    one, two = made(tmp_path / "one", 3), made(tmp_path / "two", 1)
    kinds = {each.split()[0] for each in traces(one)}
    assert kinds == {"namespace", "link", "table", "claim"}
    gone(one)
    assert traces(one) == [] and traces(two)
    assert FORWARDING.read_text().strip() == "1"
    gone(two)
    underlay.remove(two)
    assert traces(two) == []


@pytest.mark.alone
def test_forwarding_is_as_before_once_the_last_cluster_has_gone(tmp_path: Path) -> None:
    before = FORWARDING.read_text()
    one, two = made(tmp_path / "one", 1), made(tmp_path / "two", 1)
    gone(one)
    assert FORWARDING.read_text().strip() == "1"
    gone(two)
    assert FORWARDING.read_text() == before
