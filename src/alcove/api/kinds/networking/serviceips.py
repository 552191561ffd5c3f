"""ServiceCIDRs and IPAddresses: the ranges of a network's services, and the addresses that are in use."""

import ipaddress
from collections.abc import Sequence

from alcove.api import addresses, names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import conditions, named
from alcove.api.objects import Object, get
from alcove.api.service_ips import claimed_address

_CIDRS_MAX = 2
_NOT_ADDRESS = "must be a valid address in canonical form, which the name of its network may follow"


def _name_is_address(name: str, is_prefix: bool) -> Sequence[str]:
    """The name is the address; in another network than the default one, `{address}.{network}`."""
    address = claimed_address(name)
    network = name.removeprefix(address).removeprefix(".")
    if is_prefix or not address or (network and names.dns_subdomain(network)):
        return [_NOT_ADDRESS]
    return [] if name == (f"{address}.{network}" if network else address) else [_NOT_ADDRESS]


def validate_address(obj: Object) -> list[FieldError]:
    parent = (obj.get("spec") or {}).get("parentRef")
    if not parent:
        return [required("spec.parentRef")]
    errors: list[FieldError] = []
    if parent.get("group"):
        errors += named(parent["group"], names.dns_subdomain, "spec.parentRef.group")
    for field in ("resource", "name", "namespace"):
        if parent.get(field):
            errors += named(parent[field], names.path_segment, f"spec.parentRef.{field}")
        elif field != "namespace":
            errors.append(required(f"spec.parentRef.{field}"))
    return errors


def validate_address_update(new: Object, old: Object) -> list[FieldError]:
    parent = get(new, "spec", "parentRef")
    if parent == get(old, "spec", "parentRef"):
        return []
    return [invalid("spec.parentRef", parent, "field is immutable")]


def validate_range(obj: Object) -> list[FieldError]:
    cidrs = (obj.get("spec") or {}).get("cidrs") or []
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > _CIDRS_MAX:
        return [invalid("spec.cidrs", cidrs, "may only hold up to 2 values")]
    errors = [
        error
        for index, cidr in enumerate(cidrs)
        for error in addresses.canonical_cidr_errors(f"spec.cidrs[{index}]", cidr)
    ]
    if not errors and len({ipaddress.ip_network(cidr).version for cidr in cidrs}) < len(cidrs):
        message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96"
        errors.append(invalid("spec.cidrs", cidrs, message))
    return errors


def validate_range_update(new: Object, old: Object) -> list[FieldError]:
    """A second range may be added; those that exist are immutable."""
    cidrs, before = get(new, "spec", "cidrs", default=[]), get(old, "spec", "cidrs", default=[])
    if cidrs[: len(before)] == before:
        return []
    return [invalid("spec.cidrs", cidrs, "field is immutable")]


def validate_range_status(new: Object, _old: Object) -> list[FieldError]:
    return conditions((new.get("status") or {}).get("conditions") or (), "status.conditions")


STRATEGIES: dict[str, Strategy] = {
    "ipaddresses": Strategy(
        validate=validate_address,
        validate_update=validate_address_update,
        validate_name=_name_is_address,
    ),
    "servicecidrs": Strategy(
        validate=validate_range,
        validate_update=validate_range_update,
        validate_status=validate_range_status,
        has_status=True,
        keeps_new_status=True,
    ),
}
