"""The policy rules of a network's pods on a node, as pods, addresses, labels and policies change."""

import random
from ipaddress import ip_interface, ip_network
from typing import Any

import pytest

from alcove.agent.network import map_shares, policy_rules
from alcove.agent.network.policies import DENIED
from alcove.agent.network.policy_rules import PolicyRules
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.shares import Pool
from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId, TenantKey
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.planes import Planes
from alcove.dataplane.model import Subnet, TrafficProfile, Vpc
from alcove.network.owners import TenantNetworkId

ACME = TenantId("acme")
PREFIX = ip_network("10.0.0.0/16")
BACKING = NetworkBacking(
    TenantNetworkId(ACME, "default"),
    Vpc(7, (PREFIX,)),
    (Subnet(7, PREFIX),),
    (ip_interface("10.0.0.1/16"),),
)
LETS_IN_WEB = {
    "podSelector": {},
    "policyTypes": ["Ingress"],
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}, "namespaceSelector": {}}]}],
}


class Node:
    """A node with one network, whose mirrors are filled by hand."""

    def __init__(self, planes: Planes) -> None:
        self._planes = planes
        self._revision = 0
        self._parts: dict[str, PlaneMirror] = {}
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.changes = 0
        self.tenant = TenantNetworkView(planes, TenantKey(HOME, ACME), self._changed)
        self.view = NetworkView(planes, self.tenant, BACKING, "cluster.local", lambda _: (), self._changed)
        self._fill()
        self.put("namespaces", "default", "")

    def _changed(self) -> None:
        self.changes += 1

    def _fill(self) -> None:
        self.tenant.watch_peers()
        present = {mirror.selection.resource.resource: mirror for mirror in self._planes.mirrors()}
        for resource in set(self._parts) - set(present):
            del self._parts[resource]
        for resource, mirror in present.items():
            if resource not in self._parts:
                part = self._parts[resource] = mirror.add_plane(HOME)
                for obj in self._objects.get(resource, {}).values():
                    part.put(obj, Revision(self._revision))
                part.synced.set()

    def put(self, resource: str, name: str, namespace: str, tenant: TenantId = ACME, **more: Object) -> None:
        self._revision += 1
        metadata = {"tenant": tenant, "name": name, **({"namespace": namespace} if namespace else {})}
        metadata |= more.pop("metadata", {})
        obj = self._objects.setdefault(resource, {})[namespace, name] = {"metadata": metadata, **more}
        if resource in self._parts:
            self._parts[resource].put(obj, Revision(self._revision))
        self._fill()

    def put_pod(self, number: int, app: str, status: str = "") -> PodKey:
        key = PodKey(HOME, ACME, "default", f"p{number}", f"uid-{number}")
        metadata = {"uid": key.uid, "labels": {"app": app}, "annotations": {"status": status}}
        self.put("pods", key.name, "default", metadata=metadata)
        return key

    def put_endpoint(self, number: int, address: int) -> None:
        spec = {
            "type": "simple",
            "vni": 7,
            "ip": f"10.0.1.{address}",
            "droplet": "n",
            "pod": f"acme/default/p{number}",
        }
        metadata = {"labels": {OWNER_LABEL: f"uid-{number}"}}
        self.put("endpoints", f"e{number}", "", SYSTEM, metadata=metadata, spec=spec)

    def remove(self, resource: str, name: str, namespace: str) -> None:
        self._revision += 1
        obj = self._objects.get(resource, {}).pop((namespace, name), None)
        if obj is not None and resource in self._parts:
            self._parts[resource].remove(obj, Revision(self._revision))
        self._fill()

    def rules(self, key: PodKey) -> set[str]:
        """The addresses that may connect to the pod."""
        return _addresses(self.view.rules.for_pod(BACKING, key)[0])

    def rules_anew(self, key: PodKey) -> set[str]:
        return _addresses(PolicyRules(self.tenant, self.view.allocations).for_pod(BACKING, key)[0])


def _addresses(profile: TrafficProfile | None) -> set[str]:
    blocks = [block for rule in (profile.rules if profile else ()) for block in rule.peers or ()]
    return {str(block.prefix) for block in blocks}


async def test_a_pod_whose_status_changes_reconciles_nothing() -> None:
    async with Planes() as planes:
        node = Node(planes)
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
        node = Node(planes)
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
        node = Node(planes)
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
        node = Node(planes)
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
        node = Node(planes)
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


def put_service(node: Node, name: str, ports: int, endpoints: int) -> None:
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
        node, shares = Node(planes), map_shares.ServiceShares()
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
