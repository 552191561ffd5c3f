"""ResourceQuotas: the total resources and objects of a namespace."""

from collections.abc import Sequence

from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.core.resources import (
    QUOTA_RESOURCES,
    check_amount,
    check_quota_resource_name,
    default_resource_list,
)
from alcove.api.kinds.metadata import IMMUTABLE
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

_POD_SCOPES = ("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_UNVALUED = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_PODS = ("pods",)
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_OPPOSITES = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_ERRORS_MAX = 32
"""Each error shows all scopes, so that many of both would have no useful bound."""
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _default(quota: Object) -> None:
    for holder in (quota.setdefault("spec", {}), quota.get("status", {})):
        for field in ("hard", "used"):
            if amounts := holder.get(field):
                default_resource_list(amounts)


def _validate(quota: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = quota.get("spec", {})
    _check_amounts(spec.get("hard", {}), "spec.hard", errors)
    scopes = spec.get("scopes", [])
    before = len(errors)
    for scope in scopes:
        if len(errors) - before > _ERRORS_MAX:
            break
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        message = "unsupported scope applied to resource"
        errors += [invalid("spec.scopes", scopes, message) for _ in _uncountable(scope, spec)[:_ERRORS_MAX]]
    _check_opposites(scopes, scopes, "spec.scopes", errors)
    if selector := spec.get("scopeSelector"):
        _check_selector(selector, spec, errors)
    return errors


def _check_amounts(amounts: dict[str, str], path: str, errors: FieldErrors) -> None:
    for resource, amount in amounts.items():
        check_quota_resource_name(resource, f"{path}[{resource}]", errors)
        check_amount(resource, amount, f"{path}[{resource}]", errors)


def _uncountable(scope: str, spec: Object) -> list[str]:
    """Return the quota's standard resources that the scope cannot count."""
    if scope in _POD_SCOPES:
        counted: tuple[str, ...] = _PODS + _COMPUTE
    elif scope == "BestEffort":
        counted = _PODS
    elif scope == "VolumeAttributesClass":
        counted = _CLAIMS
    else:
        return []
    return [
        resource for resource in spec.get("hard", ()) if _is_standard(resource) and resource not in counted
    ]


def _is_standard(resource: str) -> bool:
    return resource in QUOTA_RESOURCES or resource.startswith(("hugepages-", "requests.hugepages-"))


def _check_opposites(scopes: Sequence[str], shown: Sequence[str], path: str, errors: FieldErrors) -> None:
    for pair in _OPPOSITES:
        if all(scope in scopes for scope in pair):
            errors.append(invalid(path, list(shown), "conflicting scopes"))


def _check_selector(selector: Object, spec: Object, errors: FieldErrors) -> None:
    path = "spec.scopeSelector.matchExpressions"
    expressions = selector.get("matchExpressions", ())
    before = len(errors)
    for expression in expressions:
        if len(errors) - before > _ERRORS_MAX:
            break
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values = expression.get("values", [])
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        message = "unsupported scope applied to resource"
        errors += [invalid(path, selector, message) for _ in _uncountable(scope, spec)[:_ERRORS_MAX]]
        if scope in _UNVALUED and operator != "Exists":
            errors.append(invalid(f"{path}.operator", operator, _EXISTS_ONLY))
        if operator in ("In", "NotIn"):
            if not values:
                message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.append(required(f"{path}.values", message))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.append(invalid(f"{path}.values", values, message))
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    selected = [expression.get("scopeName", "") for expression in expressions]
    _check_opposites(selected, spec.get("scopes", []), path, errors)


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    scopes = new.get("spec", {}).get("scopes", [])
    if set(scopes) == set(old.get("spec", {}).get("scopes", [])):
        return []
    return [invalid("spec.scopes", scopes, IMMUTABLE)]


def _validate_status(new: Object, _old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("hard", "used"):
        _check_amounts(new.get("status", {}).get(field, {}), f"status.{field}", errors)
    return errors


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    prepare_create=lambda quota: quota.update(status={}),
    has_status=True,
)
