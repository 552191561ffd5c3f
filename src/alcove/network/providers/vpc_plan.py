"""Plans the VPC and subnets of a network of type vpc or mizar. Pure: no I/O.

| vpcID                 | plan                                                                     |
|-----------------------|--------------------------------------------------------------------------|
| of an existing VPC    | attach it, if no other network has it and its range is the requested one |
| of no VPC             | create it, with the network's range or a fresh one                       |
| not set               | the same, with a name derived from the tenant's and the network's        |

Named subnets that do not exist are created if the VPC is created for the network, as equal shares of its
range or as a free part; in a VPC that existed before, the network waits for them.
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
"""Returns an unused range that overlaps none of the given ones."""


class ObservedVpc(Struct, frozen=True, kw_only=True):
    """The provider's existing objects that the network refers to."""

    name: str
    """The VPC's name, whether it exists or not."""
    vpc: Object | None
    named: Mapping[str, Object]
    """The existing ones of the subnets that the network names."""
    subnets: Sequence[Object]
    """The VPC's subnets, the oldest first."""
    shared_by: str = ""
    """The type of networks that the VPC is reserved for, if it is another type."""


class SubnetPlan(Struct, frozen=True):
    name: str
    make: Network | None = None
    """The range to create it with; None if it exists."""


class NetworkPlan(Struct, frozen=True, kw_only=True):
    vpc: str
    make: Network | None = None
    """The range to create the VPC with; None if it exists."""
    attach: bool = False
    """Whether the existing VPC is to be annotated with the network."""
    subnets: tuple[SubnetPlan, ...]
    services: tuple[Network, ...]


def vpc_names(owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
    """The names that the network's VPC may have, in the order of preference.

    A derived name is not unambiguous: `a-b` and `c` give the same as `a` and `b-c`. The second one is: a tenant's
    name has no dot, and no other tenant may create a VPC of that name.
    """
    if configured := spec_of(network, "vpcID"):
        return (configured,)
    if owner.name == DEFAULT_NETWORK:
        return (f"{owner.tenant}{_OF_DEFAULT}",)
    return (f"{owner.tenant}-{owner.name}", f"{owner.tenant}.{owner.name}")


def choose_name(
    owner: TenantNetworkId, network: Object, held: Sequence[Object], find: Callable[[str], Object | None]
) -> str:
    """The name of the network's VPC: of one that it has (`held`), else the first that no other network has."""
    names = vpc_names(owner, network)
    held_names = {objects.name(each) for each in held}
    if own := [name for name in names if name in held_names]:
        return own[0]
    for name in names[:-1]:
        vpc = find(name)
        if owner_of(vpc) is None if vpc is not None else not _is_reserved(name, owner):
            return name
    return names[-1]


def _is_reserved(name: str, owner: TenantNetworkId) -> bool:
    """Whether a VPC of this name can be created only for a network of another tenant."""
    if name.endswith(_OF_DEFAULT):
        return name != f"{owner.tenant}{_OF_DEFAULT}"
    tenant, dot, _ = name.partition(".")
    return bool(dot) and tenant != owner.tenant


def plan(owner: TenantNetworkId, network: Object, observed: ObservedVpc, fresh: Fresh) -> NetworkPlan:
    """Raises RequestRefused if the network is invalid as written, AddressUnavailable if it has to wait."""
    name, requested = observed.name, ranges.range_of(network)
    if observed.shared_by:
        raise RequestRefused(f'VPC "{name}" is shared by all {observed.shared_by} networks')
    if observed.vpc is None:
        return _plan_new_vpc(owner, network, name, requested, observed, fresh)
    _check_vpc(owner, observed.vpc, requested)
    whole = ranges.range_of(observed.vpc)
    if whole is None:
        raise AddressUnavailable(f'waiting for VPC "{name}" to have a range')
    subnets = _subnets(network, name, whole, observed, is_made(observed.vpc))
    attach = owner_of(observed.vpc) is None
    services = tuple(service_ranges(network, [whole]))
    return NetworkPlan(vpc=name, attach=attach, subnets=subnets, services=services)


def _plan_new_vpc(
    owner: TenantNetworkId,
    network: Object,
    name: str,
    requested: Network | None,
    observed: ObservedVpc,
    fresh: Fresh,
) -> NetworkPlan:
    if _is_reserved(name, owner):
        raise RequestRefused(f'VPC "{name}" is reserved for networks of another tenant')
    services = service_ranges(network, [requested] if requested else [])
    whole = requested or fresh(services)
    subnets = _subnets(network, name, whole, observed, True)
    return NetworkPlan(
        vpc=name, make=whole, subnets=subnets, services=tuple(service_ranges(network, [whole]))
    )


def _check_vpc(owner: TenantNetworkId, vpc: Object, requested: Network | None) -> None:
    name, holder, whole = objects.name(vpc), owner_of(vpc), ranges.range_of(vpc)
    if holder is not None and holder != owner:
        if holder.tenant != owner.tenant:
            raise RequestRefused(f'VPC "{name}" is owned by a network of another tenant')
        raise RequestRefused(f'VPC "{name}" is used by network "{holder.name}" already')
    if is_going(vpc):
        raise AddressUnavailable(f'VPC "{name}" is being deleted')
    if requested is not None and whole is not None and requested != whole:
        raise RequestRefused(f'VPC "{name}" has the range {whole}, not {requested}')


def _subnets(
    network: Object, vpc: str, whole: Network, observed: ObservedVpc, may_make: bool
) -> tuple[SubnetPlan, ...]:
    named: list[str] = objects.get(network, "spec", "subnets", default=[])
    if not named:
        existing = [SubnetPlan(objects.name(each)) for each in observed.subnets if not is_going(each)]
        return tuple(existing) if existing else (_default_subnet(vpc, whole, observed),)
    missing = [name for name in named if name not in observed.named]
    for name, subnet in observed.named.items():
        if spec_of(subnet, "vpc") != vpc:
            raise RequestRefused(f'subnet "{name}" does not belong to VPC "{vpc}"')
    for name in missing:
        if not may_make:
            raise AddressUnavailable(f'subnet "{name}" of VPC "{vpc}" not found')
        if name.endswith(_OF_VPC) and name != f"{vpc}{_OF_VPC}":
            raise RequestRefused(f'subnet "{name}" is reserved for the VPC of that name')
    created = _share(whole, named, missing, observed.subnets)
    return tuple(SubnetPlan(name, created.get(name)) for name in named)


def _default_subnet(vpc: str, whole: Network, observed: ObservedVpc) -> SubnetPlan:
    if observed.subnets:
        raise AddressUnavailable(f'the subnets of VPC "{vpc}" are being deleted')
    return SubnetPlan(f"{vpc}{_OF_VPC}", whole)


def _share(
    whole: Network, named: Sequence[str], missing: Sequence[str], existing: Sequence[Object]
) -> dict[str, Network]:
    """Ranges for the missing subnets: equal shares of the VPC if all are missing, else free parts of that
    size."""
    created: dict[str, Network] = {}
    allocated = [network for each in existing if (network := ranges.range_of(each))]
    bits = max(len(named) - 1, 0).bit_length()
    prefix = whole.prefixlen + bits
    if missing and prefix > whole.max_prefixlen - 2:
        raise RequestRefused(f"{whole} is too small for {len(named)} subnets")
    for name in missing:
        part = ranges.free_part(whole, allocated, prefix)
        if part is None:
            raise RequestRefused(f'no room for subnet "{name}" (/{prefix}) in {whole}')
        created[name] = part
        allocated.append(part)
    return created
