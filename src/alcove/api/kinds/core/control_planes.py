"""`Tenant.spec.controlPlane`: which API server serves a tenant, and how a dedicated one runs."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from alcove.api import names, quantity
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, too_many
from alcove.api.kinds.core.resources import check_amount
from alcove.api.objects import Object, get
from alcove.api.quantity import QuantityError
from alcove.api.validation import FieldErrors, check_choice, check_value

SHARED, DEDICATED = "Shared", "Dedicated"
MODES = (DEDICATED, SHARED)
STORES = ("sqlite",)
STORE_BYTES_MIN = 64 << 20
"""A smaller volume could not hold the log of a new store and its audit log."""
TENANT_LENGTH_MAX = 40
"""Of the name of a dedicated tenant: names of its API server's pod and revisions, which are labels, are longer."""
SANS_MAX = 64
USERS_MAX = 256
GROUPS_MAX = 32
NAME_LENGTH_MAX = 64
"""Of a user or group: the limit of a common name in X.509."""
_VERSION = re.compile(r"[0-9][0-9A-Za-z_.-]{0,63}")
_AMOUNTS = ("cpu", "memory")


def mode_of(tenant: Object) -> str:
    return str(get(tenant, "spec", "controlPlane", "mode", default=SHARED))


def is_dedicated(tenant: Object) -> bool:
    return mode_of(tenant) == DEDICATED


def check_control_plane(tenant: Object, errors: FieldErrors) -> None:
    path, plane = "spec.controlPlane", get(tenant, "spec", "controlPlane", default=None) or {}
    name = get(tenant, "metadata", "name", default="")
    if is_dedicated(tenant) and len(name) > TENANT_LENGTH_MAX:
        message = f"must be at most {TENANT_LENGTH_MAX} characters for a tenant with a dedicated API server"
        errors.append(invalid("metadata.name", name, message))
    check_choice(plane.get("mode", ""), MODES, f"{path}.mode", errors)
    if plane.get("replicas", 1) != 1:
        message = "must be 1: a store of type sqlite has one API server"
        errors.append(invalid(f"{path}.replicas", plane["replicas"], message))
    if (version := plane.get("version")) and not _VERSION.fullmatch(version):
        errors.append(invalid(f"{path}.version", version, "must be a version such as 0.1.0"))
    _check_storage(plane.get("storage") or {}, f"{path}.storage", errors)
    _check_resources(plane.get("resources") or {}, f"{path}.resources", errors)
    if runtime_class := plane.get("runtimeClassName"):
        check_value(runtime_class, names.dns_subdomain, f"{path}.runtimeClassName", errors)
    _check_sans(plane.get("certificateSANs") or [], f"{path}.certificateSANs", errors)
    _check_users(plane.get("users") or [], f"{path}.users", errors)


def check_mode_unchanged(new: Object, old: Object) -> list[FieldError]:
    """The objects of a tenant do not follow it to another store, so its mode is fixed."""
    if mode_of(new) == mode_of(old):
        return []
    message = "may not be changed: moving a tenant's objects to another API server is not supported yet"
    return [forbidden("spec.controlPlane.mode", message)]


def _check_storage(storage: Object, path: str, errors: FieldErrors) -> None:
    if (type_ := storage.get("type")) is not None:
        check_choice(type_, STORES, f"{path}.type", errors)
    size = storage.get("size")
    if size is None:
        return
    before = len(errors)
    check_amount("storage", size, f"{path}.size", errors)
    if len(errors) == before and quantity.parse(size).value < STORE_BYTES_MIN:
        errors.append(invalid(f"{path}.size", size, f"must be at least {STORE_BYTES_MIN >> 20}Mi"))


def _check_resources(resources: Object, path: str, errors: FieldErrors) -> None:
    for which in ("requests", "limits"):
        for name, amount in (resources.get(which) or {}).items():
            field = f"{path}.{which}[{name}]"
            if name not in _AMOUNTS:
                errors.append(invalid(field, name, f"must be one of {', '.join(_AMOUNTS)}"))
            check_amount(name, amount, field, errors)
    limits: Mapping[str, str] = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and _is_more(amount, limits[name]):
            message = f"must not be more than {path}.limits[{name}]"
            errors.append(invalid(f"{path}.requests[{name}]", amount, message))


def _is_more(amount: str, other: str) -> bool:
    try:
        return quantity.parse(amount) > quantity.parse(other)
    except QuantityError:
        return False  # Reported before.


def _check_sans(sans: Sequence[str], path: str, errors: FieldErrors) -> None:
    if len(sans) > SANS_MAX:
        errors.append(too_many(path, len(sans), SANS_MAX))
    for index, san in enumerate(sans):
        field = f"{path}[{index}]"
        if san in sans[:index]:
            errors.append(duplicate(field, san))
        if not _is_address(san):
            check_value(san, names.dns_subdomain, field, errors)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_users(users: Sequence[Object], path: str, errors: FieldErrors) -> None:
    if len(users) > USERS_MAX:
        errors.append(too_many(path, len(users), USERS_MAX))
    seen: set[str] = set()
    for index, user in enumerate(users):
        field, name = f"{path}[{index}]", user.get("name", "")
        # A label, because it is part of the name of a Secret; so it cannot name another tenant either.
        check_value(name, names.dns_label, f"{field}.name", errors)
        if name in seen:
            errors.append(duplicate(f"{field}.name", name))
        seen.add(name)
        groups = user.get("groups") or []
        if len(groups) > GROUPS_MAX:
            errors.append(too_many(f"{field}.groups", len(groups), GROUPS_MAX))
        for number, group in enumerate(groups):
            if not group.isprintable() or not 1 <= len(group) <= NAME_LENGTH_MAX:
                message = f"must be 1 to {NAME_LENGTH_MAX} printable characters"
                errors.append(invalid(f"{field}.groups[{number}]", group, message))
