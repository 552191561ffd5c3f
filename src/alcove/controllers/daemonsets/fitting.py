"""Which nodes a daemon's pods run on: selectors, affinity and taints. Pure.

A daemon does not ask whether there is room: the scheduler decides that, and may make some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from alcove.api.objects import Object, get, labels
from alcove.controllers.tolerations import covers

_NO_SCHEDULE, _NO_EXECUTE = "NoSchedule", "NoExecute"
NAME_FIELD = "metadata.name"


def _tolerates(key: str, effect: str) -> Object:
    return {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect}


TOLERATIONS = (
    _tolerates("not-ready", _NO_EXECUTE),
    _tolerates("unreachable", _NO_EXECUTE),
    _tolerates("disk-pressure", _NO_SCHEDULE),
    _tolerates("memory-pressure", _NO_SCHEDULE),
    _tolerates("pid-pressure", _NO_SCHEDULE),
    _tolerates("unschedulable", _NO_SCHEDULE),
)
"""A daemon stays where others must go."""
HOST_NETWORK = _tolerates("network-unavailable", _NO_SCHEDULE)


class NodeFit(Struct, frozen=True):
    runs: bool
    """A pod should be made there."""
    stays: bool
    """One that is there may stay."""


def tolerations(spec: Object) -> list[Object]:
    own: list[Object] = list(spec.get("tolerations") or ())
    added = [*TOLERATIONS, *((HOST_NETWORK,) if spec.get("hostNetwork") else ())]
    return [*own, *(each for each in added if each not in own)]


def fit(spec: Object, node: Object) -> NodeFit:
    """`spec` is the template's, of pods; the node is as ring0 has it."""
    if spec.get("nodeName") not in (None, "", node["metadata"]["name"]) or not _is_chosen(spec, node):
        return NodeFit(False, False)
    tolerated = tolerations(spec)
    taints: Sequence[Object] = get(node, "spec", "taints", default=())
    hard = {taint.get("effect") for taint in taints if not any(covers(each, taint) for each in tolerated)}
    stays = _NO_EXECUTE not in hard
    return NodeFit(stays and _NO_SCHEDULE not in hard, stays)


def _is_chosen(spec: Object, node: Object) -> bool:
    own = labels(node)
    if not (spec.get("nodeSelector") or {}).items() <= own.items():
        return False
    required = get(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {NAME_FIELD: node["metadata"]["name"]}
    return any(_matches(term, own, fields) for term in required.get("nodeSelectorTerms") or ())


def _matches(term: Object, own: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """A term without requirements matches nothing."""
    desired = [(each, own) for each in term.get("matchExpressions") or ()]
    desired += [(each, fields) for each in term.get("matchFields") or ()]
    return bool(desired) and all(_holds(each, values) for each, values in desired)


def _holds(requirement: Object, values: Mapping[str, str]) -> bool:
    key: str = requirement.get("key", "")
    given: list[str] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return values.get(key) in given
        case "NotIn":
            return values.get(key) not in given
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt" | "Lt" as operator if len(given) == 1:
            number, bound = _integer(values.get(key, "")), _integer(given[0])
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def pinned(spec: Object, node: str) -> Object:
    """The pod's spec, bound to one node by its affinity: the scheduler places it there or nowhere."""
    field = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    affinity = dict(spec.get("affinity") or {})
    of_node = dict(affinity.get("nodeAffinity") or {})
    of_node["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    affinity["nodeAffinity"] = of_node
    return {**spec, "affinity": affinity, "tolerations": tolerations(spec)}


def node_of(pod: Object) -> str:
    """The node that a pod is on, or is meant for."""
    if name := get(pod, "spec", "nodeName"):
        return str(name)
    path = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in get(pod, *path, "nodeSelectorTerms", default=()):
        for each in term.get("matchFields") or ():
            if each.get("key") == NAME_FIELD and len(each.get("values") or ()) == 1:
                return str(each["values"][0])
    return ""
