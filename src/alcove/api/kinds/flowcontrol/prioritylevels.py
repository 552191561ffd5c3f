"""PriorityLevelConfigurations: defaults and checks, with Kubernetes' messages."""

import math

from alcove.api.fields import FieldError, duplicate, forbidden, invalid, not_supported, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import fill
from alcove.api.kinds.flowcontrol.defaults import EXEMPT, MANDATORY, PRIORITY_LEVELS
from alcove.api.objects import Object, name

SHARES_DEFAULT = 30
QUEUES_DEFAULT, HAND_SIZE_DEFAULT, QUEUE_LENGTH_DEFAULT = 64, 8, 50
QUEUES_MAX = 10_000_000
HASH_BITS_MAX = 60
"""Bits of a flow's hash that may be used to deal it a hand of queues."""

_ZERO_SHARES = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_NOT_NEGATIVE = "must be a non-negative integer"


def default_level(obj: Object) -> None:
    spec = obj.get("spec") or {}
    if (exempt := spec.get("exempt")) is not None:
        fill(exempt, "nominalConcurrencyShares", 0)
        fill(exempt, "lendablePercent", 0)
    limited = spec.get("limited")
    if limited is None:
        return
    fill(limited, "nominalConcurrencyShares", SHARES_DEFAULT)
    fill(limited, "lendablePercent", 0)
    queuing = (limited.get("limitResponse") or {}).get("queuing")
    if queuing is not None:
        for field, value in (
            ("handSize", HAND_SIZE_DEFAULT),
            ("queues", QUEUES_DEFAULT),
            ("queueLengthLimit", QUEUE_LENGTH_DEFAULT),
        ):
            queuing[field] = queuing.get(field) or value


def validate_level(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if _ZERO_SHARES in (obj["metadata"].get("annotations") or {}):
        errors.append(forbidden("metadata.annotations", f"annotation '{_ZERO_SHARES}' is forbidden"))
    if (name(obj) == EXEMPT) != (spec.get("type") == "Exempt"):
        message = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid("spec.type", spec.get("type", ""), message))
    errors += _of_type(spec)
    if name(obj) in MANDATORY:
        errors += _fixed(name(obj), spec)
    return errors + check_conditions(obj)


def _of_type(spec: Object) -> list[FieldError]:
    match spec.get("type", ""):
        case "":
            return [required("spec.type")]
        case "Exempt":
            errors = []
            if spec.get("limited") is not None:
                errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
            return errors + _shares(spec.get("exempt") or {}, "spec.exempt")
        case "Limited":
            errors = []
            if spec.get("exempt") is not None:
                errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
            if spec.get("limited") is None:
                return [*errors, required("spec.limited", "must not be empty when type is Limited")]
            return errors + _limited(spec["limited"], "spec.limited")
        case other:
            return [not_supported("spec.type", other, ("Exempt", "Limited"))]


def _shares(level: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    shares, lendable = level.get("nominalConcurrencyShares"), level.get("lendablePercent")
    if shares is not None and shares < 0:
        errors.append(invalid(f"{path}.nominalConcurrencyShares", shares, _NOT_NEGATIVE))
    if lendable is not None and not 0 <= lendable <= 100:
        message = "must be between 0 and 100, inclusive"
        errors.append(invalid(f"{path}.lendablePercent", lendable, message))
    return errors


def _limited(limited: Object, path: str) -> list[FieldError]:
    errors = _shares(limited, path) + _response(limited.get("limitResponse") or {}, f"{path}.limitResponse")
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        message = f"if specified, {_NOT_NEGATIVE}"
        errors.append(invalid(f"{path}.borrowingLimitPercent", borrowing, message))
    return errors


def _response(response: Object, path: str) -> list[FieldError]:
    queuing = response.get("queuing")
    match response.get("type", ""):
        case "":
            return [required(f"{path}.type")]
        case "Reject":
            message = "must be nil if limited.limitResponse.type is not Limited"
            return [forbidden(f"{path}.queuing", message)] if queuing is not None else []
        case "Queue":
            if queuing is not None:
                return _queuing(queuing, f"{path}.queuing")
            message = "must not be empty if limited.limitResponse.type is Limited"
            return [required(f"{path}.queuing", message)]
        case other:
            return [not_supported(f"{path}.type", other, ("Queue", "Reject"))]


def _queuing(queuing: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    if queuing.get("queueLengthLimit", 0) <= 0:
        errors.append(
            invalid(f"{path}.queueLengthLimit", queuing.get("queueLengthLimit", 0), "must be positive")
        )
    if queues <= 0:
        errors.append(invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > QUEUES_MAX:
        errors.append(invalid(f"{path}.queues", queues, f"must not be greater than {QUEUES_MAX}"))
    if hand <= 0:
        errors.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        message = f"should not be greater than queues ({queues})"
        errors.append(invalid(f"{path}.handSize", hand, message))
    elif math.ceil(math.log2(queues) * hand) > HASH_BITS_MAX:
        message = (
            f"required entropy bits of deckSize {queues} and handSize {hand} "
            f"should not be greater than {HASH_BITS_MAX}"
        )
        errors.append(invalid(f"{path}.handSize", hand, message))
    return errors


def _fixed(level: str, spec: Object) -> list[FieldError]:
    fixed = PRIORITY_LEVELS[level]["spec"]
    if level != EXEMPT:
        message = f"spec of '{level}' must equal the fixed value"
        return [] if spec == fixed else [invalid("spec", spec, message)]
    if {**spec, "exempt": fixed["exempt"]} == fixed:
        return []
    message = f"spec of '{level}' except the 'spec.exempt' field must equal the fixed value"
    return [invalid("spec", spec, message)]


def check_conditions(obj: Object) -> list[FieldError]:
    """Each condition has a type of its own."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        path, kind = f"status.conditions[{index}].type", condition.get("type", "")
        if kind in seen:
            errors.append(duplicate(path, kind))
        seen.add(kind)
        if not kind:
            errors.append(required(path))
    return errors


STRATEGIES: dict[str, Strategy] = {
    "prioritylevelconfigurations": Strategy(
        default=default_level,
        validate=validate_level,
        validate_status=lambda new, _old: check_conditions(new),
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
    ),
}
