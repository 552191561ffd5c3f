"""Tenants: isolated sets of API objects; the kind exists only in ring0."""

import re
from collections.abc import Sequence
from ipaddress import ip_network

from alcove.api import addresses, destinations, names, quantity
from alcove.api.fields import FieldError, invalid, too_many
from alcove.api.ids import ALL
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.core.backups import check_backup
from alcove.api.kinds.core.control_planes import (
    SHARED,
    check_control_plane,
    check_mode_change,
    check_serving_mode,
    check_store_change,
    keep_serving_mode,
)
from alcove.api.kinds.core.lifecycles import (
    activate,
    check_finalizers,
    default_phase,
    keep_finalizers,
    phase,
    validate_finalize,
    validate_phase,
)
from alcove.api.kinds.core.resources import check_amount, check_quota_resource_name
from alcove.api.kinds.core.sleep import check_sleep
from alcove.api.kinds.metadata import immutable
from alcove.api.objects import Object, get
from alcove.api.quantity import QuantityError
from alcove.api.validation import INT32_MAX, FieldErrors, check_choice, check_value

FINALIZER = "arktos"
POD_SECURITY_LEVELS = ("baseline", "privileged", "restricted")
TRUSTED_LEVEL = "privileged"
DEFAULT_WEIGHT = 1
REVOKED_MAX = 1_000
"""Entries of `spec.revokedCertificates`."""
ALLOWED_CIDRS_MAX = 64
"""Entries of `spec.egress.allowedCIDRs`, per tenant; a Tenant with more is refused."""
DOMAINS_MAX = 256
"""Entries of `spec.domains`."""
_SERIAL = re.compile(r"[0-9A-Fa-f]{1,2}(:?[0-9A-Fa-f]{2}){0,31}|[0-9A-Fa-f]{1,64}")


def check_tenant_name(name: str, is_prefix: bool) -> Sequence[str]:
    """A tenant's name must be a DNS label, because it is part of paths, certificates and network names.

    `system` is valid here: ring0's tenant exists, so creating it again fails with AlreadyExists.
    """
    if name == ALL and not is_prefix:
        return ("is reserved: in a path it stands for all tenants at once",)
    return names.name_is_dns_label(name, is_prefix)


def _default(tenant: Object) -> None:
    spec = tenant.setdefault("spec", {})
    control_plane = spec.setdefault("controlPlane", {})
    if not control_plane.get("mode"):
        control_plane["mode"] = SHARED
    spec.setdefault("weight", DEFAULT_WEIGHT)
    default_phase(tenant)


def _validate(tenant: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec = tenant.get("spec", {})
    if cluster := spec.get("storageClusterId"):
        check_value(cluster, names.label_value, "spec.storageClusterId", errors)
    check_control_plane(tenant, errors)
    weight = spec.get("weight", DEFAULT_WEIGHT)
    if not 1 <= weight <= INT32_MAX:
        errors.append(invalid("spec.weight", weight, names.out_of_range(1, INT32_MAX)))
    if level := spec.get("podSecurity"):
        check_choice(level, POD_SECURITY_LEVELS, "spec.podSecurity", errors)
    for which in ("hard", "min"):
        _check_quota(get(spec, "quota", which, default={}), f"spec.quota.{which}", errors)
    _check_minima(spec.get("quota") or {}, errors)
    _check_revoked(spec.get("revokedCertificates") or [], errors)
    _check_allowed_cidrs(allowed_cidrs(tenant), errors)
    _check_domains(spec.get("domains") or [], errors)
    errors += check_sleep(tenant)
    errors += check_backup(tenant)
    check_finalizers(tenant, errors)
    return errors


def _check_domains(domains: Sequence[str], errors: FieldErrors) -> None:
    if len(domains) > DOMAINS_MAX:
        errors.append(invalid("spec.domains", len(domains), f"must have at most {DOMAINS_MAX} entries"))
    for index, domain in enumerate(domains):
        check = names.wildcard_subdomain if "*" in domain else names.dns_subdomain
        check_value(domain, check, f"spec.domains[{index}]", errors)


def _check_quota(amounts: dict[str, str], path: str, errors: FieldErrors) -> None:
    for resource, amount in amounts.items():
        field = f"{path}[{resource}]"
        check_quota_resource_name(resource, field, errors)
        check_amount(resource, amount, field, errors)


def _check_minima(quota: Object, errors: FieldErrors) -> None:
    """Guaranteed amounts must not exceed the limits; invalid amounts were reported before."""
    hard = quota.get("hard") or {}
    for resource, amount in (quota.get("min") or {}).items():
        if resource in hard and _is_more(amount, hard[resource]):
            message = f"must not be more than spec.quota.hard[{resource}]"
            errors.append(invalid(f"spec.quota.min[{resource}]", amount, message))


def _check_revoked(entries: Sequence[Object], errors: FieldErrors) -> None:
    path = "spec.revokedCertificates"
    if len(entries) > REVOKED_MAX:
        errors.append(invalid(path, len(entries), f"must have at most {REVOKED_MAX} entries"))
    for index, entry in enumerate(entries):
        field, serial = f"{path}[{index}]", entry.get("serialNumber")
        if serial and not _SERIAL.fullmatch(serial):
            message = "must be hexadecimal digits, as `openssl x509 -serial` prints them"
            errors.append(invalid(f"{field}.serialNumber", serial, message))
        if bool(serial) == bool(entry.get("issuedBefore")) or (serial and entry.get("user")):
            errors.append(
                invalid(field, entry, "must have either serialNumber, or issuedBefore with or without user")
            )


def allowed_cidrs(tenant: Object) -> list[str]:
    """The networks that are not public, and that ring0 allows the tenant's pods to reach."""
    return get(tenant, "spec", "egress", "allowedCIDRs", default=None) or []


def is_trusted(tenant: Object) -> bool:
    """Whether ring0 trusts the tenant with its nodes: its pods may have what ring0's may."""
    return bool(get(tenant, "spec", "podSecurity") == TRUSTED_LEVEL)


def _check_allowed_cidrs(cidrs: Sequence[str], errors: FieldErrors) -> None:
    path = "spec.egress.allowedCIDRs"
    if len(cidrs) > ALLOWED_CIDRS_MAX:
        errors.append(too_many(path, len(cidrs), ALLOWED_CIDRS_MAX))
        return
    for index, text in enumerate(cidrs):
        field = f"{path}[{index}]"
        problems = addresses.canonical_cidr_errors(field, text)
        errors += problems or _unsuitable_cidr(field, text)


def _unsuitable_cidr(field: str, text: str) -> list[FieldError]:
    network = ip_network(text)
    if not destinations.is_within(network, destinations.NOT_PUBLIC):
        message = (
            "must be within a range that is not public (e.g. 10.0.0.0/8); public addresses need no entry"
        )
        return [invalid(field, text, message)]
    if destinations.is_within(network, destinations.UNREACHABLE):
        return [invalid(field, text, "may not be in a loopback or link-local range, which pods never reach")]
    return []


def _is_more(amount: str, other: str) -> bool:
    try:
        return quantity.parse(amount) > quantity.parse(other)
    except QuantityError:
        return False


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    """`spec.storageClusterId`, the store of the tenant's objects, is immutable."""
    errors = [*check_mode_change(new, old), *check_store_change(new, old)]
    field = "storageClusterId"
    immutable(get(new, "spec", field), get(old, "spec", field), f"spec.{field}", errors)
    return errors


def _prepare_update(new: Object, old: Object) -> None:
    keep_finalizers(new, old)
    keep_serving_mode(new, old)


def _validate_status(new: Object, old: Object) -> list[FieldError]:
    return [*validate_phase(new, old), *check_serving_mode(new)]


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    validate_status=_validate_status,
    prepare_create=lambda tenant: activate(tenant, FINALIZER),
    validate_subresource={"finalize": validate_finalize},
    prepare_update=_prepare_update,
    fields={"status.phase": phase},
    status_leaves=CLIENT_METADATA,
    has_status=True,
    counts_generation=True,
    validate_name=check_tenant_name,
)
