"""A pod's network policy rules as the data plane has them. Pure: no I/O.

Selectors match pods, by their labels and the addresses that ring0 allocated, and two peers that are no pods
(`network/gateway_peers.py`). So a policy that
lets pods reach `k8s-app: kube-dns` in `kube-system` lets them reach the DNS of their network.
"""

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.objects import Object
from alcove.dataplane.model import PortRange, PrefixBlock, Protocol, TrafficProfile, TrafficRule
from alcove.network import policy
from alcove.network.endpoints import EndpointAllocation
from alcove.network.policy import PodRules, PolicyPeer

DENIED = TrafficProfile()
"""No new connections are allowed."""


def pod_peer(pod: Object, allocations: Iterable[EndpointAllocation]) -> PolicyPeer:
    """The pod's metadata, with the addresses and named ports of its endpoints."""
    found = list(allocations)
    return PolicyPeer(
        namespace=objects.namespace(pod),
        labels=objects.labels(pod),
        addresses=tuple(each.address for each in found if each.address is not None),
        ports=tuple(dict.fromkeys(port for each in found for port in each.ports)),
    )


def profiles(rules: PodRules) -> tuple[TrafficProfile | None, TrafficProfile | None]:
    """The ingress and egress profiles; None means that everything is allowed."""
    return _profile(rules.ingress), _profile(rules.egress)


def _profile(rules: policy.Rules | None) -> TrafficProfile | None:
    return None if rules is None else TrafficProfile(tuple(_rule(rule) for rule in rules))


def _rule(rule: policy.PolicyPeerRule) -> TrafficRule:
    peers = (
        None if rule.peers is None else tuple(PrefixBlock(each.network, each.excepts) for each in rule.peers)
    )
    ports = None if rule.ports is None else tuple(_range(each) for each in rule.ports)
    return TrafficRule(peers, ports)


def _range(ports: policy.PolicyPorts) -> PortRange:
    return PortRange(Protocol[ports.protocol], ports.low, ports.high)
