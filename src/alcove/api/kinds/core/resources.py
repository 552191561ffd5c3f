"""Resource names (`cpu`, `hugepages-2Mi`, `example.com/gpu`): which names are allowed where, and amounts.

Containers, pods, limit ranges, quotas and nodes share these rules.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from alcove.api import names, quantity
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, not_found, not_supported, required
from alcove.api.objects import Object
from alcove.api.quantity import MILLI, ONE, Quantity, QuantityError
from alcove.api.short_cache import cache_short
from alcove.api.validation import NOT_NEGATIVE, FieldErrors, check_value, read_quantity

NameRule = Callable[[str, str, FieldErrors], None]
"""(resource, field, errors)"""

CONTAINER_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTED_OBJECTS = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
_REQUESTS_AND_LIMITS = tuple(
    f"{side}.{resource}" for side in ("requests", "limits") for resource in sorted(CONTAINER_RESOURCES)
)
QUOTA_RESOURCES = frozenset(
    (*CONTAINER_RESOURCES, *_REQUESTS_AND_LIMITS, "requests.storage", *_COUNTED_OBJECTS)
)
STANDARD_RESOURCES = QUOTA_RESOURCES | {"storage"}
_HUGE_PAGES = "hugepages-"
_QUOTA_HUGE_PAGES = (_HUGE_PAGES, "requests.hugepages-")
_POD_LEVEL = ("cpu", "hugepages-", "memory")
_NAMES_LENGTH_MAX = 1024


def is_huge_page(resource: str) -> bool:
    return resource.startswith(_HUGE_PAGES)


def is_native(resource: str) -> bool:
    """Whether the resource is Kubernetes' own: no domain, or a domain of kubernetes.io."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_extended(resource: str) -> bool:
    """Whether it is an extended resource (a device), counted in whole numbers."""
    if is_native(resource) or resource.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{resource}")


def allows_overcommit(resource: str) -> bool:
    return is_native(resource) and not is_huge_page(resource)


def is_counted_whole(resource: str) -> bool:
    return resource in _COUNTED_OBJECTS or is_extended(resource)


def check_resource_name(resource: str, field: str, errors: FieldErrors) -> None:
    """Check a standard resource, or one with a domain."""
    before = len(errors)
    check_value(resource, names.qualified_name, field, errors)
    if len(errors) != before or "/" in resource:
        return
    if resource not in STANDARD_RESOURCES and not resource.startswith(_QUOTA_HUGE_PAGES):
        errors.append(invalid(field, resource, "must be a standard resource type or fully qualified"))


def check_container_resource_name(resource: str, field: str, errors: FieldErrors) -> None:
    if resource in CONTAINER_RESOURCES:
        return
    check_resource_name(resource, field, errors)
    if "/" not in resource:
        if not is_huge_page(resource):
            errors.append(invalid(field, resource, "must be a standard resource for containers"))
    elif not is_native(resource) and not is_extended(resource):
        errors.append(invalid(field, resource, "doesn't follow extended resource name standard"))


def check_pod_resource_name(resource: str, field: str, errors: FieldErrors) -> None:
    """Check a pod-level resource."""
    before = len(errors)
    check_resource_name(resource, field, errors)
    if len(errors) == before and resource not in _POD_LEVEL and not is_huge_page(resource):
        errors.append(not_supported(field, resource, _POD_LEVEL))


def check_quota_resource_name(resource: str, field: str, errors: FieldErrors) -> None:
    check_resource_name(resource, field, errors)
    if "/" in resource or resource in QUOTA_RESOURCES or resource.startswith(_QUOTA_HUGE_PAGES):
        return
    errors.append(invalid(field, resource, "must be a standard resource for quota"))


def check_amount(resource: str, value: Any, field: str, errors: FieldErrors) -> Quantity | None:
    """Check that an amount is not negative, and is an integer if the resource is counted."""
    amount = read_quantity(value, field, errors)
    if amount is None:
        return None
    if amount.nano < 0:
        errors.append(invalid(field, str(amount), NOT_NEGATIVE))
    if resource not in CONTAINER_RESOURCES and is_counted_whole(resource) and amount.milli % 1000:
        errors.append(invalid(field, str(amount), "must be an integer"))
    return amount


def _check_huge_pages(resource: str, amount: Quantity, field: str, errors: FieldErrors) -> None:
    try:
        page = quantity.parse(resource.removeprefix(_HUGE_PAGES))
    except QuantityError:
        page = quantity.ZERO
    if page.nano <= 0 or page.nano % ONE or amount.value % page.value:
        message = f"{amount} is not positive integer multiple of {resource}"
        errors.append(invalid(field, str(amount), message))


def check_requirements(
    requirements: Object,
    path: str,
    errors: FieldErrors,
    name_rule: NameRule = check_container_resource_name,
    claim_names: Collection[str] = (),
) -> None:
    """Check `resources` of a container or pod: `limits`, `requests` and `claims`."""
    limits, requests = requirements.get("limits") or {}, requirements.get("requests") or {}
    ceilings: dict[str, Quantity | None] = {}
    for resource, value in limits.items():
        ceilings[resource] = _check_one(resource, value, f"{path}.limits", name_rule, errors)
    for resource, value in requests.items():
        amount = _check_one(resource, value, f"{path}.requests", name_rule, errors)
        if resource in ceilings:
            _check_against_limit(resource, amount, ceilings[resource], f"{path}.requests", errors)
        elif not allows_overcommit(resource):
            message = "Limit must be set for non overcommitable resources"
            errors.append(required(f"{path}.limits", message))
    if any(map(is_huge_page, (*limits, *requests))) and not {"cpu", "memory"} & {*limits, *requests}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    if claims := requirements.get("claims"):
        _check_claims(claims, claim_names, f"{path}.claims", errors)


def _check_one(
    resource: str, value: Any, path: str, name_rule: NameRule, errors: FieldErrors
) -> Quantity | None:
    field = f"{path}[{resource}]"
    name_rule(resource, field, errors)
    amount = check_amount(resource, value, field, errors)
    if amount is not None and is_huge_page(resource):
        _check_huge_pages(resource, amount, field, errors)
    return amount


def _check_against_limit(
    resource: str, amount: Quantity | None, limit: Quantity | None, path: str, errors: FieldErrors
) -> None:
    if amount is None or limit is None:
        return
    if amount.nano != limit.nano and not allows_overcommit(resource):
        message = f"must be equal to {resource} limit of {limit}"
        errors.append(invalid(path, str(amount), message))
    elif amount.nano > limit.nano:
        message = f"must be less than or equal to {resource} limit of {limit}"
        errors.append(invalid(path, str(amount), message))


def _check_claims(
    claims: Sequence[Object], claim_names: Collection[str], path: str, errors: FieldErrors
) -> None:
    seen: set[str] = set()
    parted: Counter[str] = Counter()
    allowed_names = ": " + ", ".join(sorted(claim_names)) if claim_names else " which is empty"
    if len(allowed_names) > _NAMES_LENGTH_MAX:
        allowed_names = allowed_names[:_NAMES_LENGTH_MAX] + "…"
    for index, claim in enumerate(claims):
        field, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(field))
            continue
        _check_claim_repeats(name, request, seen, parted, field, errors)
        if name not in claim_names:
            missing = not_found(field, name)
            message = f"{missing.body}: must be one of the names in pod.spec.resourceClaims{allowed_names}"
            errors.append(FieldError(missing.fault, field, message))


def _check_claim_repeats(
    name: str, request: str, seen: set[str], parted: Counter[str], field: str, errors: FieldErrors
) -> None:
    """A whole claim and requests of it (counted in `parted`) exclude each other; names must be unique."""
    if name in seen:
        errors.append(duplicate(field, name))
        return
    key = name
    if request:
        check_value(request, names.dns_label, f"{field}.request", errors)
        key = f"{name}/{request}"
    if key in seen:
        errors.append(duplicate(field, key))
    elif request:
        parted[name] += 1
    elif parted[name]:
        errors += [duplicate(field, name)] * parted[name]
    seen.add(key)


@cache_short(4096)
def _rounded(text: str) -> str:
    return str(quantity.parse(text).rounded_up(MILLI))


def default_resource_list(amounts: dict[str, Any]) -> None:
    """Convert amounts to canonical form, rounded up to thousandths. Invalid ones are left for validation."""
    for resource, value in amounts.items():
        try:
            amounts[resource] = _rounded(
                value.strip() if isinstance(value, str) else quantity.canonical(value)
            )
        except QuantityError:
            pass
