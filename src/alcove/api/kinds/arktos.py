"""arktos.futurewei.com: networks, a tenant's isolation domains; `v1` serves the same objects.

The strategy of tenants, which Arktos adds to the core group, is in `core`.
"""

import ipaddress

from alcove.api import addresses, names
from alcove.api.fields import FieldError, duplicate, invalid, too_many
from alcove.api.kind import CLIENT_METADATA, Strategy
from alcove.api.kinds.checks import conditions, named, one_of_required, unchanged
from alcove.api.kinds.core import tenants
from alcove.api.kinds.core.networks import NETWORK_TYPES
from alcove.api.kinds.ranges import unchanged_once_set, validate_range
from alcove.api.objects import Object
from alcove.api.service_ips import SERVICE_RANGES_MAX

IPAM = ("Arktos", "Kubernetes", "External")
SUBNETS_MAX = 64
"""Subnets that a network names."""
PHASES = ("Pending", "Ready", "Failed", "Terminating", "Unknown")


def default_network(network: Object) -> None:
    """`vpc-id` is another spelling of `vpcID`; if both are set, `vpcID` wins."""
    spec = network.setdefault("spec", {})
    other = spec.pop("vpc-id", None)
    if other and not spec.get("vpcID"):
        spec["vpcID"] = other


def prepare_create(network: Object) -> None:
    network["status"] = {"phase": "Pending"}


def validate_network(network: Object) -> list[FieldError]:
    spec = network.get("spec") or {}
    errors = one_of_required(spec.get("type", ""), NETWORK_TYPES, "spec.type")
    if spec.get("vpcID"):
        errors += named(spec["vpcID"], names.dns_subdomain, "spec.vpcID")
    errors += validate_range(spec, "spec")
    subnets = spec.get("subnets") or []
    if len(subnets) > SUBNETS_MAX:
        errors.append(too_many("spec.subnets", len(subnets), SUBNETS_MAX))
        return errors
    for index, subnet in enumerate(subnets):
        errors += named(subnet, names.dns_subdomain, f"spec.subnets[{index}]")
        if subnet in subnets[:index]:
            errors.append(duplicate(f"spec.subnets[{index}]", subnet))
    return errors + _service(spec.get("service") or {}, "spec.service")


def _service(service: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if service.get("ipam"):
        errors += one_of_required(service["ipam"], IPAM, f"{path}.ipam")
    cidrs = service.get("cidrs") or ()
    if len(cidrs) > SERVICE_RANGES_MAX:
        errors.append(too_many(f"{path}.cidrs", len(cidrs), SERVICE_RANGES_MAX))
        return errors
    seen: list[addresses.Network] = []
    for index, cidr in enumerate(cidrs):
        where = f"{path}.cidrs[{index}]"
        wrong = addresses.canonical_cidr_errors(where, cidr)
        errors += wrong
        if wrong:
            continue
        cidr_range = ipaddress.ip_network(cidr)
        errors += [
            invalid(where, cidr, f"must not overlap {other}") for other in seen if cidr_range.overlaps(other)
        ]
        seen.append(cidr_range)
    return errors


def validate_network_update(new: Object, old: Object) -> list[FieldError]:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors = unchanged(now, before, "spec", "type")
    return errors + unchanged_once_set(now, before, "spec", "vpcID", "ip", "prefix")


def validate_network_status(new: Object, _old: Object) -> list[FieldError]:
    status = new.get("status") or {}
    errors: list[FieldError] = []
    if status.get("phase"):
        errors += one_of_required(status["phase"], PHASES, "status.phase")
    if status.get("dnsServiceIP"):
        errors += addresses.ip_errors("status.dnsServiceIP", status["dnsServiceIP"])
    return errors + conditions(status.get("conditions") or (), "status.conditions")


STRATEGIES: dict[str, Strategy] = {
    "networks": Strategy(
        default=default_network,
        validate=validate_network,
        validate_update=validate_network_update,
        validate_status=validate_network_status,
        prepare_create=prepare_create,
        status_leaves=CLIENT_METADATA,
        has_status=True,
        counts_generation=True,
    ),
    "tenants": tenants.STRATEGY,
}
