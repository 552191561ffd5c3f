"""Nodes: the machines that pods run on."""

import re
from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, quote
from alcove.api.kind import Strategy
from alcove.api.kinds.core.pods.affinity import TAINT_EFFECTS
from alcove.api.kinds.core.resources import check_amount, default_resource_list
from alcove.api.objects import Object, get
from alcove.api.validation import FieldErrors, check_positive, check_required_choice, check_value

_FEATURE_LENGTH_MAX = 253
_is_feature = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*").fullmatch


def _default(node: Object) -> None:
    _pair_ranges(node.setdefault("spec", {}))
    status = node.get("status", {})
    for field in ("capacity", "allocatable"):
        if amounts := status.get(field):
            default_resource_list(amounts)
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _pair_ranges(spec: Object) -> None:
    """Pair `podCIDR`, the older field, with the first of `podCIDRs`. If they differ, `podCIDR` wins."""
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs")
    if first and (not ranges or ranges[0] != first):
        spec["podCIDRs"] = [first]
    elif ranges and not first:
        spec["podCIDR"] = ranges[0]


def _validate(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = node.get("spec", {})
    _check_taints(spec.get("taints", ()), errors)
    errors += _status_errors(node)
    ranges = spec.get("podCIDRs", [])
    for index, cidr in enumerate(ranges):
        errors += addresses.cidr_errors(f"spec.podCIDRs[{index}]", cidr)
    families = {addresses.ip_family(cidr) for cidr in ranges}
    if len(ranges) > 2 or (len(ranges) == 2 and families != {"IPv4", "IPv6"}):
        message = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", ranges, message))
    return errors


def _check_taints(taints: Sequence[Object], errors: FieldErrors) -> None:
    """The error paths contain `metadata`, as in Kubernetes."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        path, key, value = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("value", "")
        check_value(key, names.label_key, f"{path}.key", errors)
        if messages := names.label_value(value):
            errors.append(invalid(f"{path}.value", value, ";".join(messages)))
        effect = taint.get("effect", "")
        check_required_choice(effect, TAINT_EFFECTS, f"{path}.effect", errors)
        if (key, effect) in seen:
            twice = duplicate(path, taint)
            unique = f"{twice.body}: taints must be unique by key and effect pair"
            errors.append(FieldError(twice.fault, path, unique))
        seen.add((key, effect))


def _status_errors(node: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    status = node.get("status", {})
    for field in ("capacity", "allocatable"):
        for resource, amount in status.get(field, {}).items():
            check_amount(resource, amount, f"status.{field}.{resource}", errors)
    swap = get(status, "nodeInfo", "swap", "capacity")
    if swap is not None:
        check_positive(swap, "metadata.nodeSwapStatus.capacity", errors)
    _check_features(status.get("declaredFeatures", ()), errors)
    return errors


def _check_features(features: Sequence[str], errors: FieldErrors) -> None:
    for index, feature in enumerate(features):
        field = f"status.declaredFeatures[{index}]"
        if message := _feature_error(feature):
            errors.append(invalid(field, feature, f"invalid feature name {quote(feature)}: {message}"))
        if index and features[index - 1] == feature:
            errors.append(duplicate(field, feature))
        elif index and features[index - 1] > feature:
            errors.append(invalid(field, feature, "list must be sorted alphabetically"))


def _feature_error(feature: str) -> str:
    if len(feature) > _FEATURE_LENGTH_MAX:
        return names.too_long(_FEATURE_LENGTH_MAX)
    if _is_feature(feature):
        return ""
    return (
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
        "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
    )


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(field) and spec.get(field) != before[field]:
            message = f'node updates may not change {shown} except from "" to valid'
            errors.append(forbidden(f"spec.{field}", message))
    if spec.get("externalID", "") != before.get("externalID", ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    errors = _status_errors(new)
    seen_pairs: set[tuple[str, str]] = set()
    for index, address in enumerate(get(new, "status", "addresses", default=())):
        pair = address.get("type", ""), address.get("address", "")
        if pair in seen_pairs:
            errors.append(duplicate(f"status.addresses[{index}]", address))
        seen_pairs.add(pair)
    return errors


def _unschedulable(node: Object) -> str:
    return "true" if get(node, "spec", "unschedulable") else "false"


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    fields={"spec.unschedulable": _unschedulable},
    has_status=True,
    keeps_new_status=True,
)
