"""The next hop to each node of the cluster, asked of the kernel once for each node.

Routes of the underlay change rarely; `forget` makes the kernel be asked again. A node without a route is asked for every
time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from ipaddress import IPv4Address


class NextHops:
    def __init__(self, read: Callable[[IPv4Address], IPv4Address | None]) -> None:
        self._read = read
        self._known: dict[IPv4Address, IPv4Address] = {}

    def of(self, nodes: Collection[IPv4Address]) -> Mapping[IPv4Address, IPv4Address]:
        """The next hops to these nodes, without those that have none. Others are forgotten."""
        for gone in self._known.keys() - set(nodes):
            del self._known[gone]
        for node in nodes:
            if node not in self._known and (hop := self._read(node)) is not None:
                self._known[node] = hop
        return dict(self._known)

    def forget(self) -> None:
        self._known.clear()
