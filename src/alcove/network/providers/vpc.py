"""Networks of type vpc or mizar: each has a VPC and subnets of its own.

What a network needs is planned first (`vpc_plan.py`), then created. Bouncers and dividers on some of the
nodes know the locations of its addresses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import ClassVar

from alcove.api import objects
from alcove.api.errors import AlreadyExists, Conflict
from alcove.api.ids import SYSTEM
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.resources import SUBNETS, VPCS
from alcove.network import nics, owners
from alcove.network.endpoints import vni_of
from alcove.network.fabric import Fabric
from alcove.network.nics import RequestedNic
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.network.providers import vpc_plan
from alcove.network.providers.base import NetworkLayout, NetworkProvider, Provisioning, SubnetLayout
from alcove.vpc import defaults, ranges
from alcove.vpc.addressing import AddressPool, pool_in
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.states import ProvisioningState, is_going, is_provisioned, some, state_of
from alcove.vpc.vpc_cache import VpcCache, spec_of


class VpcNetworks(NetworkProvider):
    types: ClassVar[tuple[str, ...]] = ("vpc", "mizar")
    ready_message: ClassVar[str] = "DNS service IP allocated"

    def awaited_vpcs(self, owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
        return vpc_plan.vpc_names(owner, network)

    # Provisioning

    async def provision(self, provisioning: Provisioning, owner: TenantNetworkId, network: Object) -> None:
        cache = provisioning.backings.cache
        name = vpc_plan.choose_name(owner, network, provisioning.backings.vpcs(owner), cache.vpc)
        named: list[str] = objects.get(network, "spec", "subnets", default=[])
        holder = provisioning.providers.of_vpc(name)
        observed = vpc_plan.ObservedVpc(
            name=name,
            vpc=cache.vpc(name),
            named={each: subnet for each in named if (subnet := cache.subnet(each)) is not None},
            subnets=cache.subnets_of(name),
            shared_by="" if holder is self else holder.types[0],
        )
        plan = vpc_plan.plan(owner, network, observed, provisioning.fresh_range)
        await _apply(cache, owner, plan, observed.vpc)
        await cache.caught_up(cache.vpcs, cache.subnets)
        _check(cache, plan, bool(named))

    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        vpc = next((each for each in backings.vpcs(owner) if is_provisioned(each)), None)
        if vpc is None:
            return None
        whole, vni = ranges.range_of(vpc), read_number(vpc["spec"].get("vni"))
        named = objects.get(network, "spec", "subnets", default=[])
        usable = _usable(backings.cache, objects.name(vpc), named)
        if whole is None or vni is None or not usable:
            return None
        return ProviderNetwork(objects.name(vpc), vni, whole, usable)

    def wanted_nics(
        self, backings: ProviderNetworks, pod: Object, network: Object, backing: ProviderNetwork
    ) -> list[RequestedNic]:
        named = {nic.get("subnet", "") for nic in objects.get(pod, "spec", "nics", default=[])}
        cache = backings.cache
        others = {each: subnet for each in named if each and (subnet := cache.subnet(each)) is not None}
        return nics.requested_nics(pod, backing, others, objects.name(network))

    # Releasing

    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        """Subnets are deleted before their VPC. A VPC that was only attached is kept, without the
        annotation."""
        vpcs = backings.vpcs(owner)
        if message := await backings.release_addresses(vpcs):
            return message
        subnets = backings.subnets(owner)
        for subnet in subnets:
            await backings.cache.delete(SUBNETS, objects.name(subnet), subnet["metadata"]["uid"])
        if subnets:
            return f"subnets {some([objects.name(each) for each in subnets])} are being deleted"
        return await _release_vpcs(backings.cache, vpcs)

    # On nodes

    def node_layout(self, fabric: Fabric, vpc: str, vni: int) -> NetworkLayout | None:
        vpc_object = fabric.vpc(vpc)
        if vpc_object is None:
            return None
        return node_layout(
            vpc_object, fabric.subnets_of(vpc), fabric.bouncers_of(vpc), fabric.dividers_of(vpc)
        )


async def _apply(
    cache: VpcCache, owner: TenantNetworkId, plan: vpc_plan.NetworkPlan, vpc: Object | None
) -> None:
    try:
        if plan.make is not None:
            created = owners.mark_made(defaults.vpc(plan.vpc, plan.make), owner)
            await cache.client.create(SYSTEM, VPCS, created)
        elif plan.attach and vpc is not None:
            attached = copy.deepcopy(vpc)
            owners.mark_attached(attached, owner)
            await cache.client.update(SYSTEM, VPCS, attached)
        for each in plan.subnets:
            if each.make is not None:
                subnet = defaults.subnet(each.name, plan.vpc, each.make)
                await cache.client.create(SYSTEM, SUBNETS, owners.mark_made(subnet, owner))
    except AlreadyExists as error:
        # Another writer created the object first; the mirror must receive it before the next attempt.
        raise Conflict(error.message) from error


def _check(cache: VpcCache, plan: vpc_plan.NetworkPlan, all_needed: bool) -> None:
    """Raise RequestRefused or AddressUnavailable if the network cannot be used yet."""
    vpc = cache.vpc(plan.vpc)
    if vpc is None or not is_provisioned(vpc):
        if vpc is not None and state_of(vpc) == ProvisioningState.FAILED:
            raise RequestRefused(
                f'VPC "{plan.vpc}": {objects.get(vpc, "status", "message", default="Failed")}'
            )
        raise AddressUnavailable(f'waiting for VPC "{plan.vpc}" to be provisioned')
    for each in plan.subnets:
        subnet = cache.subnet(each.name)
        if subnet is not None and state_of(subnet) == ProvisioningState.FAILED and all_needed:
            raise RequestRefused(objects.get(subnet, "status", "message", default="Failed"))
        if all_needed and (subnet is None or not is_provisioned(subnet)):
            raise AddressUnavailable(f'waiting for subnet "{each.name}" to be provisioned')


def _usable(cache: VpcCache, vpc: str, named: list[str]) -> dict[str, AddressPool]:
    """The VPC's subnets that pods can get addresses from, in the order they are tried."""
    pools = {
        objects.name(each): pool_in(each)
        for each in cache.subnets_of(vpc)
        if is_provisioned(each) and not is_going(each)
    }
    return {name: pools[name] for name in named if name in pools} if named else pools


async def _release_vpcs(cache: VpcCache, vpcs: list[Object]) -> str:
    deleting = []
    for vpc in vpcs:
        if owners.is_made(vpc):
            await cache.delete(VPCS, objects.name(vpc), vpc["metadata"]["uid"])
            deleting.append(objects.name(vpc))
        elif owners.ATTACHED_MARK in objects.annotations(vpc):
            free = copy.deepcopy(vpc)
            owners.unmark(free)
            await cache.client.update(SYSTEM, VPCS, free)
    return f"VPC {some(deleting)} is being deleted" if deleting else ""


def node_layout(
    vpc: Object, subnets: Iterable[Object], bouncers: Iterable[Object], dividers: Iterable[Object]
) -> NetworkLayout | None:
    """The layout of a VPC, which may belong to no network and serve only for duties; None if it is not
    complete."""
    whole, vni = ranges.range_of(vpc), vni_of(vpc)
    if whole is None or not vni or not is_provisioned(vpc):
        return None
    by_subnet: dict[str, list[Object]] = {}
    for bouncer in bouncers:
        by_subnet.setdefault(spec_of(bouncer, "net"), []).append(bouncer)
    parts = [
        SubnetLayout(network, _droplets(by_subnet.get(objects.name(subnet), ())))
        for subnet in sorted(subnets, key=objects.name)
        if is_provisioned(subnet) and (network := ranges.range_of(subnet)) is not None
    ]
    return NetworkLayout(
        owner=owners.owner_of(vpc),
        vni=vni,
        network=whole,
        subnets=tuple(parts),
        dividers=_droplets(each for each in dividers if vni_of(each) == vni),
    )


def _droplets(duties: Iterable[Object]) -> tuple[str, ...]:
    """The droplets of the duties, in the order of the duties' names."""
    return tuple(spec_of(each, "droplet") for each in sorted(duties, key=objects.name))
