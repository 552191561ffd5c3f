"""VPCs: a number of their own on the wire, a range, and dividers.

The number is claimed by the VPC's first divider (`vpc/claims.py`); a VPC that has its number and range
is provisioned, wherever its dividers are: without any on droplets, every node knows all subnets.
"""

from __future__ import annotations

import copy

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.resources import DIVIDERS, VPCS
from alcove.vpc import claims, ranges, states
from alcove.vpc.defaults import DEFAULT_VPC
from alcove.vpc.droplets import DropletSet
from alcove.vpc.duties import DutyCopies, DutyReconciler
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.placement import PlacementStatus
from alcove.vpc.ranges import RangeUsage
from alcove.vpc.states import ProvisioningState
from alcove.vpc.vnis import VniAllocator
from alcove.vpc.vpc_cache import VpcCache

RETRY_SECONDS = 15.0
"""What failed because of others is looked at again after this, whatever happened."""


class VpcReconciler:
    def __init__(self, cache: VpcCache, fleet: DropletSet, usage: RangeUsage) -> None:
        self._cache = cache
        self._usage = usage
        self._numbers = VniAllocator(cache)
        self._dividers = DutyReconciler(cache, fleet, DIVIDERS)
        cache.vpcs.subscribe(usage.changed)

    async def reconcile(self, name: str) -> float | None:
        """Returns after how many seconds to look again; None: when something happens."""
        vpc = self._cache.vpc(name)
        if vpc is None:
            await self._sweep(name)
            return None
        if states.is_going(vpc):
            await self._end(vpc)
            return None
        try:
            await self._provide(vpc)
        except (RequestRefused, AddressUnavailable) as error:
            new = copy.deepcopy(vpc)
            states.hold(new)
            await self._tell(vpc, new, ProvisioningState.FAILED, str(error))
            return RETRY_SECONDS
        return None

    async def _provide(self, vpc: Object) -> None:
        new = copy.deepcopy(vpc)
        states.hold(new)
        spec = new["spec"]
        if ranges.range_of(new) is None:
            ranges.write(spec, self._usage.fresh())
        spec["vni"] = await self._number(vpc)
        kept = await self._keep_dividers(new)
        await self._tell(vpc, new, ProvisioningState.PROVISIONED, "", kept)

    async def _number(self, vpc: Object) -> int:
        """The VPC's number: the one that is written, one that it has claimed before, or a new one."""
        uid = vpc["metadata"]["uid"]
        divider = {"spec": {"vpc": objects.name(vpc), **self._dividers.home()}}
        written = read_number(vpc["spec"].get("vni"))
        if written is None:
            return await self._numbers.draw(uid, divider)
        await self._numbers.take(written, uid, divider)
        return written

    async def _keep_dividers(self, vpc: Object) -> PlacementStatus:
        name, vni = objects.name(vpc), read_number(vpc["spec"]["vni"])
        assert vni is not None
        await self._cache.caught_up(self._cache.dividers)
        desired = read_number(vpc["spec"].get("dividers")) or 1
        copies = DutyCopies(
            names=lambda index: claims.divider_name(vni, index),
            desired=desired,
            owner_uid=vpc["metadata"]["uid"],
            spec={"vpc": name, "vni": vni},
        )
        return await self._dividers.keep(copies, self._dividers_of(vpc))

    def _dividers_of(self, vpc: Object) -> list[Object]:
        """Its own ones: beside them, networks that share the VPC's range have theirs."""
        found = self._cache.dividers.find("vpc", HOME, SYSTEM, objects.name(vpc))
        uid = vpc["metadata"]["uid"]
        return [each for each in found if objects.labels(each).get(OWNER_LABEL) == uid]

    async def _tell(
        self,
        vpc: Object,
        new: Object,
        state: ProvisioningState,
        why: str,
        kept: PlacementStatus | None = None,
    ) -> None:
        now = self._cache.clock()
        states.enter(new, state, now)
        message = why or f"VNI {new['spec']['vni']}; dividers: {kept}"
        more = [states.placed(vpc, kept, now)] if kept else []
        status = states.described(vpc, state, message, now, *more)
        await states.write(self._cache.client, VPCS, new, vpc, status)

    async def _sweep(self, name: str) -> None:
        """What a VPC left behind that somebody removed by force."""
        left = self._cache.dividers.find("vpc", HOME, SYSTEM, name)
        if name == DEFAULT_VPC:
            # The others are of networks that share its range; it comes back.
            left = [each for each in left if read_number(each["spec"].get("vni")) == claims.DEFAULT_VNI]
        if left and await self._cache.is_gone(VPCS, name):
            for divider in left:
                await self._dividers.drop(divider)

    async def _end(self, vpc: Object) -> None:
        """A deleted VPC goes when it has no subnets; its number is free once its dividers are gone."""
        name = objects.name(vpc)
        subnets = [objects.name(each) for each in self._cache.subnets_of(name)]
        new = copy.deepcopy(vpc)
        if subnets:
            message = f"waiting for its subnets to be deleted: {states.some(subnets)}"
            status = states.described(vpc, ProvisioningState.INIT, message, self._cache.clock())
            await states.write(self._cache.client, VPCS, new, vpc, status)
            return
        for divider in self._dividers_of(vpc):
            await self._dividers.drop(divider)
        if states.FINALIZER in (vpc["metadata"].get("finalizers") or ()):
            states.let_go(new)
            await self._cache.client.update(SYSTEM, VPCS, new)
