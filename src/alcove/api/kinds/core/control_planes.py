"""`Tenant.spec.controlPlane`: which API server serves a tenant, and how a dedicated one runs.

`spec.controlPlane.mode` says which API server should serve the tenant, `status.controlPlane.mode` which one does. They differ
while the tenant moves. The status has no mode as long as the tenant has never moved.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

from alcove.api import names, quantity
from alcove.api.fields import FieldError, duplicate, forbidden, invalid, too_many
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.resources import check_amount
from alcove.api.objects import Object, get
from alcove.api.quantity import QuantityError
from alcove.api.validation import FieldErrors, check_choice, check_value

SHARED, DEDICATED, FOREIGN = "Shared", "Dedicated", "Foreign"
MODES = (DEDICATED, FOREIGN, SHARED)
MOVING = "Moving"
"""The condition of a Tenant that moves: true until nothing of it is left at the other API server."""
SQLITE, ETCD = "sqlite", "etcd"
STORES = (ETCD, SQLITE)
STORE_BYTES_MIN = {SQLITE: 64 << 20, ETCD: 512 << 20}
"""A smaller volume could not hold the log of a new store (etcd's is 64 MiB per file) and its audit log."""
REPLICAS_MAX = 3
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


def serving_mode(tenant: Object) -> str:
    """Which API server serves the tenant now."""
    return str(get(tenant, "status", "controlPlane", "mode", default="") or mode_of(tenant))


def is_dedicated(tenant: Object) -> bool:
    """Whether a dedicated API server serves the tenant."""
    return serving_mode(tenant) == DEDICATED


def has_own_plane(tenant: Object) -> bool:
    """Whether its objects are on a plane of its own, dedicated or foreign, joined or not."""
    return serving_mode(tenant) != SHARED


def target_mode(tenant: Object) -> str:
    """Which API server should serve the tenant. One that is being deleted stays where it is."""
    return serving_mode(tenant) if "deletionTimestamp" in tenant["metadata"] else mode_of(tenant)


def is_moving(tenant: Object) -> bool:
    return target_mode(tenant) != serving_mode(tenant)


def needs_plane(tenant: Object) -> bool:
    """Whether ring0 has to run an API server for the tenant, which serves it now or should."""
    return DEDICATED in (serving_mode(tenant), target_mode(tenant))


def store_type(control_plane: Object) -> str:
    """Of `spec.controlPlane`."""
    return str(get(control_plane, "storage", "type", default="") or SQLITE)


def replicas_of(control_plane: Object) -> int:
    return int(control_plane.get("replicas") or 1)


def is_foreign(tenant: Object) -> bool:
    """Whether it is served by an API server that ring0 does not run (`alcove plane join`)."""
    return mode_of(tenant) == FOREIGN


def check_control_plane(tenant: Object, errors: FieldErrors) -> None:
    path, plane = "spec.controlPlane", get(tenant, "spec", "controlPlane", default=None) or {}
    name = get(tenant, "metadata", "name", default="")
    if mode_of(tenant) == DEDICATED and len(name) > TENANT_LENGTH_MAX:
        message = f"must be at most {TENANT_LENGTH_MAX} characters for a tenant with a dedicated API server"
        errors.append(invalid("metadata.name", name, message))
    check_choice(plane.get("mode", ""), MODES, f"{path}.mode", errors)
    _check_replicas(plane, path, errors)
    if (version := plane.get("version")) and not _VERSION.fullmatch(version):
        errors.append(invalid(f"{path}.version", version, "must be a version such as 0.1.0"))
    _check_storage(plane, f"{path}.storage", errors)
    _check_resources(plane.get("resources") or {}, f"{path}.resources", errors)
    if runtime_class := plane.get("runtimeClassName"):
        check_value(runtime_class, names.dns_subdomain, f"{path}.runtimeClassName", errors)
    _check_sans(plane.get("certificateSANs") or [], f"{path}.certificateSANs", errors)
    _check_users(plane.get("users") or [], f"{path}.users", errors)


def check_store_change(new: Object, old: Object) -> list[FieldError]:
    """A store is not converted: another one is made when the tenant moves to it."""
    before, after = (store_type(get(each, "spec", "controlPlane", default=None) or {}) for each in (old, new))
    if before == after or not needs_plane(old):
        return []
    message = (
        "may not be changed while the tenant has a dedicated API server: move it to the shared one first"
    )
    return [forbidden("spec.controlPlane.storage.type", message)]


def check_mode_change(new: Object, old: Object) -> list[FieldError]:
    if mode_of(new) == mode_of(old):
        return []
    path = "spec.controlPlane.mode"
    if "deletionTimestamp" in old["metadata"]:
        return [forbidden(path, "may not be changed while the tenant is being deleted")]
    if FOREIGN in (mode_of(new), mode_of(old)):
        return [forbidden(path, "may not be changed: a tenant does not move to or from a foreign plane")]
    if get(old, "metadata", "name") == SYSTEM:
        return [forbidden(path, "may not be changed: ring0 is served by the home plane")]
    return []


def keep_serving_mode(new: Object, old: Object) -> None:
    """Records with a change of the mode which API server serves the tenant until it has moved."""
    if mode_of(new) != mode_of(old):
        plane = new.setdefault("status", {}).setdefault("controlPlane", {})
        plane.setdefault("mode", serving_mode(old))


def check_serving_mode(tenant: Object) -> list[FieldError]:
    """Of a write to the status."""
    errors: list[FieldError] = []
    if mode := get(tenant, "status", "controlPlane", "mode", default=""):
        check_choice(mode, MODES, "status.controlPlane.mode", errors)
    return errors


def _check_replicas(plane: Object, path: str, errors: FieldErrors) -> None:
    replicas = plane.get("replicas", 1)
    if store_type(plane) == ETCD:
        if not 1 <= replicas <= REPLICAS_MAX:
            errors.append(invalid(f"{path}.replicas", replicas, f"must be 1 to {REPLICAS_MAX}"))
    elif replicas != 1:
        message = "must be 1: a store of type sqlite has one API server; use storage.type etcd for more"
        errors.append(invalid(f"{path}.replicas", replicas, message))


def _check_storage(plane: Object, path: str, errors: FieldErrors) -> None:
    storage = plane.get("storage") or {}
    if (type_ := storage.get("type")) is not None:
        check_choice(type_, STORES, f"{path}.type", errors)
    size = storage.get("size")
    if size is None:
        return
    before = len(errors)
    check_amount("storage", size, f"{path}.size", errors)
    least = STORE_BYTES_MIN.get(store_type(plane), 0)
    if len(errors) == before and quantity.parse(size).value < least:
        errors.append(invalid(f"{path}.size", size, f"must be at least {least >> 20}Mi"))


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
