"""Acceptance of a CRD's names: computes its status from the CRD and the others of its group. Pure: no I/O.

The API server does this in every write of a CRD, so a CRD is Established when its creation returns.
"""

from collections.abc import Iterable, Sequence

from alcove.api.kind import Kind
from alcove.api.kinds.apiextensions.approval import ANNOTATION, is_protected
from alcove.api.kinds.webhookclients import validate_ca_bundle
from alcove.api.objects import Object, annotations, get, name

_TRUE, _FALSE = "True", "False"


def accept(crd: Object, others: Iterable[Object], stock: Iterable[Kind], now: str) -> Object:
    """The CRD's status: accepted names, conditions, stored versions.

    `others` are the tenant's other CRDs, `stock` the built-in kinds. Names that `crd` has in its status
    already stay accepted. `now` is an RFC 3339 timestamp.
    """
    requested, accepted_names = (
        get(crd, "spec", "names", default={}),
        get(crd, "status", "acceptedNames", default={}),
    )
    resources, kinds = _names_in_use(crd, others, stock)
    names, conflicts = _choose(requested, accepted_names, resources, kinds)
    accepted = _condition("NamesAccepted", _TRUE, "NoConflicts", "no conflicts found")
    for reason, message in conflicts:
        accepted = _condition("NamesAccepted", _FALSE, reason, message)
    conditions = [accepted, _established(crd, not conflicts), *_approval(crd)]
    before = get(crd, "status", "conditions", default=[])
    stored = get(crd, "status", "storedVersions", default=[])
    return {
        "acceptedNames": names,
        "conditions": _merge(before, conditions, now),
        "storedVersions": stored,
    }


def is_true(crd: Object, type: str) -> bool:
    conditions = get(crd, "status", "conditions", default=[])
    return any(each.get("type") == type and each.get("status") == _TRUE for each in conditions)


def is_established(crd: Object) -> bool:
    return is_true(crd, "Established")


def _names_in_use(crd: Object, others: Iterable[Object], stock: Iterable[Kind]) -> tuple[set[str], set[str]]:
    """Names in use in the CRD's group: of resources, and of kinds."""
    group = get(crd, "spec", "group", default="")
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if name(other) == name(crd) or get(other, "spec", "group") != group:
            continue
        held = get(other, "status", "acceptedNames", default={})
        resources.update(
            filter(None, (held.get("plural"), held.get("singular"), *(held.get("shortNames") or ())))
        )
        kinds.update(filter(None, (held.get("kind"), held.get("listKind"))))
    for kind in stock:
        if kind.group == group:
            resources.update((kind.resource, kind.singular, *kind.short_names))
            kinds.update((kind.kind, kind.list_kind or f"{kind.kind}List"))
    return resources, kinds


def _choose(
    requested: Object, held: Object, resources: set[str], kinds: set[str]
) -> tuple[Object, Sequence[tuple[str, str]]]:
    """The accepted names, and (reason, message) for each conflict."""
    names: Object = dict(held)
    conflicts: list[tuple[str, str]] = []
    for field, taken in (("plural", resources), ("singular", resources)):
        _accept_name(field, requested, held, taken, names, conflicts)
    short_names = requested.get("shortNames") or []
    conflicting = [
        each for each in short_names if each not in (held.get("shortNames") or ()) and each in resources
    ]
    if conflicting:
        message = ", ".join(f'"{each}" is already in use' for each in conflicting)
        conflicts.append(("ShortNamesConflict", message if len(conflicting) == 1 else f"[{message}]"))
    elif short_names:
        names["shortNames"] = short_names
    else:
        names.pop("shortNames", None)
    for field, taken in (("kind", kinds), ("listKind", kinds)):
        _accept_name(field, requested, held, taken, names, conflicts)
    if requested.get("categories"):
        names["categories"] = requested["categories"]
    else:
        names.pop("categories", None)
    # These two are required in Kubernetes' type.
    names.setdefault("plural", "")
    names.setdefault("kind", "")
    return names, conflicts


def _accept_name(
    field: str,
    requested: Object,
    held: Object,
    taken: set[str],
    names: Object,
    conflicts: list[tuple[str, str]],
) -> None:
    requested_name = requested.get(field) or ""
    if requested_name != (held.get(field) or "") and requested_name in taken:
        conflicts.append((f"{field[0].upper()}{field[1:]}Conflict", f'"{requested_name}" is already in use'))
    elif requested_name:
        names[field] = requested_name


def _established(crd: Object, accepted: bool) -> Object:
    if is_established(crd):
        return _condition(
            "Established", _TRUE, "InitialNamesAccepted", "the initial names have been accepted"
        )
    if not accepted:
        return _condition("Established", _FALSE, "NotAccepted", "not all names are accepted")
    bundle = get(crd, "spec", "conversion", "webhook", "clientConfig", "caBundle", default="")
    if bundle and validate_ca_bundle(bundle, ""):
        message = "The conversion webhook CABundle is invalid"
        return _condition("Established", _FALSE, "InvalidCABundle", message)
    return _condition("Established", _TRUE, "InitialNamesAccepted", "the initial names have been accepted")


def _approval(crd: Object) -> list[Object]:
    """The condition for protected groups (`*.k8s.io`), whose CRDs must name their API approval."""
    if not is_protected(get(crd, "spec", "group", default="")):
        return []
    type, text = "KubernetesAPIApprovalPolicyConformant", annotations(crd).get(ANNOTATION, "")
    if text.startswith("unapproved"):
        return [_condition(type, _FALSE, "UnapprovedAnnotation", f'not approved: "{text}"')]
    return [_condition(type, _TRUE, "ApprovedAnnotation", f"approved in {text}")] if text else []


def _condition(type: str, status: str, reason: str, message: str) -> Object:
    return {"type": type, "status": status, "reason": reason, "message": message}


def _merge(before: Sequence[Object], conditions: Sequence[Object], now: str) -> list[Object]:
    """Merges conditions by type; `lastTransitionTime` changes only with the status."""
    old = {each.get("type"): each for each in before}
    fresh = {each["type"]: _timed(each, old.get(each["type"]), now) for each in conditions}
    merged = [fresh.pop(each["type"], each) if each.get("type") in fresh else each for each in before]
    return [*merged, *fresh.values()]


def _timed(condition: Object, before: Object | None, now: str) -> Object:
    changed = before is None or before.get("status") != condition["status"]
    since = now if changed or before is None else before.get("lastTransitionTime", now)
    return {"lastTransitionTime": since, **condition}


def with_condition(crd: Object, condition: Object, now: str) -> None:
    """Sets one condition, in place."""
    status = crd.setdefault("status", {})
    status["conditions"] = _merge(status.get("conditions") or [], [condition], now)
