"""Shares of a node's maps, with two tenants: what is too much costs the tenant that has it."""

from functools import partial

import pytest

from alcove.agent.network import map_shares
from alcove.agent.shares import Pool
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.podprobes import reaches
from alcove.testing.probes import tcp_server
from alcove.testing.server import wait_until

MANY = [{"name": f"p{port}", "port": port, "targetPort": 8080} for port in range(1000, 1040)]


def test_services_over_a_tenants_share_are_its_own_loss(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(map_shares, "SERVICE_ENTRIES", Pool(capacity=120, owner_max=50))
    for tenant in ("red", "blue"):
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{pods[tenant][0].key.name}"
        cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"share": "yes"}}}))
    near, stranger = pods["red"][0], pods["blue"][0]
    first = cluster.make_service("red", "first", selector={"share": "yes"})
    cluster.make_service("red", "greedy", selector={"share": "yes"}, ports=MANY)
    own = cluster.make_service("blue", "own", selector={"share": "yes"})
    greedy = "/api/v1/tenants/red/namespaces/default/services/greedy"
    node = near.node
    with (
        tcp_server(near.namespace, near.address, 8080),
        tcp_server(stranger.namespace, stranger.address, 8080),
    ):
        wait_until(partial(reaches, stranger, own, 80))
        wait_until(partial(reaches, near, first, 80))
        wait_until(lambda: ("red", "greedy", "TooManyServiceEntries") in node.events)
        assert not any(tenant == "blue" or name == "first" for tenant, name, _ in node.events)
        cluster_ip = cluster.server.system.get(greedy).json["spec"]["clusterIP"]
        assert not reaches(near, cluster_ip, 1000)
        cluster.must(cluster.server.system.patch(greedy, {"spec": {"ports": MANY[:2]}}))
        wait_until(partial(reaches, near, cluster_ip, 1000))
    for tenant, name in (("red", "first"), ("red", "greedy"), ("blue", "own")):
        cluster.must(
            cluster.server.system.delete(f"/api/v1/tenants/{tenant}/namespaces/default/services/{name}")
        )


def test_networks_over_a_tenants_share_of_addresses_get_an_event(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their pods could not be reached from the node, and nobody was told why."""
    near = pods["red"][0]
    with monkeypatch.context() as patch:
        patch.setattr(map_shares, "ENDPOINTS", Pool(capacity=1_000, owner_max=0))
        cluster.make_service("red", "change", selector={"share": "no"})
        wait_until(lambda: ("red", "own", "TooManyEndpoints") in near.node.events)
    cluster.must(cluster.server.system.delete("/api/v1/tenants/red/namespaces/default/services/change"))
