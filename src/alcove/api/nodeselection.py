"""Whether a node matches a pod's node selector and required node affinity. Pure."""

from collections.abc import Mapping

from alcove.api.objects import Object, get, labels

NAME_FIELD = "metadata.name"


def is_selected(spec: Object, node: Object) -> bool:
    """`spec` is a pod spec; `node` is ring0's Node object."""
    node_labels = labels(node)
    if not (spec.get("nodeSelector") or {}).items() <= node_labels.items():
        return False
    required = get(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    fields = {NAME_FIELD: node["metadata"]["name"]}
    return any(_matches(term, node_labels, fields) for term in required.get("nodeSelectorTerms") or ())


def _matches(term: Object, node_labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    """A term without requirements matches nothing."""
    requirements = [(each, node_labels) for each in term.get("matchExpressions") or ()]
    requirements += [(each, fields) for each in term.get("matchFields") or ()]
    return bool(requirements) and all(_holds(each, values) for each, values in requirements)


def _holds(requirement: Object, values: Mapping[str, str]) -> bool:
    key: str = requirement.get("key", "")
    operands: list[str] = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return values.get(key) in operands
        case "NotIn":
            return values.get(key) not in operands
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt" | "Lt" as operator if len(operands) == 1:
            number, bound = _integer(values.get(key, "")), _integer(operands[0])
            if number is None or bound is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _integer(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None
