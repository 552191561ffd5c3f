"""NetworkPolicies compiled to rules of addresses and ports, for each pod of one network.

Pure: the result depends only on the policies, the namespaces' labels and the network's pods. As in
Kubernetes, a pod that no policy of a direction selects is not restricted in that direction; otherwise it may
do what any of the selecting policies allows, and nothing else. Replies to allowed connections always pass.

All inputs are of one tenant and one network: an empty selector selects every pod of *this* network, and
addresses of other networks are unknown here.

    rules = PolicySet(policies, namespaces, peers).rules(pod)
    allows(rules.ingress, ip_address("10.0.1.7"), "TCP", 443)
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, structs

from alcove.api import objects, selectors
from alcove.api.addresses import Address, Network
from alcove.api.objects import Object
from alcove.api.selectors import LabelSelector
from alcove.network.policy_work import PeerCounts, comparisons

PORT_MAX = 65535


class TooManyRules(ValueError):
    """There is more to compute than anybody may have computed."""


class NamedPort(Struct, frozen=True, order=True):
    name: str
    protocol: str
    number: int


class PolicyPeer(Struct, frozen=True, kw_only=True):
    """A member of the network that selectors can match: a pod, or a service without pods such as the
    network's DNS."""

    namespace: str
    labels: Mapping[str, str]
    addresses: tuple[Address, ...]
    ports: tuple[NamedPort, ...] = ()
    shares_address: bool = False
    """Whether its addresses have other servers too. A rule that selects it allows its own ports there, no others."""


class IpBlock(Struct, frozen=True):
    """The addresses of a range, except those in `excepts`."""

    network: Network
    excepts: tuple[Network, ...] = ()

    def __contains__(self, address: Address) -> bool:
        return address in self.network and not any(address in each for each in self.excepts)


class PolicyPorts(Struct, frozen=True):
    protocol: str
    low: int = 1
    high: int = PORT_MAX

    def has(self, protocol: str, port: int) -> bool:
        return protocol == self.protocol and self.low <= port <= self.high


class PolicyPeerRule(Struct, frozen=True):
    """Allows peers to use ports. None stands for all peers or all ports."""

    peers: tuple[IpBlock, ...] | None = None
    ports: tuple[PolicyPorts, ...] | None = None


Rules = tuple[PolicyPeerRule, ...]
"""The connections that may be opened in one direction: those that at least one rule allows."""


class PodRules(Struct, frozen=True):
    ingress: Rules | None = None
    """None if ingress is not restricted; likewise for egress."""
    egress: Rules | None = None


class NamedRules(Struct, frozen=True):
    """What one policy allows a pod in one direction."""

    policy: str
    """`namespace/name`."""
    rules: Rules


class SelectingPolicies(Struct, frozen=True):
    """The policies that select a pod, by direction. Without any, the direction is not restricted."""

    ingress: tuple[NamedRules, ...] = ()
    egress: tuple[NamedRules, ...] = ()

    def rules(self) -> PodRules:
        return PodRules(_joined(self.ingress), _joined(self.egress))


def allows(rules: Rules | None, peer: Address, protocol: str, port: int) -> bool:
    """Whether a connection may be opened: from the peer, or to it, on the destination's port."""
    return rules is None or any(
        (rule.peers is None or any(peer in block for block in rule.peers))
        and (rule.ports is None or any(each.has(protocol, port) for each in rule.ports))
        for rule in rules
    )


def peer_of(pod: Object, addresses: Iterable[Address]) -> PolicyPeer:
    """A pod with its addresses in the network."""
    containers: list[Object] = objects.get(pod, "spec", "containers", default=[])
    sidecars = [
        each
        for each in objects.get(pod, "spec", "initContainers", default=[])
        if each.get("restartPolicy") == "Always"
    ]
    ports = [
        NamedPort(port["name"], port.get("protocol") or "TCP", port["containerPort"])
        for container in (*containers, *sidecars)
        for port in container.get("ports") or ()
        if port.get("name")
    ]
    return PolicyPeer(
        namespace=objects.namespace(pod),
        labels=objects.labels(pod),
        addresses=tuple(addresses),
        ports=tuple(ports),
    )


class PolicySet:
    def __init__(
        self,
        policies: Iterable[Object],
        namespaces: Mapping[str, Mapping[str, str]],
        peers: Sequence[PolicyPeer],
        comparisons_max: int | None = None,
    ) -> None:
        """`namespaces` has each namespace's labels by name; `peers` are all members of the network. `comparisons_max`: of peers
        and pods in all policies that are compiled."""
        self._comparisons_left = comparisons_max
        self._selection = _Selection(namespaces, peers)
        self._policies: dict[str, list[_Policy]] = {}
        self._requirements: Counter[str] = Counter()
        """Of the selectors of each namespace's policies: a pod is compared with all of them."""
        for policy in policies:
            compiled = _Policy(policy, self._selection)
            namespace = objects.namespace(policy)
            self._policies.setdefault(namespace, []).append(compiled)
            self._requirements[namespace] += max(1, len(compiled.selector.requirements))

    def rules(self, pod: PolicyPeer) -> PodRules:
        return self.selecting(pod).rules()

    def selecting(self, pod: PolicyPeer) -> SelectingPolicies:
        """Raises TooManyRules."""
        self._spend(self._requirements[pod.namespace])
        policies = [
            policy for policy in self._policies.get(pod.namespace, ()) if policy.selector.matches(pod.labels)
        ]
        new = [policy for policy in policies if not policy.is_counted]
        self._spend(sum(policy.comparisons for policy in new))
        for policy in new:
            policy.is_counted = True
        return SelectingPolicies(
            tuple(
                NamedRules(policy.name, policy.ingress_of(pod)) for policy in policies if policy.has_ingress
            ),
            tuple(NamedRules(policy.name, policy.egress) for policy in policies if policy.has_egress),
        )

    def _spend(self, comparisons: int) -> None:
        """Raises TooManyRules."""
        if self._comparisons_left is None:
            return
        if comparisons > self._comparisons_left:
            raise TooManyRules(
                f"{comparisons} comparisons of policies with pods exceed the {self._comparisons_left} that are left"
            )
        self._comparisons_left -= comparisons


def _joined(policies: tuple[NamedRules, ...]) -> Rules | None:
    """The union of the policies' rules; None if no policy applies to the direction."""
    if not policies:
        return None
    return tuple(dict.fromkeys(rule for each in policies for rule in each.rules))


class _Selection:
    """Finds the peers that a policy's selectors match."""

    def __init__(self, namespaces: Mapping[str, Mapping[str, str]], peers: Sequence[PolicyPeer]) -> None:
        self._namespaces = namespaces
        self.all_peers = tuple(peers)
        self._by_namespace: dict[str, list[PolicyPeer]] = {}
        for peer in peers:
            self._by_namespace.setdefault(peer.namespace, []).append(peer)

    @cached_property
    def counts(self) -> PeerCounts:
        ports = [1 + len(each.ports) for each in self.all_peers]
        by_namespace = {name: len(each) for name, each in self._by_namespace.items()}
        return PeerCounts(len(ports), by_namespace, sum(ports), max(ports, default=0), len(self._namespaces))

    def peers(self, policy_namespace: str, peer: Object) -> list[PolicyPeer]:
        """The members that a policy's peer selects: `podSelector` applies to the policy's namespace, unless
        there is a `namespaceSelector`."""
        within = [policy_namespace]
        if peer.get("namespaceSelector") is not None:
            selector = selectors.from_object(peer["namespaceSelector"])
            within = [name for name, labels in self._namespaces.items() if selector.matches(labels)]
        pods = selectors.EVERYTHING
        if peer.get("podSelector") is not None:
            pods = selectors.from_object(peer["podSelector"])
        return [
            each for name in within for each in self._by_namespace.get(name, ()) if pods.matches(each.labels)
        ]


class _CompiledRule(Struct, frozen=True):
    """One ingress or egress rule of a policy, with its peers resolved."""

    blocks: tuple[IpBlock, ...] | None
    """None stands for all peers."""
    pods: tuple[PolicyPeer, ...]
    """The peers whose named ports are known."""
    ports: tuple[Object, ...] | None
    sharing: tuple[PolicyPeer, ...] = ()
    """Peers to reach on their own ports, as others have the same address; `blocks` is without them."""


class _Policy:
    """A policy whose rules are compiled for the first pod that it selects: a node has few of a network's pods."""

    def __init__(self, policy: Object, selection: _Selection) -> None:
        spec = self._spec = policy.get("spec") or {}
        self._namespace = objects.namespace(policy)
        self._selection = selection
        self.name = f"{self._namespace}/{objects.name(policy)}"
        types = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
        self.selector: LabelSelector = selectors.from_object(spec.get("podSelector") or {})
        self.has_ingress, self.has_egress = "Ingress" in types, "Egress" in types
        self.is_counted = False
        """Whether its comparisons are among those of the set."""

    @property
    def comparisons(self) -> int:
        return comparisons(
            self._spec,
            self._namespace,
            self._selection.counts,
            has_ingress=self.has_ingress,
            has_egress=self.has_egress,
        )

    @cached_property
    def _ingress(self) -> list[_CompiledRule]:
        return self._compiled("ingress", "from")

    @cached_property
    def egress(self) -> Rules:
        return tuple(rule for compiled in self._compiled("egress", "to") for rule in _egress_rules(compiled))

    def _compiled(self, direction: str, field: str) -> list[_CompiledRule]:
        rules = self._spec.get(direction) or ()
        return [_compile_rule(rule, field, self._namespace, self._selection) for rule in rules]

    def ingress_of(self, pod: PolicyPeer) -> Rules:
        """The ingress rules for a pod: a named port is looked up in the pod itself."""
        found = ((rule.blocks, _resolve_ports(rule.ports, pod)) for rule in self._ingress)
        return tuple(PolicyPeerRule(blocks, ports) for blocks, ports in found if ports != ())


def _compile_rule(rule: Object, field: str, namespace: str, selection: _Selection) -> _CompiledRule:
    ports = tuple(rule["ports"]) if rule.get("ports") else None
    if not rule.get(field):
        return _CompiledRule(None, selection.all_peers, ports)
    pods: list[PolicyPeer] = []
    blocks: list[IpBlock] = []
    sharing: list[PolicyPeer] = []
    for peer in rule[field]:
        if peer.get("ipBlock") is not None:
            block = _block(peer["ipBlock"])
            blocks.append(block)
            pods += _inside(block, selection.all_peers) if _has_names(ports) else ()
        else:
            selected = selection.peers(namespace, peer)
            if field == "to":
                sharing += [each for each in selected if each.shares_address]
                selected = [each for each in selected if not each.shares_address]
            blocks += _blocks(selected)
            pods += selected
    return _CompiledRule(tuple(dict.fromkeys(blocks)), tuple(pods), ports, tuple(sharing))


def _has_names(ports: tuple[Object, ...] | None) -> bool:
    return any(isinstance(port.get("port"), str) for port in ports or ())


def _inside(block: IpBlock, peers: Iterable[PolicyPeer]) -> list[PolicyPeer]:
    """The peers with addresses in the block, reduced to those addresses."""
    found = ((each, tuple(ip for ip in each.addresses if ip in block)) for each in peers)
    return [structs.replace(each, addresses=addresses) for each, addresses in found if addresses]


def _egress_rules(rule: _CompiledRule) -> Iterable[PolicyPeerRule]:
    """The compiled rules of an egress rule. A named port is looked up in each peer, and peers may have
    different numbers for one name; addresses that belong to no pod have no named ports."""
    for peer in rule.sharing:
        if own := _own_ports(peer, rule.ports):
            yield PolicyPeerRule(tuple(_blocks([peer])), own)
    if rule.blocks == ():
        return
    if rule.ports is None:
        yield PolicyPeerRule(rule.blocks, None)
        return
    numbered = tuple(_numbered_port(port) for port in rule.ports if not isinstance(port.get("port"), str))
    if numbered:
        yield PolicyPeerRule(rule.blocks, numbered)
    named: dict[PolicyPorts, dict[IpBlock, None]] = {}
    for port in rule.ports:
        if isinstance(port.get("port"), str):
            for pod in rule.pods:
                for found in _named_ports(port, pod):
                    named.setdefault(found, {}).update(dict.fromkeys(_blocks([pod])))
    for found, blocks in named.items():
        yield PolicyPeerRule(tuple(blocks), (found,))


def _own_ports(peer: PolicyPeer, ports: tuple[Object, ...] | None) -> tuple[PolicyPorts, ...]:
    """Those of the peer's own ports that a rule with `ports` allows."""
    allowed = _resolve_ports(ports, peer)
    return tuple(
        PolicyPorts(own.protocol, own.number, own.number)
        for own in peer.ports
        if allowed is None or any(each.has(own.protocol, own.number) for each in allowed)
    )


def _resolve_ports(ports: tuple[Object, ...] | None, pod: PolicyPeer) -> tuple[PolicyPorts, ...] | None:
    """The ports with names replaced by the pod's numbers. Empty if the pod has none of the named ports, so
    that nothing is allowed."""
    if ports is None:
        return None
    found: list[PolicyPorts] = []
    for port in ports:
        found += _named_ports(port, pod) if isinstance(port.get("port"), str) else [_numbered_port(port)]
    return tuple(dict.fromkeys(found))


def _named_ports(port: Object, pod: PolicyPeer) -> list[PolicyPorts]:
    protocol = port.get("protocol") or "TCP"
    return [
        PolicyPorts(protocol, each.number, each.number)
        for each in pod.ports
        if each.name == port["port"] and each.protocol == protocol
    ]


def _numbered_port(port: Object) -> PolicyPorts:
    protocol, low = port.get("protocol") or "TCP", port.get("port")
    return PolicyPorts(protocol) if low is None else PolicyPorts(protocol, low, port.get("endPort") or low)


def _block(ip_block: Object) -> IpBlock:
    excepts = tuple(ipaddress.ip_network(each) for each in ip_block.get("except") or ())
    return IpBlock(ipaddress.ip_network(ip_block["cidr"]), excepts)


def _blocks(pods: Iterable[PolicyPeer]) -> list[IpBlock]:
    return [IpBlock(ipaddress.ip_network(address)) for pod in pods for address in pod.addresses]
