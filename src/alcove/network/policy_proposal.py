"""The least NetworkPolicies that allow what was seen: from flows and pods. Pure: no I/O.

Pods with the same labels are a workload, and get one policy: what it was seen to accept and to open, and nothing else. What
policies cannot say (ICMP, pods without labels, pods that are gone) is left out, and listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, field

from alcove.api import objects
from alcove.api.objects import Object
from alcove.network.wellknown import API_NAMESPACE, API_PORT, DNS_NAMESPACE

GENERATED_LABELS = frozenset(
    (
        "pod-template-hash",
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        "job-name",
        "batch.kubernetes.io/job-completion-index",
        "arktos.futurewei.com/network",
    )
)
"""Labels that controllers and ring0 set, and that differ between pods of one workload, or between its versions."""
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_NAMING_LABELS = ("app.kubernetes.io/name", "app", "k8s-app", "name")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_NAME_MAX = 55
_DNS_PORT = 53

Labels = tuple[tuple[str, str], ...]
Port = tuple[str, int]
"""Protocol and number."""


class Workload(Struct, frozen=True, order=True):
    namespace: str
    labels: Labels


class Proposal(Struct):
    policies: list[Object] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """What was seen and is not allowed by the policies, each once."""


class _Seen(Struct):
    """The ports of each peer, by the peer as it is written in a policy (as JSON)."""

    ingress: dict[str, set[Port]] = field(default_factory=dict)
    egress: dict[str, set[Port]] = field(default_factory=dict)


def propose(
    pods: Iterable[Object], flows: Iterable[Object], namespaces: frozenset[str] = frozenset()
) -> Proposal:
    """Policies for the workloads that flows name, or only for those in `namespaces`."""
    return _Proposer(pods, namespaces).run(flows)


def workload_of(pod: Object) -> Workload:
    labels = objects.labels(pod)
    kept = tuple(sorted((name, value) for name, value in labels.items() if name not in GENERATED_LABELS))
    return Workload(objects.namespace(pod), kept)


class _Proposer:
    def __init__(self, pods: Iterable[Object], namespaces: frozenset[str]) -> None:
        self._pods = {(objects.namespace(pod), objects.name(pod)): workload_of(pod) for pod in pods}
        self._workloads = frozenset(self._pods.values())
        self._namespaces = namespaces
        self._seen: dict[Workload, _Seen] = {}
        self._peers: dict[str, Object] = {}
        self._left_out: dict[str, None] = {}

    def run(self, flows: Iterable[Object]) -> Proposal:
        for flow in flows:
            if flow.get("verdict") == "forwarded":
                self._add(flow)
        proposal = Proposal(left_out=list(self._left_out))
        taken: set[tuple[str, str]] = set()
        for workload in sorted(self._seen):
            name = _unused(_name(workload), workload.namespace, taken)
            proposal.policies.append(self._policy(name, workload, self._seen[workload]))
        return proposal

    def _add(self, flow: Object) -> None:
        source, target = flow["source"], flow["destination"]
        if flow["protocol"] not in _PROTOCOLS:
            self._leave_out(f"{flow['protocol']} from {_title(source)}: policies do not apply to it")
            return
        port = flow["protocol"], int(target.get("port") or 0)
        accepts, opens = self._workload(target), self._workload(source)
        if source.get("kind") == "Gateway":
            accepts = None  # Policies do not apply to what the gateway opens.
        if accepts is not None and (peer := self._peer(source, accepts.namespace, port)) is not None:
            self._seen.setdefault(accepts, _Seen()).ingress.setdefault(peer, set()).add(port)
        if opens is not None and (peer := self._peer(target, opens.namespace, port)) is not None:
            self._seen.setdefault(opens, _Seen()).egress.setdefault(peer, set()).add(port)

    def _workload(self, end: Object) -> Workload | None:
        """The workload that gets a policy; None if the end is not a pod that can have one."""
        if end.get("kind") != "Pod" or not end.get("name"):
            return None
        workload = self._pods.get((end.get("namespace", ""), end["name"]))
        if workload is None:
            self._leave_out(f"{_title(end)}: the pod is gone")
        elif not workload.labels:
            self._leave_out(f"{_title(end)}: the pod has no labels by which a policy could select it")
        elif not self._namespaces or workload.namespace in self._namespaces:
            return workload
        return None

    def _peer(self, end: Object, namespace: str, port: Port) -> str | None:
        """The end as a peer of a policy in that namespace; None if it needs none, or there is no way to name it."""
        peer: Object | None = None
        if end.get("kind") == "Gateway":
            peer = _gateway_peer(port)
        elif end.get("kind") == "Pod" and end.get("name"):
            workload = self._pods.get((end.get("namespace", ""), end["name"]))
            if workload is None:
                self._leave_out(f"{_title(end)}: the pod is gone")
                return None
            peer = {"podSelector": self._selector(workload)}
            if workload.namespace != namespace:
                peer["namespaceSelector"] = {"matchLabels": {NAMESPACE_LABEL: workload.namespace}}
        elif end.get("address"):
            bits = 128 if ":" in end["address"] else 32
            peer = {"ipBlock": {"cidr": f"{end['address']}/{bits}"}}
        if peer is None:
            return None
        key = repr(peer)
        self._peers[key] = peer
        return key

    def _selector(self, workload: Workload) -> Object:
        """Selects the workload, and no other whose labels are the same and more."""
        selector: Object = {"matchLabels": dict(workload.labels)} if workload.labels else {}
        own = set(workload.labels)
        more = {
            next(name for name, _ in other.labels if name not in dict(workload.labels))
            for other in self._workloads
            if other.namespace == workload.namespace and own < set(other.labels)
        }
        if more:
            selector["matchExpressions"] = [
                {"key": name, "operator": "DoesNotExist"} for name in sorted(more)
            ]
        return selector

    def _policy(self, name: str, workload: Workload, seen: _Seen) -> Object:
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": workload.namespace},
            "spec": {
                "podSelector": self._selector(workload),
                "policyTypes": ["Ingress", "Egress"],
                "ingress": self._rules(seen.ingress, "from"),
                "egress": self._rules(seen.egress, "to"),
            },
        }

    def _rules(self, seen: dict[str, set[Port]], direction: str) -> list[Object]:
        """One rule for all peers with the same ports."""
        by_ports: dict[tuple[Port, ...], list[str]] = {}
        for peer, ports in sorted(seen.items()):
            by_ports.setdefault(tuple(sorted(ports)), []).append(peer)
        return [
            {
                direction: [self._peers[peer] for peer in peers],
                "ports": [{"protocol": protocol, "port": number} for protocol, number in ports],
            }
            for ports, peers in sorted(by_ports.items())
        ]

    def _leave_out(self, what: str) -> None:
        self._left_out[what] = None


def _gateway_peer(port: Port) -> Object | None:
    """The network's DNS or API server."""
    if port[1] == _DNS_PORT:
        labels, namespace = {"k8s-app": "kube-dns"}, DNS_NAMESPACE
    elif port[1] == API_PORT:
        labels, namespace = {"component": "apiserver", "provider": "kubernetes"}, API_NAMESPACE
    else:
        return None
    return {
        "podSelector": {"matchLabels": labels},
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}},
    }


def _name(workload: Workload) -> str:
    labels = dict(workload.labels)
    value = next((labels[name] for name in _NAMING_LABELS if labels.get(name)), "")
    value = value or next((value for _, value in workload.labels if value), "pods")
    return re.sub("[^a-z0-9-]+", "-", value.lower())[:_NAME_MAX].strip("-") or "pods"


def _unused(base: str, namespace: str, taken: set[tuple[str, str]]) -> str:
    name, number = f"{base}-seen", 2
    while (namespace, name) in taken:
        name, number = f"{base}-{number}-seen", number + 1
    taken.add((namespace, name))
    return name


def _title(end: Object) -> str:
    return (
        f"pod {end.get('namespace', '')}/{end['name']}"
        if end.get("name")
        else str(end.get("address", "unknown"))
    )
