"""Service CIDRs, and the addresses given out of them: one object per address, named after it."""

from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, invalid, quote, required
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import IMMUTABLE, named, named_required, unchanged
from alcove.api.objects import Object


def address_name(name: str, _is_prefix: bool) -> Sequence[str]:
    """An IPAddress's name is the address, spelled canonically."""
    faults = addresses.canonical_ip_faults("", name)
    return [fault.body.removeprefix(f"Invalid value: {quote(name)}: ") for fault in faults]


def validate_address(obj: Object) -> list[FieldError]:
    parent, path = (obj.get("spec") or {}).get("parentRef"), "spec.parentRef"
    if parent is None:
        return [required(path)]
    faults: list[FieldError] = []
    if parent.get("group"):
        faults += named(parent["group"], names.dns_subdomain, f"{path}.group")
    for field in ("resource", "name"):
        faults += named_required(parent.get(field, ""), names.path_segment, f"{path}.{field}")
    if parent.get("namespace"):
        faults += named(parent["namespace"], names.path_segment, f"{path}.namespace")
    return faults


def validate_address_update(new: Object, old: Object) -> list[FieldError]:
    return unchanged(new.get("spec") or {}, old.get("spec") or {}, "spec", "parentRef")


def _cidrs(obj: Object) -> list[str]:
    return (obj.get("spec") or {}).get("cidrs") or []


def validate_service_cidr(obj: Object) -> list[FieldError]:
    cidrs = _cidrs(obj)
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid("spec.cidrs", obj["spec"], "may only hold up to 2 values")]
    faults: list[FieldError] = []
    for index, cidr in enumerate(cidrs):
        faults += addresses.canonical_cidr_faults(f"spec.cidrs[{index}]", cidr)
    families = [addresses.ip_family(cidr) for cidr in cidrs]
    if len(families) == 2 and families[0] == families[1] != "":
        told = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        faults.append(invalid("spec.cidrs", cidrs, told))
    return faults


def validate_service_cidr_update(new: Object, old: Object) -> list[FieldError]:
    """A second family may be added; what is there stays."""
    now, before = _cidrs(new), _cidrs(old)
    if len(now) == len(before) or (len(before) == 1 and len(now) == 2):
        return [
            invalid(f"spec.cidrs[{index}]", now[index], IMMUTABLE)
            for index, cidr in enumerate(before)
            if now[index] != cidr
        ]
    return [invalid("spec.cidrs", now, IMMUTABLE)]


STRATEGIES: dict[str, Strategy] = {
    "ipaddresses": Strategy(
        validate=validate_address,
        validate_update=validate_address_update,
        validate_name=address_name,
    ),
    "servicecidrs": Strategy(
        validate=validate_service_cidr,
        validate_update=validate_service_cidr_update,
        status_leaves=CLIENT_METADATA,
        has_status=True,
    ),
}
