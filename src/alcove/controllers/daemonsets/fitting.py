"""The nodes that a daemon's pods run on: node selectors, affinity and taints. Pure.

Free resources are not considered: the scheduler does that, and may preempt other pods.
"""

from __future__ import annotations

from msgspec import Struct

from alcove.api.nodeselection import NAME_FIELD, is_selected
from alcove.api.objects import Object, get
from alcove.api.tolerations import NO_EXECUTE, NO_SCHEDULE, is_tolerated, read_taints, read_tolerations


def _tolerates(key: str, effect: str) -> Object:
    return {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}


TOLERATIONS = (
    _tolerates("not-ready", NO_EXECUTE),
    _tolerates("unreachable", NO_EXECUTE),
    _tolerates("disk-pressure", NO_SCHEDULE),
    _tolerates("memory-pressure", NO_SCHEDULE),
    _tolerates("pid-pressure", NO_SCHEDULE),
    _tolerates("unschedulable", NO_SCHEDULE),
)
"""Added to every daemon pod."""
HOST_NETWORK = _tolerates("network-unavailable", NO_SCHEDULE)


class NodeFit(Struct, frozen=True):
    runs: bool
    """Whether the node should have a pod."""
    stays: bool
    """Whether an existing pod may stay."""


def tolerations(spec: Object) -> list[Object]:
    specified: list[Object] = list(spec.get("tolerations") or ())
    added = [*TOLERATIONS, *((HOST_NETWORK,) if spec.get("hostNetwork") else ())]
    return [*specified, *(each for each in added if each not in specified)]


def fit(spec: Object, node: Object) -> NodeFit:
    """`spec` is the pod spec of the daemon set's template; `node` is ring0's Node object."""
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]) or not is_selected(spec, node):
        return NodeFit(False, False)
    tolerated = read_tolerations(tolerations(spec))
    taints = read_taints(get(node, "spec", "taints", default=()))
    untolerated = {taint.effect for taint in taints if not is_tolerated(taint, tolerated)}
    stays = NO_EXECUTE not in untolerated
    return NodeFit(stays and NO_SCHEDULE not in untolerated, stays)


def pinned(spec: Object, node: str) -> Object:
    """The pod spec with a node affinity for exactly one node, so that the scheduler binds it only there."""
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    node_affinity = dict(affinity.get("nodeAffinity") or {})
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    affinity["nodeAffinity"] = node_affinity
    return {**spec, "affinity": affinity, "tolerations": tolerations(spec)}


def node_of(pod: Object) -> str:
    """The node that a pod is bound to, or else pinned to by its affinity; "" if neither."""
    if name := get(pod, "spec", "nodeName"):
        return str(name)
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in get(pod, *path, "nodeSelectorTerms", default=()):
        for each in term.get("matchFields") or ():
            if each.get("key") == NAME_FIELD and len(each.get("values") or ()) == 1:
                return str(each["values"][0])
    return ""
