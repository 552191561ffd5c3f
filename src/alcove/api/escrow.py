"""The escrow record of a node: a ConfigMap in ring0 that says how much of the node dedicated planes' pods may use.

The scheduler writes it before it binds a pod of such a plane. Scheduler and agent count what a plane says is on a node
only up to the record: the plane's API server may be anybody's, and say anything.
"""

import msgspec

from alcove.api.objects import Object, get

NAMESPACE = "alcove-escrow"
"""Of ring0. The ConfigMaps have the names of nodes, and a key for each plane."""


def amounts_of(text: object) -> dict[str, int]:
    """What is recorded for one plane: thousandths of a CPU, bytes, counts. Nothing if the entry is invalid."""
    try:
        return msgspec.json.decode(str(text), type=dict[str, int])
    except msgspec.DecodeError:
        return {}


def recorded(record: Object, plane: str) -> dict[str, int]:
    return amounts_of(get(record, "data", plane, default=""))
