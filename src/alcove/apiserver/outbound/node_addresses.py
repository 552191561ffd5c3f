"""The addresses of all nodes, kept as nodes change: a connection on a tenant's behalf looks at one of them, not at all
nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from alcove.api import destinations, objects
from alcove.api.destinations import Address
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.cache.entries import CacheEvent
from alcove.apiserver.reader import CacheReader


class NodeAddresses:
    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader
        self._by_node: dict[str, frozenset[Address]] = {}
        self._nodes: Counter[Address] = Counter()
        """How many nodes have an address."""
        self._changed: set[str] | None = None
        """Nodes to look at again; None for all, before the first use."""

    def notice(self, events: Sequence[CacheEvent]) -> None:
        """Call it with every change of objects, after the cache has it."""
        if self._changed is None:
            return
        for event in events:
            key = event.entry.key
            if key.resource == NODES and key.tenant == SYSTEM:
                self._changed.add(key.name)

    def current(self) -> Collection[Address]:
        """The addresses that nodes have now."""
        if self._changed is None:
            self._changed = {objects.name(node) for node in self._reader.list(SYSTEM, NODES)}
        while self._changed:
            self._look_at(self._changed.pop())
        return self._nodes.keys()

    def _look_at(self, name: str) -> None:
        node = self._reader.get(SYSTEM, NODES, "", name)
        before = self._by_node.pop(name, frozenset())
        after = _addresses(node) if node is not None else frozenset()
        if after:
            self._by_node[name] = after
        for address in before - after:
            self._nodes[address] -= 1
            if not self._nodes[address]:
                del self._nodes[address]
        for address in after - before:
            self._nodes[address] += 1


def _addresses(node: Object) -> frozenset[Address]:
    texts = [each.get("address", "") for each in objects.get(node, "status", "addresses", default=())]
    return frozenset(address for text in texts if (address := destinations.parse(text)) is not None)
