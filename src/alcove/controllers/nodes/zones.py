"""Rate limit for evictions from lost nodes, per zone. Pure.

| of a zone's nodes                | eviction starts on one node every                       |
|----------------------------------|---------------------------------------------------------|
| most are ready                   | 10 s                                                    |
| 55 % are lost, and more than two | 100 s in a zone of more than 50 nodes, else none at all |
| all are lost                     | 10 s, while another zone has a ready node               |

When all nodes of all zones are lost, evictions stop and are cancelled: there is no node to move the pods to,
and most likely the nodes are running but cannot reach the API server.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from alcove.api.objects import Object, labels
from alcove.controllers.nodes.health import is_ready

NODES_PER_SECOND = 0.1
SLOW_NODES_PER_SECOND = 0.01
LOST_SHARE_MAX = 0.55
LOST_FEW = 2
SMALL_ZONE_MAX = 50
STOPPED_SECONDS = 10.0
"""When to check again while evictions are stopped."""
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")


class NodeZone(Struct, frozen=True):
    region: str
    name: str


class _NodeState(Struct, frozen=True):
    zone: NodeZone
    is_ready: bool


def zone_of(node: Object) -> NodeZone:
    node_labels = labels(node)
    return NodeZone(
        *(next((node_labels[key] for key in keys if key in node_labels), "") for keys in (_REGION, _ZONE))
    )


def rate(ready: int, lost: int) -> float:
    """Evicted nodes per second in a zone with these numbers of ready and lost nodes."""
    if ready and lost > LOST_FEW and lost / (ready + lost) >= LOST_SHARE_MAX:
        return SLOW_NODES_PER_SECOND if ready + lost > SMALL_ZONE_MAX else 0.0
    return NODES_PER_SECOND


class NodeZones:
    """All nodes, by zone."""

    def __init__(self) -> None:
        self._states: dict[str, _NodeState] = {}
        self._counts: Counter[_NodeState] = Counter()
        self._next_at: dict[NodeZone, float] = {}
        """When eviction may start on the zone's next node."""

    def put(self, node: Object) -> None:
        state = _NodeState(zone_of(node), is_ready(node))
        self.remove(node["metadata"]["name"])
        self._states[node["metadata"]["name"]] = state
        self._counts[state] += 1

    def remove(self, name: str) -> None:
        state = self._states.pop(name, None)
        if state is None:
            return
        self._counts[state] -= 1
        if not self._counts[state]:
            del self._counts[state]
        if not any(each.zone == state.zone for each in self._counts):
            self._next_at.pop(state.zone, None)

    @property
    def is_lost(self) -> bool:
        """Whether there are nodes, and none is ready."""
        return bool(self._counts) and not any(state.is_ready for state in self._counts)

    def start_eviction(self, node: Object, now: float) -> float:
        """0 if eviction may start on the node now, which is counted; otherwise the seconds to wait."""
        zone = zone_of(node)
        nodes_per_second = rate(self._counts[_NodeState(zone, True)], self._counts[_NodeState(zone, False)])
        if not nodes_per_second:
            return STOPPED_SECONDS
        wait_seconds = self._next_at.get(zone, 0.0) - now
        if wait_seconds > 0:
            return min(wait_seconds, STOPPED_SECONDS)
        self._next_at[zone] = now + 1 / nodes_per_second
        return 0.0
