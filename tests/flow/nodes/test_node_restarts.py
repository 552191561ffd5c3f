"""Agents and API servers come and go; what pods have goes on."""

import os
from pathlib import Path

import pytest

from alcove.dataplane import namespaces
from alcove.testing.nodecluster import Cluster, Pod
from alcove.testing.podprobes import Stream, asked, reaches
from alcove.testing.probes import IMPATIENT, connect, ping, tcp_server, tcp_talks
from alcove.testing.server import wait_until


@pytest.fixture(scope="module")
def address(cluster: Cluster, pods: dict[str, list[Pod]]) -> str:
    """Of a service with a backend on the second node."""
    near, _, far = pods["blue"]
    path = f"/api/v1/tenants/blue/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"kept": "yes"}}}))
    found = cluster.make_service("blue", "kept", selector={"kept": "yes"})
    with tcp_server(far.namespace, far.address, 8080):
        wait_until(lambda: reaches(near, found, 80))
    return found


def test_a_pod_that_goes_leaves_nothing(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    pod = cluster.place_pod("blue", 0)
    path = Path(pod.attachment.namespace_path)
    assert path.exists()
    cluster.remove_pod(pod)
    assert not path.exists()
    assert pod.key not in pod.node.network.attached()
    wait_until(lambda: not ping(pods["blue"][2].namespace, pod.address, timeout=IMPATIENT))
    pod.node.call(pod.node.network.detach(pod.key))


def test_an_agent_that_starts_again_drops_nothing(pods: dict[str, list[Pod]], address: str) -> None:
    near, _, far = pods["blue"]
    with tcp_server(far.namespace, far.address, 8080) as server:
        client = connect(near.namespace, address, 80)
        assert client is not None
        accepted, _ = server.accept()
        with client, accepted, Stream(client, accepted) as stream:
            for _ in range(2):
                near.node.stop()
                stream.must_flow()
                stray = f"alcove-{near.node.node.instance}-pstray"
                os.close(namespaces.make(stray))
                near.node.start()
                again = near.node.call(near.node.network.attach(near.key, near.obj))
                assert again == near.attachment
                assert not namespaces.path_of(stray).exists(), "no record speaks of it"
                stream.must_flow()
        assert near.key in near.node.network.attached()
        assert asked(near, "kept.default.svc.cluster.local") == [address]
        assert tcp_talks(near.namespace, address, 80, server)


def test_networks_go_on_without_an_api_server(
    cluster: Cluster, pods: dict[str, list[Pod]], address: str
) -> None:
    near, _, far = pods["blue"]
    cluster.server.kill()
    try:
        with tcp_server(far.namespace, far.address, 8080):
            assert reaches(near, address, 80)
        assert asked(near, "kept.default.svc.cluster.local") == [address]
        assert near.node.call(near.node.network.attach(near.key, near.obj)) == near.attachment
        near.node.stop()
        near.node.start()
        with tcp_server(far.namespace, far.address, 8080):
            assert reaches(near, address, 80), (
                "also when the agent starts meanwhile: what it cannot know, it leaves"
            )
    finally:
        cluster.server.start()
    wait_until(lambda: near.node.network.is_running(), 60.0)
    later = cluster.make_service("blue", "later")
    wait_until(lambda: asked(near, "later.default.svc.cluster.local") == [later], 60.0)
