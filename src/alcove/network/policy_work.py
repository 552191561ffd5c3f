"""How much work it is to compile a NetworkPolicy, counted before it is done: requirements of peers times pods, and named ports times the
ports of pods.

One object may have tens of thousands of peers, or of requirements in one peer, which are compared with every pod of the network.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from alcove.api.objects import Object

BLOCK_COMPARISONS = 8
"""An address is compared with a range, or an exception of it, in the time of so many other comparisons."""


class PeerCounts(Struct, frozen=True):
    """Of one network."""

    peers: int
    by_namespace: Mapping[str, int]
    ports: int
    """Of all peers, each counted as at least one."""
    ports_most: int
    """Of the peer with most."""
    namespaces: int


def comparisons(
    spec: Object, namespace: str, counts: PeerCounts, *, has_ingress: bool, has_egress: bool
) -> int:
    """Of all rules of a policy's spec in this namespace, at most."""
    found = 0
    for rule in (spec.get("ingress") or ()) if has_ingress else ():
        names = _names(rule)
        found += sum(_of_peer(each, namespace, counts, names) for each in rule.get("from") or ())
        found += 1 + len(rule.get("ports") or ()) + names * counts.ports_most
    for rule in (spec.get("egress") or ()) if has_egress else ():
        names = _names(rule)
        found += sum(_of_peer(each, namespace, counts, names) for each in rule.get("to") or ())
        found += 1 + len(rule.get("ports") or ()) + names * counts.ports
    return found


def _names(rule: Object) -> int:
    return sum(isinstance(port.get("port"), str) for port in rule.get("ports") or ())


def _of_peer(peer: Object, namespace: str, counts: PeerCounts, names: int) -> int:
    block = peer.get("ipBlock")
    if block is not None:
        ranges = 1 + len(block.get("except") or ())
        return ranges * (BLOCK_COMPARISONS * counts.peers if names else 1)
    pods = requirements(peer.get("podSelector"))
    if peer.get("namespaceSelector") is not None:
        return 1 + requirements(peer["namespaceSelector"]) * counts.namespaces + pods * counts.peers
    return 1 + pods * counts.by_namespace.get(namespace, 0)


def requirements(selector: Object | None) -> int:
    """Of a label selector, at least one: an object is compared with each of them."""
    found = selector or {}
    return max(1, len(found.get("matchLabels") or ()) + len(found.get("matchExpressions") or ()))
