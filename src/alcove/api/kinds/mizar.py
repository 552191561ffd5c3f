"""mizar.com: what the VPC provider keeps. As in Mizar, where an object is in its life is `spec.status`;
the status beside the spec tells people more about it."""

import re
from collections.abc import Callable, Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import child, conditions, fill, named, not_negative
from alcove.api.kinds.ranges import unchanged_once_set, validate_number, validate_range
from alcove.api.objects import Object, get

SIMPLE = "simple"
"""An endpoint of a machine, container or pod: lives on a droplet."""
SCALED = "scaled"
"""An endpoint that is one address for many backends: lives everywhere."""
GATEWAY = "gateway"
"""A droplet's own address in a VPC: what comes in from outside comes as it."""
NODE_PORT = "door"
"""A way in from outside: a port of the droplets (`spec.port`), or an address that is routed to them (`spec.ip`)."""
OWNER_LABEL = "mizar.com/owner"
"""On an endpoint: the uid of what it was made for."""

INIT = "Init"
VNI_MAX = 2**24 - 1
COPIES_MAX = 1000
"""Most dividers of a VPC, or bouncers of a subnet."""
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
    faults = validate_range(spec, "spec") + validate_number(spec, "spec", "vni", 1, VNI_MAX)
    return faults + validate_number(spec, "spec", "dividers", 1, COPIES_MAX) + _state(spec)


def validate_subnet(obj: Object) -> list[FieldError]:
    spec = obj.get("spec") or {}
    faults = _needs(spec, "vpc") + validate_range(spec, "spec")
    faults += validate_number(spec, "spec", "vni", 1, VNI_MAX)
    return faults + validate_number(spec, "spec", "bouncers", 1, COPIES_MAX) + _names(spec) + _state(spec)


def _placed(*needed: str) -> Callable[[Object], list[FieldError]]:
    """Objects with an address of their own, on a droplet."""

    def validate(obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        faults = _needs(spec, *needed)
        for field in _ADDRESSES:
            if spec.get(field):
                faults += addresses.canonical_ip_faults(f"spec.{field}", spec[field])
        for field in _MACS:
            if spec.get(field) and not _MAC.fullmatch(spec[field]):
                message = "must be a hardware address, (e.g. 02:42:0a:00:00:01)"
                faults.append(invalid(f"spec.{field}", spec[field], message))
        faults += validate_number(spec, "spec", "vni", 1, VNI_MAX)
        faults += validate_number(spec, "spec", "prefix", 0, PREFIX_MAX)
        return faults + _names(spec) + _state(spec)

    return validate


def _needs(spec: Object, *fields: str) -> list[FieldError]:
    return [required(f"spec.{field}") for field in fields if not spec.get(field)]


def _names(spec: Object) -> list[FieldError]:
    return [
        fault
        for field in _OBJECTS
        if spec.get(field)
        for fault in named(spec[field], names.dns_subdomain, f"spec.{field}")
    ]


def _state(spec: Object) -> list[FieldError]:
    state = spec.get("status", INIT)
    if _STATUS_TEXT.fullmatch(state):
        return []
    return [invalid("spec.status", state, "must be a word, (e.g. Init or Provisioned)")]


def _fixed(*fields: str) -> Callable[[Object, Object], list[FieldError]]:
    """Fields that stay once they are set: others are programmed by them."""
    return lambda new, old: unchanged_once_set(new.get("spec") or {}, old.get("spec") or {}, "spec", *fields)


def validate_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    faults = not_negative(status, "status", "used", "free")
    return faults + conditions(status.get("conditions") or (), "status.conditions")


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
"""By field selectors (`spec.droplet=…`) a node watches what concerns it and nothing else."""
