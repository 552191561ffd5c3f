"""Where endpoints are, and who should use those nearby. Pure, but for the table of nodes' zones.

`trafficDistribution` of a service: `PreferClose` and `PreferSameZone` hint each endpoint to its own zone,
`PreferSameNode` to its own node as well. Endpoints that are not ready, or whose zone is not known, have no
hint: then nobody's is used, and all are.
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
    """Node → zone, of ring0's nodes that have one."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def note(self, change: ObjectChange) -> bool:
        """Whether the node's zone is another now."""
        name = change.key.name
        zone = "" if change.kind is ChangeType.DELETED else zone_of(change.obj)
        if zone == self.of.get(name, ""):
            return False
        if zone:
            self.of[name] = zone
        else:
            del self.of[name]
        return True


def placed(service: Object, endpoint: Object, zones: Mapping[str, str]) -> Object:
    """The endpoint with its zone and hints."""
    node = endpoint.get("nodeName") or ""
    zone = zones.get(node, "")
    if not zone:
        return endpoint
    shown = {**endpoint, "zone": zone}
    wish = get(service, "spec", "trafficDistribution", default="")
    if wish in _BY_ZONE and get(endpoint, "conditions", "ready"):
        shown["hints"] = {"forZones": [{"name": zone}]}
        if wish in _BY_NODE:
            shown["hints"]["forNodes"] = [{"name": node}]
    return shown
