"""ResourceClaims and ResourceClaimTemplates. The spec is immutable; the allocation is in the status."""

from collections.abc import Mapping

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import fill, named, named_required, one_of_required, refused, unchanged
from alcove.api.kinds.core.nodeselectors import check_node_selector
from alcove.api.kinds.metadata import validate_annotations, validate_labels
from alcove.api.kinds.resource.devices import (
    CONFIGS_MAX,
    driver_name,
    each,
    each_named,
    full_name,
    repeated,
    validate_config,
    validate_selectors,
    validate_toleration,
)
from alcove.api.kinds.resource.slices import pool_name
from alcove.api.objects import Object, get
from alcove.api.validation import NOT_POSITIVE, same

REQUESTS_MAX = 32
CONSTRAINTS_MAX = 32
FIRST_AVAILABLE_MAX = 8
RESERVED_FOR_MAX = 256
MODES = ("All", "ExactCount")
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_A_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

Requests = Mapping[str, set[str]]
"""Names of requests, each with the names of its alternatives."""


def _default_request(request: Object) -> None:
    fill(request, "allocationMode", "ExactCount")
    if request["allocationMode"] == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _default_spec(spec: Object) -> None:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly") is not None:
            _default_request(request["exactly"])
        for alternative in request.get("firstAvailable") or ():
            _default_request(alternative)


def default_claim(claim: Object) -> None:
    _default_spec(claim.get("spec") or {})


def default_template(template: Object) -> None:
    _default_spec(get(template, "spec", "spec", default={}))


def validate_claim(claim: Object) -> list[FieldError]:
    return _spec(claim.get("spec") or {}, "spec")


def validate_template(template: Object) -> list[FieldError]:
    spec = template.get("spec") or {}
    meta = spec.get("metadata") or {}
    errors = validate_labels(meta.get("labels") or {}, "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations") or {}, "spec.metadata.annotations")
    return errors + _spec(spec.get("spec") or {}, "spec.spec")


def _requests(devices: Object) -> dict[str, set[str]]:
    return {
        request.get("name", ""): {each.get("name", "") for each in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _spec(spec: Object, path: str) -> list[FieldError]:
    devices, path = spec.get("devices") or {}, f"{path}.devices"
    request_names = _requests(devices)
    errors = each_named(devices.get("requests") or (), REQUESTS_MAX, _request, f"{path}.requests")
    errors += each(
        devices.get("constraints") or (),
        CONSTRAINTS_MAX,
        lambda constraint, where: _constraint(constraint, request_names, where),
        f"{path}.constraints",
    )
    return errors + each(
        devices.get("config") or (),
        CONFIGS_MAX,
        lambda config, where: _references(config, request_names, where) + validate_config(config, where),
        f"{path}.config",
    )


def _request(request: Object, path: str) -> list[FieldError]:
    errors = named(request.get("name", ""), names.dns_label, f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or ()
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_OF)]
    if exactly is not None and alternatives:
        return [*errors, refused(path, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return errors + _exact(exactly, f"{path}.exactly")
    return errors + each_named(alternatives, FIRST_AVAILABLE_MAX, _alternative, f"{path}.firstAvailable")


def _alternative(request: Object, path: str) -> list[FieldError]:
    return named(request.get("name", ""), names.dns_label, f"{path}.name") + _exact(request, path)


def _exact(request: Object, path: str) -> list[FieldError]:
    errors = named_required(
        request.get("deviceClassName", ""), names.dns_subdomain, f"{path}.deviceClassName"
    )
    errors += validate_selectors(request.get("selectors") or (), f"{path}.selectors")
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, MODES))
    elif mode == "All" and count:
        message = "must not be specified when allocationMode is 'All'"
        errors.append(invalid(f"{path}.count", count, message))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, NOT_POSITIVE))
    for index, toleration in enumerate(request.get("tolerations") or ()):
        errors += validate_toleration(toleration, f"{path}.tolerations[{index}]")
    return errors


def _constraint(constraint: Object, request_names: Requests, path: str) -> list[FieldError]:
    errors = _references(constraint, request_names, path)
    set_fields = [
        field for field in ("matchAttribute", "distinctAttribute") if constraint.get(field) is not None
    ]
    if len(set_fields) != 1:
        message = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
        return [*errors, required(path, message)]
    return errors + full_name(constraint[set_fields[0]], f"{path}.{set_fields[0]}")


def _references(holder: Object, request_names: Requests, path: str) -> list[FieldError]:
    references = holder.get("requests") or ()
    errors = each(
        references,
        REQUESTS_MAX,
        lambda text, where: _reference(text, request_names, where),
        f"{path}.requests",
    )
    return errors + repeated(references[:REQUESTS_MAX], f"{path}.requests")


def _reference(text: str, request_names: Requests, path: str) -> list[FieldError]:
    request, slash, alternative = text.partition("/")
    if request in request_names and (not slash or alternative in request_names[request]):
        return []
    return [invalid(path, text, _NOT_A_REQUEST)]


def validate_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new, old, "", "spec")


def validate_claim_status(new: Object, old: Object) -> list[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    reserved = status.get("reservedFor") or []
    errors = each(reserved, RESERVED_FOR_MAX, _consumer, "status.reservedFor")
    errors += repeated(
        [consumer.get("uid", "") for consumer in reserved[:RESERVED_FOR_MAX]], "status.reservedFor"
    )
    allocation, old_allocation = status.get("allocation"), before.get("allocation")
    if reserved and allocation is None:
        message = "may not be specified when `allocated` is not set"
        errors.append(forbidden("status.reservedFor", message))
    elif get(new, "metadata", "deletionTimestamp") and _added(reserved, before.get("reservedFor") or []):
        message = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errors.append(forbidden("status.reservedFor", message))
    if allocation is None:
        return errors
    if old_allocation is not None:
        changed = not same(allocation, old_allocation)
        return errors + ([invalid("status.allocation", allocation, "field is immutable")] if changed else [])
    return errors + _allocation(allocation, _requests(get(new, "spec", "devices", default={})))


def _added(now: list[Object], before: list[Object]) -> bool:
    return any(consumer not in before for consumer in now)


def _consumer(consumer: Object, path: str) -> list[FieldError]:
    return [required(f"{path}.{field}") for field in ("resource", "name", "uid") if not consumer.get(field)]


def _allocation(allocation: Object, request_names: Requests) -> list[FieldError]:
    devices, path = allocation.get("devices") or {}, "status.allocation.devices"
    errors = each(
        devices.get("results") or (),
        REQUESTS_MAX,
        lambda result, where: _result(result, request_names, where),
        f"{path}.results",
    )
    for index, config in enumerate(devices.get("config") or ()):
        where = f"{path}.config[{index}]"
        errors += one_of_required(config.get("source", ""), ("FromClaim", "FromClass"), f"{where}.source")
        errors += _references(config, request_names, where) + validate_config(config, where)
    if allocation.get("nodeSelector") is not None:
        check_node_selector(allocation["nodeSelector"], "status.allocation.nodeSelector", errors)
    return errors


def _result(result: Object, request_names: Requests, path: str) -> list[FieldError]:
    errors = _reference(result.get("request", ""), request_names, f"{path}.request")
    errors += driver_name(result.get("driver", ""), f"{path}.driver")
    errors += pool_name(result.get("pool", ""), f"{path}.pool")
    return errors + named(result.get("device", ""), names.dns_label, f"{path}.device")


STRATEGIES: dict[str, Strategy] = {
    "resourceclaims": Strategy(
        default=default_claim,
        validate=validate_claim,
        validate_update=validate_update,
        validate_status=validate_claim_status,
        status_leaves=CLIENT_METADATA,
        has_status=True,
    ),
    "resourceclaimtemplates": Strategy(
        default=default_template,
        validate=validate_template,
        validate_update=validate_update,
    ),
}
