"""Reconciles VPCs: each has a VNI, a range and dividers.

The VNI is claimed by the VPC's first divider (`vpc/claims.py`). A VPC with a VNI and a range is provisioned
even if no divider is placed on a droplet: every node then knows all subnets.
"""

from __future__ import annotations

import copy

from alcove.api import objects
from alcove.api.ids import SYSTEM
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
"""A failed VPC is reconciled again after this time: the cause may be another object."""


class VpcReconciler:
    def __init__(self, cache: VpcCache, fleet: DropletSet, usage: RangeUsage) -> None:
        self._cache = cache
        self._usage = usage
        self._vnis = VniAllocator(cache)
        self._dividers = DutyReconciler(cache, fleet, DIVIDERS)
        cache.vpcs.subscribe(usage.changed)

    async def reconcile(self, name: str) -> float | None:
        """Returns the seconds after which to reconcile again; None to wait for a change."""
        vpc = self._cache.vpc(name)
        if vpc is None:
            await self._clean_up(name)
            return None
        if states.is_going(vpc):
            await self._finalize(vpc)
            return None
        try:
            await self._provide(vpc)
        except (RequestRefused, AddressUnavailable) as error:
            new = copy.deepcopy(vpc)
            states.hold(new)
            await self._update_status(vpc, new, ProvisioningState.FAILED, str(error))
            return RETRY_SECONDS
        return None

    async def _provide(self, vpc: Object) -> None:
        new = copy.deepcopy(vpc)
        states.hold(new)
        spec = new["spec"]
        if ranges.range_of(new) is None:
            ranges.write(spec, self._usage.fresh())
        spec["vni"] = await self._claim_vni(vpc)
        placement = await self._keep_dividers(new)
        await self._update_status(vpc, new, ProvisioningState.PROVISIONED, "", placement)

    async def _claim_vni(self, vpc: Object) -> int:
        """Claim and return the VPC's VNI: the one in its spec, the one that it claimed before, or a new
        one."""
        uid = vpc["metadata"]["uid"]
        divider = {"spec": {"vpc": objects.name(vpc), **self._dividers.home()}}
        requested = read_number(vpc["spec"].get("vni"))
        if requested is None:
            return await self._vnis.draw(uid, divider)
        await self._vnis.take(requested, uid, divider)
        return requested

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
        """Only the dividers that the VPC owns: networks that share its range have dividers in it too."""
        return self._cache.dividers.find("owner", HOME, SYSTEM, vpc["metadata"]["uid"])

    async def _update_status(
        self,
        vpc: Object,
        new: Object,
        state: ProvisioningState,
        message: str,
        placement: PlacementStatus | None = None,
    ) -> None:
        now = self._cache.clock()
        states.enter(new, state, now)
        message = message or f"VNI {new['spec']['vni']}; dividers: {placement}"
        more = [states.placed(vpc, placement, now)] if placement else []
        status = states.described(vpc, state, message, now, *more)
        await states.write(self._cache.client, VPCS, new, vpc, status)

    async def _clean_up(self, name: str) -> None:
        """Delete the dividers of a VPC whose finalizer was removed by another client."""
        orphans = self._cache.dividers.find("vpc", HOME, SYSTEM, name)
        if name == DEFAULT_VPC:
            # The other dividers belong to networks that share its range. The default VPC will be created
            # again.
            orphans = [each for each in orphans if read_number(each["spec"].get("vni")) == claims.DEFAULT_VNI]
        if orphans and await self._cache.is_gone(VPCS, name):
            for divider in orphans:
                await self._dividers.drop(divider)

    async def _finalize(self, vpc: Object) -> None:
        """Delete the dividers of a deleted VPC, which releases its VNI, and its finalizer, once it has no
        subnets."""
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
