"""What is probably wrong with a tenant's NetworkPolicies, from its own objects. Pure: no I/O.

A finding is a policy or rule without effect, or a service that nobody can reach; none of them is an error in itself, since pods
that a selector waits for may be created later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from alcove.api import objects, selectors
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.network.policy import PolicyPeer, PolicySet, Rules, peer_of
from alcove.network.trace import TenantObjects, addresses_of
from alcove.network.wellknown import API_NAMESPACE, DNS_NAMESPACE, dns_name

_FIELDS = {"ingress": "from", "egress": "to"}
_ENDED = ("Succeeded", "Failed")


class PolicyFinding(Struct, frozen=True):
    subject: str
    """`NetworkPolicy namespace/name` or `Service namespace/name`."""
    problem: str
    """One word: SelectsNothing, DirectionIgnored, PeerMatchesNothing, RuleUnreachable, PortUnknown, ServiceDenied."""
    message: str


class _Member(Struct, frozen=True):
    """Something that selectors of peers can match: a pod, or a server in the network's gateway."""

    namespace: str
    labels: Mapping[str, str]
    ports: frozenset[tuple[str, str]] = frozenset()
    """Names and protocols of its named ports."""


def check(tenant: TenantObjects) -> list[PolicyFinding]:
    """In order of policies, then services."""
    pods = [pod for pod in tenant.pods if (pod.get("status") or {}).get("phase") not in _ENDED]
    members = [_member(pod) for pod in pods] + list(_gateway_members({network_of(pod) for pod in pods}))
    namespaces = {objects.name(each): objects.labels(each) for each in tenant.namespaces}
    findings = [
        finding for policy in tenant.policies for finding in _PolicyCheck(policy, members, namespaces).run()
    ]
    for network in sorted({network_of(pod) for pod in pods}):
        within = [pod for pod in pods if network_of(pod) == network]
        services = [service for service in tenant.services if network_of(service) == network]
        findings += _denied_services(services, within, tenant.policies, namespaces)
    return findings


def _member(pod: Object) -> _Member:
    ports = frozenset((port.name, port.protocol) for port in peer_of(pod, ()).ports)
    return _Member(objects.namespace(pod), objects.labels(pod), ports)


def _gateway_members(networks: Iterable[str]) -> Iterator[_Member]:
    """As the agents have them: DNS and the API server of each network."""
    yield _Member(DNS_NAMESPACE, {"k8s-app": "kube-dns"}, frozenset({("dns", "UDP"), ("dns-tcp", "TCP")}))
    yield _Member(
        API_NAMESPACE, {"component": "apiserver", "provider": "kubernetes"}, frozenset({("https", "TCP")})
    )
    for network in networks:
        yield _Member(DNS_NAMESPACE, {"k8s-app": dns_name(network)})


class _PolicyCheck:
    def __init__(
        self, policy: Object, members: Sequence[_Member], namespaces: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._spec: Object = policy.get("spec") or {}
        self._namespace = objects.namespace(policy)
        self._subject = f"NetworkPolicy {self._namespace}/{objects.name(policy)}"
        self._members = members
        self._namespaces = namespaces
        selector = selectors.from_object(self._spec.get("podSelector") or {})
        self._selected = [
            each for each in members if each.namespace == self._namespace and selector.matches(each.labels)
        ]

    def run(self) -> Iterator[PolicyFinding]:
        if not self._selected:
            yield self._finding(
                "SelectsNothing", f'its podSelector matches no pod in namespace "{self._namespace}"'
            )
        default = ["Ingress", "Egress"] if self._spec.get("egress") else ["Ingress"]
        types = self._spec.get("policyTypes") or default
        for direction in _FIELDS:
            rules: list[Object] = self._spec.get(direction) or []
            if rules and direction.capitalize() not in types:
                message = f"has {direction} rules, but policyTypes is without {direction.capitalize()}: they have no effect"
                yield self._finding("DirectionIgnored", message)
                continue
            for number, rule in enumerate(rules, 1):
                yield from self._check_rule(direction, number, rule, rules[: number - 1])

    def _check_rule(
        self, direction: str, number: int, rule: Object, earlier: Sequence[Object]
    ) -> Iterator[PolicyFinding]:
        field, title = _FIELDS[direction], f"{direction} rule {number}"
        for position, each in enumerate(earlier, 1):
            if _covers(each, rule, field):
                yield self._finding(
                    "RuleUnreachable", f"{title} allows nothing that rule {position} does not allow"
                )
                return
        peers: list[Object] = rule.get(field) or []
        matched: list[_Member] = [] if peers else list(self._members)
        empty = 0
        for position, peer in enumerate(peers, 1):
            if peer.get("ipBlock") is not None:
                continue
            found, why = self._peers(peer)
            matched += found
            if not found:
                empty += 1
                yield self._finding("PeerMatchesNothing", f"{title}, {field} {position}: {why}")
        if peers and empty == len(peers):
            yield self._finding("RuleUnreachable", f"{title} allows nothing: none of its peers exists")
            return
        yield from self._check_ports(title, rule, self._selected if direction == "ingress" else matched)

    def _peers(self, peer: Object) -> tuple[list[_Member], str]:
        """The members that the peer selects; if there are none, why."""
        within = {self._namespace}
        if peer.get("namespaceSelector") is not None:
            selector = selectors.from_object(peer["namespaceSelector"])
            within = {name for name, labels in self._namespaces.items() if selector.matches(labels)}
            if not within:
                return [], "its namespaceSelector matches no namespace"
        pods = selectors.EVERYTHING
        if peer.get("podSelector") is not None:
            pods = selectors.from_object(peer["podSelector"])
        found = [each for each in self._members if each.namespace in within and pods.matches(each.labels)]
        return found, "its podSelector matches no pod there"

    def _check_ports(self, title: str, rule: Object, targets: Sequence[_Member]) -> Iterator[PolicyFinding]:
        for port in rule.get("ports") or ():
            name, protocol = port.get("port"), port.get("protocol") or "TCP"
            if (
                isinstance(name, str)
                and targets
                and not any((name, protocol) in each.ports for each in targets)
            ):
                message = f'{title}: no pod that it is about has a port "{name}" for {protocol}'
                yield self._finding("PortUnknown", message)

    def _finding(self, problem: str, message: str) -> PolicyFinding:
        return PolicyFinding(self._subject, problem, message)


def _covers(wide: Object, narrow: Object, field: str) -> bool:
    """Whether one rule allows all that the other does, as far as equal peers and ports tell."""
    peers, ports = wide.get(field) or (), wide.get("ports") or ()
    has_peers = not peers or (bool(narrow.get(field)) and all(each in peers for each in narrow[field]))
    has_ports = not ports or (
        bool(narrow.get("ports")) and all(any(_spans(one, each) for one in ports) for each in narrow["ports"])
    )
    return has_peers and has_ports


def _spans(wide: Object, narrow: Object) -> bool:
    """Whether one entry of ports includes another."""
    if (wide.get("protocol") or "TCP") != (narrow.get("protocol") or "TCP"):
        return False
    if wide.get("port") is None or wide.get("port") == narrow.get("port"):
        return wide.get("port") is None or (wide.get("endPort") or 0) >= (narrow.get("endPort") or 0)
    low, first = wide["port"], narrow.get("port")
    if not isinstance(low, int) or not isinstance(first, int):
        return False
    return bool(low <= first and (narrow.get("endPort") or first) <= (wide.get("endPort") or low))


def _denied_services(
    services: Iterable[Object],
    pods: Sequence[Object],
    policies: Sequence[Object],
    namespaces: Mapping[str, Mapping[str, str]],
) -> Iterator[PolicyFinding]:
    """Services of one network of which no pod lets anybody in."""
    peers = {(objects.namespace(pod), objects.name(pod)): peer_of(pod, addresses_of(pod)) for pod in pods}
    compiled = PolicySet(policies, namespaces, list(peers.values()))
    for service in services:
        wanted: Mapping[str, str] = objects.get(service, "spec", "selector", default={})
        backends = [
            peer
            for peer in peers.values()
            if peer.namespace == objects.namespace(service)
            and wanted
            and wanted.items() <= peer.labels.items()
        ]
        for port in objects.get(service, "spec", "ports", default=[]) if backends else ():
            denying = [_denying(compiled, peer, port) for peer in backends]
            if all(denying):
                names = ", ".join(sorted({name for each in denying for name in each}))
                message = f"port {port.get('port')}: NetworkPolicies select all of its pods and let nobody in: {names}"
                subject = f"Service {objects.namespace(service)}/{objects.name(service)}"
                yield PolicyFinding(subject, "ServiceDenied", message)


def _denying(policies: PolicySet, pod: PolicyPeer, port: Object) -> list[str]:
    """The policies that keep everybody from a pod's port; none if somebody may connect."""
    protocol = port.get("protocol") or "TCP"
    number = _target_number(pod, port.get("targetPort") or port.get("port") or 0, protocol)
    if number is None:
        return []
    selecting = policies.selecting(pod).ingress
    if not selecting or any(_lets_in(each.rules, protocol, number) for each in selecting):
        return []
    return [each.policy for each in selecting]


def _target_number(pod: PolicyPeer, target: int | str, protocol: str) -> int | None:
    """The number of a service's target port in the pod; None if the pod has no port of that name."""
    if isinstance(target, int):
        return target
    named = (each.number for each in pod.ports if (each.name, each.protocol) == (target, protocol))
    return next(named, None)


def _lets_in(rules: Rules, protocol: str, port: int) -> bool:
    return any(
        rule.peers != () and (rule.ports is None or any(each.has(protocol, port) for each in rule.ports))
        for rule in rules
    )
