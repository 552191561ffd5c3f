"""What a network of type vpc or mizar needs of the VPC provider: decided here, without doing anything.

| vpcID                     | then                                                                  |
|---------------------------|-----------------------------------------------------------------------|
| of a VPC that is there    | attach to it, if it is nobody's and its range is the one that is named |
| of none                   | make it, with the network's range or a fresh one                      |
| not given                 | the same, with a name that follows from the network's                 |

Subnets that are named and missing are made in a VPC that is made for the network, as equal shares of
it or as a free part; in a VPC that was there before, they are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.kinds.core.networks import DEFAULT_NETWORK
from alcove.api.objects import Object
from alcove.network.owners import TenantNetworkId, is_made, owner_of
from alcove.network.service_ranges import service_ranges
from alcove.vpc import ranges
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.states import is_going
from alcove.vpc.vpc_cache import spec_of

_OF_DEFAULT = "-default-network"
_OF_VPC = "-subnet"

Fresh = Callable[[Sequence[Network]], Network]
"""A range that nobody uses and that overlaps none of these."""


class ObservedVpc(Struct, frozen=True, kw_only=True):
    """The provider's objects that the network is about, as they are."""

    vpc: Object | None
    named: Mapping[str, Object]
    """The subnets that the network names, as far as they are there."""
    subnets: Sequence[Object]
    """Those of the VPC, the oldest first."""
    shared_by: str = ""
    """The type of networks that the VPC is kept for, if it is not this one."""


class SubnetPlan(Struct, frozen=True):
    name: str
    make: Network | None = None
    """The range to make it with; None: it is there."""


class NetworkPlan(Struct, frozen=True, kw_only=True):
    vpc: str
    make: Network | None = None
    """The range to make the VPC with; None: it is there."""
    attach: bool = False
    """The VPC is there and gets the network's mark."""
    subnets: tuple[SubnetPlan, ...]
    services: tuple[Network, ...]


def vpc_name(owner: TenantNetworkId, network: Object) -> str:
    given = spec_of(network, "vpcID")
    if given:
        return given
    return default_vpc_name(owner)


def default_vpc_name(owner: TenantNetworkId) -> str:
    if owner.name == DEFAULT_NETWORK:
        return f"{owner.tenant}{_OF_DEFAULT}"
    return f"{owner.tenant}-{owner.name}"


def plan(owner: TenantNetworkId, network: Object, seen: ObservedVpc, fresh: Fresh) -> NetworkPlan:
    """Raises Refused where it can never be, Unavailable where something is waited for."""
    name, wanted = vpc_name(owner, network), ranges.range_of(network)
    if seen.shared_by:
        raise RequestRefused(f'VPC "{name}" is shared by all {seen.shared_by} networks')
    if seen.vpc is None:
        return _made(owner, network, name, wanted, seen, fresh)
    _check_vpc(owner, seen.vpc, wanted)
    whole = ranges.range_of(seen.vpc)
    if whole is None:
        raise AddressUnavailable(f'waiting for VPC "{name}" to have a range')
    subnets = _subnets(network, name, whole, seen, is_made(seen.vpc))
    attach = owner_of(seen.vpc) is None
    services = tuple(service_ranges(network, [whole]))
    return NetworkPlan(vpc=name, attach=attach, subnets=subnets, services=services)


def _made(
    owner: TenantNetworkId,
    network: Object,
    name: str,
    wanted: Network | None,
    seen: ObservedVpc,
    fresh: Fresh,
) -> NetworkPlan:
    if name.endswith(_OF_DEFAULT) and name != f"{owner.tenant}{_OF_DEFAULT}":
        raise RequestRefused(f'VPC "{name}" is kept for the default network of another tenant')
    given = service_ranges(network, [wanted] if wanted else [])
    whole = wanted or fresh(given)
    subnets = _subnets(network, name, whole, seen, True)
    return NetworkPlan(
        vpc=name, make=whole, subnets=subnets, services=tuple(service_ranges(network, [whole]))
    )


def _check_vpc(owner: TenantNetworkId, vpc: Object, wanted: Network | None) -> None:
    name, holder, whole = objects.name(vpc), owner_of(vpc), ranges.range_of(vpc)
    if holder is not None and holder != owner:
        if holder.tenant != owner.tenant:
            raise RequestRefused(f'VPC "{name}" is owned by a network of another tenant')
        raise RequestRefused(f'VPC "{name}" is used by network "{holder.name}" already')
    if is_going(vpc):
        raise AddressUnavailable(f'VPC "{name}" is being deleted')
    if wanted is not None and whole is not None and wanted != whole:
        raise RequestRefused(f'VPC "{name}" has the range {whole}, not {wanted}')


def _subnets(
    network: Object, vpc: str, whole: Network, seen: ObservedVpc, may_make: bool
) -> tuple[SubnetPlan, ...]:
    named: list[str] = objects.get(network, "spec", "subnets", default=[])
    if not named:
        there = [SubnetPlan(objects.name(each)) for each in seen.subnets if not is_going(each)]
        return tuple(there) if there else (_default_subnet(vpc, whole, seen),)
    missing = [name for name in named if name not in seen.named]
    for name, subnet in seen.named.items():
        if spec_of(subnet, "vpc") != vpc:
            raise RequestRefused(f'subnet "{name}" is not of VPC "{vpc}"')
    for name in missing:
        if not may_make:
            raise AddressUnavailable(f'subnet "{name}" of VPC "{vpc}" not found')
        if name.endswith(_OF_VPC) and name != f"{vpc}{_OF_VPC}":
            raise RequestRefused(f'subnet "{name}" is kept for the VPC of that name')
    made = _share(whole, named, missing, seen.subnets)
    return tuple(SubnetPlan(name, made.get(name)) for name in named)


def _default_subnet(vpc: str, whole: Network, seen: ObservedVpc) -> SubnetPlan:
    if seen.subnets:
        raise AddressUnavailable(f'the subnets of VPC "{vpc}" are being deleted')
    return SubnetPlan(f"{vpc}{_OF_VPC}", whole)


def _share(
    whole: Network, named: Sequence[str], missing: Sequence[str], there: Sequence[Object]
) -> dict[str, Network]:
    """Ranges for the missing ones: equal shares of the VPC where all are missing, else free parts as large."""
    made: dict[str, Network] = {}
    taken = [network for each in there if (network := ranges.range_of(each))]
    bits = max(len(named) - 1, 0).bit_length()
    prefix = whole.prefixlen + bits
    if missing and prefix > whole.max_prefixlen - 2:
        raise RequestRefused(f"{whole} is too small for {len(named)} subnets")
    for name in missing:
        part = ranges.free_part(whole, taken, prefix)
        if part is None:
            raise RequestRefused(f'no room for subnet "{name}" (/{prefix}) in {whole}')
        made[name] = part
        taken.append(part)
    return made
