"""The policy rules of a network's pods on a node, as pods, addresses, labels and policies change."""

import random
from ipaddress import ip_network
from typing import Any

import pytest

from alcove.agent.network import map_shares, policy_rules
from alcove.agent.network.policies import DENIED
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.shares import Pool
from alcove.api.objects import Object
from alcove.client.keys import PlaneId, TenantKey
from alcove.client.planes import Planes
from alcove.testing.network_node import ACME, BACKING, NetworkNode

LETS_IN_WEB = {
    "podSelector": {},
    "policyTypes": ["Ingress"],
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}]}],
}


async def test_a_pod_whose_status_changes_reconciles_nothing() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        node.put("networkpolicies", "p", "default", spec=LETS_IN_WEB)
        keys = [node.put_pod(number, "web") for number in range(3)]
        for number in range(3):
            node.put_endpoint(number, number + 2)
        assert node.rules(keys[0]) == {"10.0.1.2/32", "10.0.1.3/32", "10.0.1.4/32"}
        current, node.changes = node.view.rules.for_pod(BACKING, keys[0]), 0
        node.put_pod(1, "web", "running")
        assert node.changes == 0 and node.view.rules.for_pod(BACKING, keys[0]) is current
        node.put_pod(1, "db")
        assert node.changes and node.rules(keys[0]) == {"10.0.1.2/32", "10.0.1.4/32"}


async def test_a_pod_that_is_relabeled_is_read_and_no_other() -> None:
    async with Planes() as planes:
        node = NetworkNode(planes)
        node.put("networkpolicies", "p", "default", spec=LETS_IN_WEB)
        keys = [node.put_pod(number, "web") for number in range(20)]
        for number in range(20):
            node.put_endpoint(number, number + 2)
        assert len(node.rules(keys[0])) == 20
        peers = {name: peer for name, (_, peer) in node.view.rules._pods.items()}
        node.put_pod(7, "db")
        assert len(node.rules(keys[0])) == 19
        now = {name: peer for name, (_, peer) in node.view.rules._pods.items()}
        assert [name for name in now if now[name] is not peers[name]] == [("default", "p7")]


async def test_rules_changed_step_by_step_are_as_made_anew() -> None:
    random_, seen = random.Random(18), set[frozenset[str]]()
    async with Planes() as planes:
        node = NetworkNode(planes)
        key = node.put_pod(0, "web")
        for _ in range(300):
            number = random_.randrange(6)
            match random_.randrange(7):
                case 0 | 1:
                    node.put_pod(number, random_.choice(("web", "db")), str(random_.random()))
                case 2:
                    node.put_endpoint(number, random_.randrange(2, 250))
                case 3 if number:
                    node.remove("endpoints", f"e{number}", "")
                case 4 if number:
                    node.remove("pods", f"p{number}", "default")
                case 5:
                    node.put("networkpolicies", "p", "default", spec=LETS_IN_WEB)
                case 6 if not number:
                    node.remove("networkpolicies", "p", "default")
                case _:
                    pass
            assert node.rules(key) == node.rules_anew(key)
            seen.add(frozenset(node.rules(key)))
    assert len(seen) > 20


async def test_a_view_follows_its_tenant_to_another_plane() -> None:
    """The addresses are ring0's, and stay; what it knows of the tenant is the other plane's from then on."""
    async with Planes() as planes:
        node = NetworkNode(planes)
        node.put_endpoint(1, 1)
        other = TenantKey(PlaneId("acme"), ACME)
        before = set(planes.mirrors())
        successor = TenantNetworkView(planes, other, lambda: None)
        for mirror in set(planes.mirrors()) - before:
            mirror.add_plane(other.plane).synced.set()
        moved = node.view.moved_to(successor)
        assert moved.tenant is successor and moved.is_synced()
        assert [str(each.address) for each in moved.allocations.all()] == ["10.0.1.1"]
        node.put_endpoint(2, 2)
        assert len(moved.allocations.all()) == 2
        moved.close()


@pytest.mark.parametrize(
    "peer",
    [
        {"ipBlock": {"cidr": "10.0.1.0/24"}},
        {"podSelector": {"matchLabels": {"app": "none"}}},
        {"podSelector": {}, "namespaceSelector": {}},
    ],
    ids=["blocks", "pods", "namespaces"],
)
async def test_policies_with_more_peers_than_can_be_compared_close_the_pods_that_they_select(
    peer: Object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tens of thousands of peers in one policy stopped the node's DNS for minutes, at each new pod."""
    monkeypatch.setattr(policy_rules, "COMPARISONS_MAX", 2_000)
    async with Planes() as planes:
        node = NetworkNode(planes)
        keys = [node.put_pod(number, app) for number, app in enumerate(("web", "db", *["other"] * 20))]
        for number in range(len(keys)):
            node.put_endpoint(number, 10 + number)
        for name, app, count in (("few", "web", 5), ("many", "db", 200)):
            rule = {"from": [peer] * count, "ports": [{"port": "http"}]}
            spec = {
                "podSelector": {"matchLabels": {"app": app}},
                "policyTypes": ["Ingress"],
                "ingress": [rule],
            }
            node.put("networkpolicies", name, "default", spec=spec)
        rules = node.view.rules
        assert rules.for_pod(BACKING, keys[1]) == (DENIED, DENIED) and keys[1] in rules.excessive
        assert rules.for_pod(BACKING, keys[0]) != (DENIED, DENIED) and keys[0] not in rules.excessive
        assert rules.for_pod(BACKING, keys[2]) == (None, None)


def put_service(node: NetworkNode, name: str, ports: int, endpoints: int) -> None:
    wanted = [{"name": f"p{number}", "port": 1 + number} for number in range(ports)]
    created = {"uid": f"uid-{name}", "creationTimestamp": f"2026-01-01T00:00:{len(name):02}Z"}
    spec = {
        "clusterIP": "10.96.0.9",
        "clusterIPs": ["10.96.0.9"],
        "ports": wanted,
        "network": BACKING.owner.name,
    }
    node.put("services", name, "default", metadata=created, spec=spec)
    backends = [{"addresses": [f"10.0.1.{1 + number}"]} for number in range(endpoints)]
    slice_of = {"labels": {"kubernetes.io/service-name": name}}
    parts: dict[str, Any] = {"addressType": "IPv4", "endpoints": backends, "ports": wanted}
    node.put("endpointslices", name, "default", metadata=slice_of, **parts)


async def test_services_that_do_not_fit_into_the_share_are_not_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(map_shares, "SERVICE_ENTRIES", Pool(capacity=100, owner_max=50))
    async with Planes() as planes:
        node, shares = NetworkNode(planes), map_shares.ServiceShares()
        monkeypatch.setattr(node.view, "service_ranges", lambda: (ip_network("10.96.0.0/24"),))

        def share() -> tuple[set[str], set[str]]:
            """Those that fit, and those that are refused for the first time."""
            node.view.refresh((), (), None)
            refused = {name for _, (_, name) in shares.share([node.view])}
            return {name for _, name in node.view.table._served}, refused

        put_service(node, "o", 2, 5)
        put_service(node, "new", 2, 5)
        assert share() == ({"o", "new"}, set())
        put_service(node, "giant", 20, 200)
        assert share() == ({"o", "new"}, {"giant"})
        assert node.view.table.amounts == (2 * 12 + 20 * 201, 0)
        assert share() == ({"o", "new"}, set())
        put_service(node, "newest", 2, 10)
        assert share() == ({"o", "new", "newest"}, set())
        put_service(node, "o", 2, 20)
        assert share() == ({"o"}, {"new", "newest"}), "the oldest keep theirs"
        node.remove("services", "o", "default")
        put_service(node, "giant", 1, 5)
        assert share() == ({"new", "newest", "giant"}, set())
        assert len(node.view.table.services) == 5
