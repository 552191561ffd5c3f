"""mizar.com: objects of the VPC provider. As in Mizar, `spec.status` is the provisioning state of an object;
its `status` has details for users."""

import re
from collections.abc import Callable, Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import child, conditions, fill, named, not_negative
from alcove.api.kinds.ranges import unchanged_once_set, validate_number, validate_range
from alcove.api.objects import Object, get

SIMPLE = "simple"
"""An endpoint of a machine, container or pod, on one droplet."""
SCALED = "scaled"
"""An endpoint with one address for many backends, on every droplet."""
GATEWAY = "gateway"
"""A droplet's own address in a VPC: the source address of packets from outside."""
NODE_PORT = "door"
"""External access: a port of the droplets (`spec.port`), or an address that is routed to them (`spec.ip`)."""
OWNER_LABEL = "mizar.com/owner"
"""On an endpoint: the uid of the object it was created for."""

INIT, PROVISIONED = "Init", "Provisioned"
"""Values of `spec.status`."""
VNI_MAX = 2**24 - 1
COPIES_MAX = 1000
"""Maximum number of dividers of a VPC, or bouncers of a subnet."""
PREFIX_MAX = 128

_MAC = re.compile("([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")
_STATUS_TEXT = re.compile("[A-Za-z][A-Za-z0-9_-]{0,62}")

_ADDRESSES = ("ip", "gw", "hostip", "nip", "main_ip", "mainip")
_MACS = ("mac", "hostmac")
_OBJECTS = ("vpc", "net", "droplet")


def _default(spec: Object) -> None:
    fill(spec, "status", INIT)


def default_vpc(obj: Object) -> None:
    spec = child(obj, "spec")
    _default(spec)
    fill(spec, "dividers", 1)


def default_subnet(obj: Object) -> None:
    spec = child(obj, "spec")
    _default(spec)
    fill(spec, "bouncers", 1)


def default_other(obj: Object) -> None:
    _default(child(obj, "spec"))


def validate_vpc(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = validate_range(spec, "spec") + validate_number(spec, "spec", "vni", 1, VNI_MAX)
    return errors + validate_number(spec, "spec", "dividers", 1, COPIES_MAX) + _state(spec)


def validate_subnet(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = _needs(spec, "vpc") + validate_range(spec, "spec")
    errors += validate_number(spec, "spec", "vni", 1, VNI_MAX)
    return errors + validate_number(spec, "spec", "bouncers", 1, COPIES_MAX) + _names(spec) + _state(spec)


def _placed(*needed: str) -> Callable[[Object], list[FieldError]]:
    """Return the validation of objects that have an address on a droplet."""

    def validate(obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _needs(spec, *needed)
        for field in _ADDRESSES:
            if spec.get(field):
                errors += addresses.canonical_ip_errors(f"spec.{field}", spec[field])
        for field in _MACS:
            if spec.get(field) and not _MAC.fullmatch(spec[field]):
                message = "must be a hardware address, (e.g. 02:42:0a:00:00:01)"
                errors.append(invalid(f"spec.{field}", spec[field], message))
        errors += validate_number(spec, "spec", "vni", 1, VNI_MAX)
        errors += validate_number(spec, "spec", "prefix", 0, PREFIX_MAX)
        return errors + _names(spec) + _state(spec)

    return validate


def _needs(spec: Object, *fields: str) -> list[FieldError]:
    return [required(f"spec.{field}") for field in fields if not spec.get(field)]


def _names(spec: Object) -> list[FieldError]:
    return [
        error
        for field in _OBJECTS
        if spec.get(field)
        for error in named(spec[field], names.dns_subdomain, f"spec.{field}")
    ]


def _state(spec: Object) -> list[FieldError]:
    state = spec.get("status", INIT)
    if _STATUS_TEXT.fullmatch(state):
        return []
    return [invalid("spec.status", state, "must be a word, (e.g. Init or Provisioned)")]


def _fixed(*fields: str) -> Callable[[Object, Object], list[FieldError]]:
    """Return a check of fields that are immutable once set: other objects are programmed from them."""
    return lambda new, old: unchanged_once_set(new.get("spec") or {}, old.get("spec") or {}, "spec", *fields)


def validate_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    errors = not_negative(status, "status", "used", "free")
    return errors + conditions(status.get("conditions") or (), "status.conditions")


def _selectable(field: str) -> Callable[[Object], str]:
    return lambda obj: str(get(obj, "spec", field, default=""))


def _strategy(
    default: Callable[[Object], None],
    validate: Callable[[Object], Sequence[FieldError]],
    fixed: tuple[str, ...],
    selectable: tuple[str, ...],
) -> Strategy:
    return Strategy(
        default=default,
        validate=validate,
        validate_update=_fixed(*fixed),
        validate_status=validate_status,
        fields={f"spec.{field}": _selectable(field) for field in (*selectable, "status")},
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
    )


STRATEGIES: dict[str, Strategy] = {
    "vpcs": _strategy(default_vpc, validate_vpc, ("ip", "prefix", "vni"), ()),
    "subnets": _strategy(default_subnet, validate_subnet, ("ip", "prefix", "vpc", "vni"), ("vpc",)),
    "endpoints": _strategy(
        default_other,
        _placed(),
        ("ip", "prefix", "vpc", "net", "vni"),
        ("vpc", "net", "droplet", "type", "vni"),
    ),
    "bouncers": _strategy(
        default_other,
        _placed("vpc", "net"),
        ("prefix", "vpc", "net", "vni"),
        ("vpc", "net", "droplet"),
    ),
    "dividers": _strategy(default_other, _placed("vpc"), ("vpc", "vni"), ("vpc", "droplet")),
    "droplets": _strategy(default_other, _placed(), (), ()),
}
"""Nodes watch only the objects that concern them, by field selectors (`spec.droplet=…`)."""
