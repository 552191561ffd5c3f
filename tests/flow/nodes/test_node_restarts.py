"""Agents and API servers come and go; what pods have goes on."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from alcove.dataplane import links, namespaces
from alcove.dataplane.netlink import Netlink
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.podprobes import TrafficStream, asked, reaches, resolves
from alcove.testing.probes import IMPATIENT, connect, ping, tcp_server, tcp_talks
from alcove.testing.server import wait_until


@pytest.fixture(scope="module")
def address(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> str:
    """Of a service with a backend on the second node."""
    near, _, far = pods["blue"]
    path = f"/api/v1/tenants/blue/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"kept": "yes"}}}))
    found = cluster.make_service("blue", "kept", selector={"kept": "yes"})
    with tcp_server(far.namespace, far.address, 8080):
        wait_until(lambda: reaches(near, found, 80))
    return found


def test_a_pod_that_goes_leaves_nothing(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
    pod = cluster.place_pod("blue", 0)
    path = Path(pod.attachment.namespace_path)
    assert path.exists()
    cluster.remove_pod(pod)
    assert not path.exists()
    assert pod.key not in pod.node.network.attached()
    wait_until(lambda: not ping(pods["blue"][2].namespace, pod.address, timeout=IMPATIENT))
    pod.node.call(pod.node.network.detach(pod.key))


def test_an_agent_that_starts_again_drops_nothing(pods: dict[str, list[AttachedPod]], address: str) -> None:
    near, _, far = pods["blue"]
    with tcp_server(far.namespace, far.address, 8080) as server:
        client = connect(near.namespace, address, 80)
        assert client is not None
        accepted, _ = server.accept()
        with client, accepted, TrafficStream(client, accepted) as stream:
            for _ in range(2):
                near.node.stop()
                stream.must_flow()
                stray = f"alcove-{near.node.node.instance}-pstray"
                os.close(namespaces.make(stray))
                near.node.start()
                again = near.node.call(near.node.network.attach(near.key, near.obj))
                assert again == near.attachment
                wait_until(lambda: not namespaces.path_of(stray).exists())  # noqa: B023 - called at once
                stream.must_flow()
        assert near.key in near.node.network.attached()
        resolves(near, "kept.default.svc.cluster.local", [address])
        assert tcp_talks(near.namespace, address, 80, server)


def lose_nothing(_pod: AttachedPod) -> None:
    """Killed after everything was made."""


def lose_namespace(pod: AttachedPod) -> None:
    """Killed before it was made; or the machine was started again."""
    os.close(pod.namespace)
    namespaces.remove(Path(pod.attachment.namespace_path).name)


def lose_link(pod: AttachedPod) -> None:
    """Killed between namespace and link."""
    with namespaces.inside(pod.namespace):
        netlink = Netlink()
    link = links.read_link(netlink, "eth0")
    assert link is not None
    netlink.do(links.delete_link(link.index))
    netlink.close()


@pytest.mark.parametrize("lose", [lose_nothing, lose_namespace, lose_link])
def test_whatever_a_kill_left_attaching_again_makes_it_whole(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], lose: Callable[[AttachedPod], None]
) -> None:
    pod, other = cluster.place_pod("blue", 0), pods["blue"][2]
    pod.node.stop()
    lose(pod)
    pod.node.start()
    assert pod.key in pod.node.network.attached()
    again = AttachedPod(pod.node, pod.key, pod.obj, pod.node.call(pod.node.network.attach(pod.key, pod.obj)))
    assert again.attachment == pod.attachment
    wait_until(lambda: ping(other.namespace, again.address, timeout=0.2))
    with tcp_server(again.namespace, again.address, 8080) as server:
        assert tcp_talks(other.namespace, again.address, 8080, server)
    cluster.remove_pod(again)
    assert not Path(again.attachment.namespace_path).exists()


def test_a_record_that_is_lost_leaves_nothing_behind(cluster: NodeCluster) -> None:
    """Nobody knows whose it was: namespace and link go."""
    pod = cluster.place_pod("blue", 0)
    pod.node.stop()
    pod.node.record_of(pod.key).unlink()
    pod.node.start()
    wait_until(lambda: not Path(pod.attachment.namespace_path).exists())
    assert pod.key not in pod.node.network.attached()
    cluster.remove_pod(pod)


def test_a_pod_that_went_while_the_agent_was_away_keeps_nobody_waiting(cluster: NodeCluster) -> None:
    """With its last pod the node lost the right to see the tenant; others are attached all the same."""
    cluster.make_tenant("green", {"type": "vpc", "ip": "10.7.0.0", "prefix": 16})
    pod = cluster.place_pod("green", 0)
    pod.node.stop()
    path = f"/api/v1/tenants/green/namespaces/default/pods/{pod.key.name}"
    cluster.must(cluster.server.system.delete(f"{path}?gracePeriodSeconds=0"))
    pod.node.start()
    other = cluster.place_pod("blue", 0)
    assert pod.key in pod.node.network.attached(), "until it is deleted"
    pod.node.call(pod.node.network.detach(pod.key))
    cluster.remove_pod(other)


def test_networks_go_on_without_an_api_server(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], address: str
) -> None:
    near, _, far = pods["blue"]
    wait_until(near.node.network.is_running)
    cluster.server.kill()
    try:
        with tcp_server(far.namespace, far.address, 8080):
            wait_until(lambda: reaches(near, address, 80))
        assert asked(near, "kept.default.svc.cluster.local") == [address]
        assert near.node.call(near.node.network.attach(near.key, near.obj)) == near.attachment
        near.node.stop()
        near.node.start()
        with tcp_server(far.namespace, far.address, 8080):
            # Also when the agent starts meanwhile: what it cannot know, it leaves.
            wait_until(lambda: reaches(near, address, 80))
    finally:
        cluster.server.start()
    wait_until(near.node.network.is_running)
    later = cluster.make_service("blue", "later")
    resolves(near, "later.default.svc.cluster.local", [later])
