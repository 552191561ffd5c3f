"""How fast nodes may be given up, zone by zone, and when it is rather us who are cut off. Pure.

| of a zone's nodes                | one node is given up every                              |
|----------------------------------|---------------------------------------------------------|
| most are ready                   | 10 s                                                    |
| 55 % are lost, and more than two | 100 s in a zone of more than 50 nodes, else none at all |
| all are lost                     | 10 s, while another zone has any that is ready          |

When every node of every zone is lost nobody is given up, and who was is taken back: moving all pods
nowhere helps nobody, and most likely the nodes are fine and cannot reach the API server.
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
"""When to ask again while nothing is given up."""
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")


class NodeZone(Struct, frozen=True):
    region: str
    name: str


class _Place(Struct, frozen=True):
    zone: NodeZone
    is_ready: bool


def zone_of(node: Object) -> NodeZone:
    own = labels(node)
    return NodeZone(*(next((own[key] for key in keys if key in own), "") for keys in (_REGION, _ZONE)))


def rate(ready: int, lost: int) -> float:
    """Nodes per second, in a zone with so many of each."""
    if ready and lost > LOST_FEW and lost / (ready + lost) >= LOST_SHARE_MAX:
        return SLOW_NODES_PER_SECOND if ready + lost > SMALL_ZONE_MAX else 0.0
    return NODES_PER_SECOND


class NodeZones:
    """All nodes, by zone."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._counts: Counter[_Place] = Counter()
        self._free_at: dict[NodeZone, float] = {}
        """When the zone may give up its next node."""

    def put(self, node: Object) -> None:
        place = _Place(zone_of(node), is_ready(node))
        self.remove(node["metadata"]["name"])
        self._places[node["metadata"]["name"]] = place
        self._counts[place] += 1

    def remove(self, name: str) -> None:
        place = self._places.pop(name, None)
        if place is None:
            return
        self._counts[place] -= 1
        if not self._counts[place]:
            del self._counts[place]
        if not any(each.zone == place.zone for each in self._counts):
            self._free_at.pop(place.zone, None)

    @property
    def is_lost(self) -> bool:
        """There are nodes, and none is ready."""
        return bool(self._counts) and not any(place.is_ready for place in self._counts)

    def give_up(self, node: Object, now: float) -> float:
        """0: the node may be given up now, which is counted. Else ask again in so many seconds."""
        zone = zone_of(node)
        nodes_per_second = rate(self._counts[_Place(zone, True)], self._counts[_Place(zone, False)])
        if not nodes_per_second:
            return STOPPED_SECONDS
        waits = self._free_at.get(zone, 0.0) - now
        if waits > 0:
            return min(waits, STOPPED_SECONDS)
        self._free_at[zone] = now + 1 / nodes_per_second
        return 0.0
