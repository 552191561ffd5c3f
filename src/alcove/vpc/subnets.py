"""Reconciles subnets: parts of a VPC's range that do not overlap, their bouncers, and the count of used
addresses."""

from __future__ import annotations

import copy
from collections import Counter

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.ids import SYSTEM
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME
from alcove.client.resources import BOUNCERS, SUBNETS, VPC_ENDPOINTS
from alcove.vpc import claims, ranges, states
from alcove.vpc.droplets import DropletSet
from alcove.vpc.duties import DutyCopies, DutyReconciler
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.placement import PlacementStatus
from alcove.vpc.states import ProvisioningState
from alcove.vpc.vpc_cache import VpcCache, spec_of

USED_SECONDS = 1.0
"""Minimum interval between two writes of a subnet's used and free addresses."""


class SubnetReconciler:
    def __init__(self, cache: VpcCache, fleet: DropletSet) -> None:
        self._cache = cache
        self._bouncers = DutyReconciler(cache, fleet, BOUNCERS)
        self._used: Counter[str] = Counter()
        self._reported_at: dict[str, float] = {}
        """Subnet → time of the last status update."""
        cache.endpoints.subscribe(self._count)

    def _count(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.UPDATED:
            return
        net = spec_of(change.obj, "net")
        self._used[net] += 1 if change.kind is ChangeType.ADDED else -1
        if not self._used[net]:
            del self._used[net]

    async def reconcile(self, name: str) -> float | None:
        """Returns the seconds after which to reconcile again; None to wait for a change."""
        subnet = self._cache.subnet(name)
        if subnet is None:
            self._reported_at.pop(name, None)
            await self._clean_up(name)
            return None
        if states.is_going(subnet):
            await self._finalize(subnet)
            return None
        if states.is_provisioned(subnet) and (wait := self._wait_seconds(name)) > 0:
            return wait
        try:
            await self._provide(subnet)
        except RequestRefused as error:
            await self._update_status(subnet, ProvisioningState.FAILED, str(error))
        except AddressUnavailable as error:
            await self._update_status(subnet, ProvisioningState.INIT, str(error))
        return None

    def _wait_seconds(self, name: str) -> float:
        return self._reported_at.get(name, 0.0) + USED_SECONDS - self._cache.clock()

    async def _provide(self, subnet: Object) -> None:
        vpc = self._cache.vpc(spec_of(subnet, "vpc"))
        if vpc is None:
            raise AddressUnavailable(f'VPC "{spec_of(subnet, "vpc")}" not found')
        if not states.is_provisioned(subnet):
            check(subnet, vpc, self._cache.subnets_of(objects.name(vpc)))
        if not states.is_provisioned(vpc):
            raise AddressUnavailable(f'waiting for VPC "{objects.name(vpc)}" to be provisioned')
        vni = read_number(vpc["spec"]["vni"])
        placement = await self._keep_bouncers(subnet, vni)
        await self._update_status(subnet, ProvisioningState.PROVISIONED, "", vni, placement)

    async def _keep_bouncers(self, subnet: Object, vni: int | None) -> PlacementStatus:
        name, spec = objects.name(subnet), subnet["spec"]
        duty = {
            "vpc": spec["vpc"],
            "net": name,
            "vni": vni,
            "nip": spec["ip"],
            "prefix": read_number(spec["prefix"]),
        }
        existing = self._cache.bouncers.find("net", HOME, SYSTEM, name)
        copies = DutyCopies(
            names=lambda index: claims.bouncer_name(name, index),
            desired=read_number(spec.get("bouncers")) or 1,
            owner_uid=subnet["metadata"]["uid"],
            spec=duty,
        )
        return await self._bouncers.keep(copies, existing)

    async def _update_status(
        self,
        subnet: Object,
        state: ProvisioningState,
        message: str,
        vni: int | None = None,
        placement: PlacementStatus | None = None,
    ) -> None:
        now, new = self._cache.clock(), copy.deepcopy(subnet)
        states.hold(new)
        states.enter(new, state, now)
        if vni is not None:
            new["spec"]["vni"] = vni
        more = [states.placed(subnet, placement, now)] if placement else []
        status = states.described(subnet, state, message or f"bouncers: {placement}", now, *more)
        status |= self._usage(subnet) if state is ProvisioningState.PROVISIONED else {}
        await states.write(self._cache.client, SUBNETS, new, subnet, status)
        self._reported_at[objects.name(subnet)] = now

    def _usage(self, subnet: Object) -> Object:
        network, used = ranges.range_of(subnet), self._used[objects.name(subnet)]
        assert network is not None
        size = ranges.last_usable(network) - ranges.first_usable(network) + 1
        # Capped at int64: an IPv6 subnet has more addresses than the field can hold.
        return {"used": used, "free": min(size - used, 2**63 - 1)}

    async def _clean_up(self, name: str) -> None:
        """Delete endpoints and bouncers of a subnet whose finalizer was removed by another client."""
        endpoints = self._cache.endpoints.find_keys("net", HOME, SYSTEM, name) if name else []
        bouncers = self._cache.bouncers.find("net", HOME, SYSTEM, name)
        if not (endpoints or bouncers) or not await self._cache.is_gone(SUBNETS, name):
            return
        for bouncer in bouncers:
            await self._bouncers.drop(bouncer)
        for key in endpoints:
            await self._cache.delete(VPC_ENDPOINTS, key.name)

    async def _finalize(self, subnet: Object) -> None:
        """Remove the finalizer of a deleted subnet once no endpoint has an address in it."""
        name = objects.name(subnet)
        used = len(self._cache.endpoints.find_keys("net", HOME, SYSTEM, name))
        new = copy.deepcopy(subnet)
        if used:
            message = f"waiting for {used} endpoint{'s' if used > 1 else ''} to be deleted"
            status = states.described(subnet, ProvisioningState.INIT, message, self._cache.clock())
            await states.write(self._cache.client, SUBNETS, new, subnet, status)
            return
        for bouncer in self._cache.bouncers.find("net", HOME, SYSTEM, name):
            await self._bouncers.drop(bouncer)
        if states.FINALIZER in (subnet["metadata"].get("finalizers") or ()):
            states.let_go(new)
            await self._cache.client.update(SYSTEM, SUBNETS, new)


def check(subnet: Object, vpc: Object, siblings: list[Object]) -> None:
    """Raise RequestRefused if the subnet cannot be in the VPC, AddressUnavailable if it may be later."""
    name, network, whole = objects.name(subnet), ranges.range_of(subnet), ranges.range_of(vpc)
    owner = f'VPC "{objects.name(vpc)}"'
    if network is None:
        raise RequestRefused("spec.ip and spec.prefix are required: a subnet is a part of its VPC's range")
    if states.is_going(vpc):
        raise AddressUnavailable(f"{owner} is being deleted")
    if whole is None:
        raise AddressUnavailable(f"waiting for {owner} to have a range")
    if network.version != whole.version:
        raise RequestRefused(
            f'subnet "{name}" ({network}) is IPv{network.version}, but {owner} ({whole}) is IPv{whole.version}'
        )
    if not ranges.is_inside(network, whole):
        raise RequestRefused(f'subnet "{name}" ({network}) is not inside {owner} ({whole})')
    for other in siblings:
        if (range_ := _conflict(subnet, network, other)) is not None:
            raise RequestRefused(
                f'subnet "{name}" ({network}) overlaps subnet "{objects.name(other)}" ({range_})'
            )


def _conflict(subnet: Object, network: Network, other: Object) -> Network | None:
    """The other subnet's range if it overlaps and has precedence: it is provisioned, or older and not
    failed."""
    range_ = ranges.range_of(other)
    if objects.name(other) == objects.name(subnet) or states.state_of(other) == ProvisioningState.FAILED:
        return None
    if range_ is None or not ranges.overlaps(network, range_):
        return None
    return range_ if _rank(other) < _rank(subnet) else None


def _rank(subnet: Object) -> tuple[bool, str, str]:
    metadata = subnet["metadata"]
    return (not states.is_provisioned(subnet), metadata["creationTimestamp"], metadata["uid"])
