"""Zones and topology hints of endpoints. Pure, except for the table of the nodes' zones.

`trafficDistribution` of a service: `PreferClose` and `PreferSameZone` give each endpoint a hint for its
zone, `PreferSameNode` also one for its node. Endpoints that are not ready, or whose zone is unknown, have no
hint; if any endpoint has none, data planes ignore all hints.
"""

from __future__ import annotations

from collections.abc import Mapping

from alcove.api.objects import Object, get, labels
from alcove.client.changes import ChangeType, ObjectChange

ZONE_LABEL = "topology.kubernetes.io/zone"
_BY_ZONE = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BY_NODE = ("PreferSameNode",)


def zone_of(node: Object) -> str:
    return labels(node).get(ZONE_LABEL, "")


class EndpointZones:
    """The zone of each of ring0's nodes that has one, by node name."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def note(self, change: ObjectChange) -> bool:
        """Updates the table; returns whether the node's zone has changed."""
        name = change.key.name
        zone = "" if change.kind is ChangeType.DELETED else zone_of(change.obj)
        if zone == self.of.get(name, ""):
            return False
        if zone:
            self.of[name] = zone
        else:
            del self.of[name]
        return True


def with_hints(service: Object, endpoint: Object, zones: Mapping[str, str]) -> Object:
    """The endpoint with its zone and hints."""
    node = endpoint.get("nodeName") or ""
    zone = zones.get(node, "")
    if not zone:
        return endpoint
    shown = {**endpoint, "zone": zone}
    preference = get(service, "spec", "trafficDistribution", default="")
    if preference in _BY_ZONE and get(endpoint, "conditions", "ready"):
        shown["hints"] = {"forZones": [{"name": zone}]}
        if preference in _BY_NODE:
            shown["hints"]["forNodes"] = [{"name": node}]
    return shown
