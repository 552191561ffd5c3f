"""Controllers that run the VPC provider's reconcilers: the keys to enqueue for each change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.api.service_ips import SERVICE_RANGES
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import SUBNETS, VPC_ENDPOINTS, VPCS
from alcove.controllers.controller import Controller, ControllerContext, Keys, Result
from alcove.vpc.defaults import DEFAULT_RANGE, DEFAULT_SUBNET, DEFAULT_VPC, ensure_defaults
from alcove.vpc.droplets import DropletSet, is_live
from alcove.vpc.endpoints import EndpointReconciler
from alcove.vpc.ranges import RangeUsage
from alcove.vpc.states import is_provisioned
from alcove.vpc.subnets import SubnetReconciler
from alcove.vpc.vpc_cache import UNPLACED, VpcCache, key_of, spec_of
from alcove.vpc.vpcs import VpcReconciler

log = logging.getLogger(__name__)

DEFAULTS_RETRY_SECONDS = 5.0


def named_in(field: str) -> Keys:
    """The object that the changed one names in its spec."""

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        name = spec_of(change.obj, field)
        return (key_of(name),) if name else ()

    return keys


def served(duties: Mirror, field: str) -> Keys:
    """The VPCs or subnets (named in `field`) of the duties on a droplet that changed what duties depend on; if
    the droplet has become live, also those of duties that wait for a droplet."""

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        now = _duty_facts(change.obj) if change.kind is not ChangeType.DELETED else _NO_DROPLET
        before = _duty_facts(change.old) if change.old is not None else _NO_DROPLET
        if now == before:
            return ()
        affected = duties.find("droplet", HOME, SYSTEM, change.key.name)
        if now.is_live and not before.is_live:
            affected += duties.find(UNPLACED, HOME, SYSTEM, UNPLACED)
        return {key_of(spec_of(each, field)) for each in affected}

    return keys


class _DutyFacts(Struct, frozen=True):
    """What the duties on a droplet depend on."""

    is_live: bool = False
    ip: str = ""
    mac: str = ""


_NO_DROPLET = _DutyFacts()


def _duty_facts(droplet: Object) -> _DutyFacts:
    return _DutyFacts(is_live(droplet), spec_of(droplet, "ip"), spec_of(droplet, "mac"))


class VpcController(Controller):
    name = "vpc"
    is_ring0 = True
    resource = VPCS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        usage = RangeUsage([DEFAULT_RANGE, *SERVICE_RANGES])
        self._vpcs = VpcReconciler(cache, DropletSet(cache), usage)
        self.on(cache.vpcs)
        self.on(cache.dividers, self._of_divider)
        self.on(
            cache.subnets, lambda change: named_in("vpc")(change) if change.kind is ChangeType.DELETED else ()
        )
        self.on(cache.droplets, served(cache.dividers, "vpc"))

    def _of_divider(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The VPC of the divider, unless it exists and the divider is not its own: each flat network has a
        divider in the default VPC."""
        name = spec_of(change.obj, "vpc")
        vpc = self._cache.vpc(name)
        owned = (change.obj, change.old) if change.old is not None else (change.obj,)
        owner_uids = {objects.labels(each).get(OWNER_LABEL) for each in owned}
        is_foreign = vpc is not None and vpc["metadata"]["uid"] not in owner_uids
        return (key_of(name),) if name and not is_foreign else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        if key.name == DEFAULT_VPC and self._cache.vpc(DEFAULT_VPC) is None:
            await ensure_defaults(self._cache)
        return Result(await self._vpcs.reconcile(key.name))

    async def background(self) -> None:
        """Creates the default VPC before the first tenant needs it."""
        while True:
            try:
                await ensure_defaults(self._cache)
                return
            except (ApiError, ClientError) as error:
                log.warning("failed to create default VPC; retrying", extra={"error": str(error)})
                await asyncio.sleep(DEFAULTS_RETRY_SECONDS)


class SubnetController(Controller):
    name = "subnet"
    is_ring0 = True
    resource = SUBNETS
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        self._subnets = SubnetReconciler(cache, DropletSet(cache))
        self.on(cache.subnets)
        self.on(cache.subnets, self._of_deleted_subnet)
        self.on(cache.vpcs, self._of_vpc)
        self.on(cache.bouncers, named_in("net"))
        self.on(cache.endpoints, self._of_endpoint)
        self.on(cache.droplets, served(cache.bouncers, "net"))

    def _of_deleted_subnet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The unprovisioned subnets of the VPC, which may have overlapped with the deleted one."""
        if change.kind is not ChangeType.DELETED:
            return ()
        return self._unprovisioned(spec_of(change.obj, "vpc"))

    def _of_vpc(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return self._unprovisioned(change.key.name)

    def _unprovisioned(self, vpc: str) -> Iterable[ObjectKey]:
        subnets = self._cache.subnets.find("vpc", HOME, SYSTEM, vpc)
        return [key_of(each["metadata"]["name"]) for each in subnets if not is_provisioned(each)]

    def _of_endpoint(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return () if change.kind is ChangeType.UPDATED else named_in("net")(change)

    async def reconcile(self, key: ObjectKey) -> Result:
        if key.name == DEFAULT_SUBNET and self._cache.subnet(DEFAULT_SUBNET) is None:
            await ensure_defaults(self._cache)
        return Result(await self._subnets.reconcile(key.name))


class EndpointController(Controller):
    name = "vpc-endpoint"
    is_ring0 = True
    resource = VPC_ENDPOINTS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = cache = VpcCache(context.planes, context.clock)
        self.reads += cache.mirrors
        self._endpoints = EndpointReconciler(cache)
        self.on(cache.endpoints, lambda change: () if is_provisioned(change.obj) else (change.key,))
        self.on(cache.droplets, self._on_droplet)
        self.on(cache.subnets, self._in_subnet)

    def _on_droplet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.old is not None and spec_of(change.old, "ip") == spec_of(change.obj, "ip"):
            return ()
        return self._cache.endpoints.find_keys("droplet", HOME, SYSTEM, change.key.name)

    def _in_subnet(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The endpoints of a subnet that has become provisioned."""
        if not is_provisioned(change.obj) or (change.old is not None and is_provisioned(change.old)):
            return ()
        return self._cache.endpoints.find_keys("net", HOME, SYSTEM, change.key.name)

    async def reconcile(self, key: ObjectKey) -> Result:
        await self._endpoints.reconcile(key.name)
        return Result()
