"""The VPC provider's reconcilers as controllers: whom each change of an object concerns."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM
from alcove.client.changes import Change, Kind
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import SUBNETS, VPC_ENDPOINTS, VPCS
from alcove.controllers.controller import Controller, Keys, Result, Setup
from alcove.network.service_ranges import SERVICE_RANGES
from alcove.vpc.defaults import DEFAULT_RANGE, DEFAULT_SUBNET, DEFAULT_VPC, ensure_defaults
from alcove.vpc.endpoints import Endpoints
from alcove.vpc.fleet import Fleet, is_live
from alcove.vpc.placement import NOWHERE
from alcove.vpc.ranges import Usage
from alcove.vpc.states import is_provisioned
from alcove.vpc.subnets import Subnets
from alcove.vpc.vpcs import Vpcs
from alcove.vpc.world import World, key_of, spec_of

log = logging.getLogger(__name__)

DEFAULTS_RETRY_SECONDS = 5.0


def named_in(field: str) -> Keys:
    """The object that the changed one names in its spec."""

    def keys(change: Change) -> Iterable[ObjectKey]:
        name = spec_of(change.obj, field)
        return (key_of(name),) if name else ()

    return keys


def served(duties: Mirror, field: str) -> Keys:
    """Whose duties a changed droplet has, or could take over: those named in `field` of the duties on it,
    and of those that are nowhere."""

    def keys(change: Change) -> Iterable[ObjectKey]:
        is_there = change.kind is not Kind.DELETED and is_live(change.obj)
        was_there = change.old is not None and is_live(change.old)
        found = duties.find("droplet", HOME, SYSTEM, change.key.name)
        if is_there and not was_there:
            found += duties.find("droplet", HOME, SYSTEM, NOWHERE)
        return {key_of(spec_of(each, field)) for each in found}

    return keys


class VpcController(Controller):
    name = "vpc"
    resource = VPCS
    workers = 32

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._world = world = World(setup.planes, setup.clock)
        self.reads += world.mirrors
        usage = Usage([DEFAULT_RANGE, *SERVICE_RANGES])
        self._vpcs = Vpcs(world, Fleet(world), usage)
        self.on(world.vpcs)
        self.on(world.dividers, named_in("vpc"))
        self.on(world.subnets, lambda change: named_in("vpc")(change) if change.kind is Kind.DELETED else ())
        self.on(world.droplets, served(world.dividers, "vpc"))

    async def reconcile(self, key: ObjectKey) -> Result:
        if key.name == DEFAULT_VPC and self._world.vpc(DEFAULT_VPC) is None:
            await ensure_defaults(self._world)
        return Result(await self._vpcs.reconcile(key.name))

    async def background(self) -> None:
        """The default VPC is there before anybody asks for it."""
        while True:
            try:
                await ensure_defaults(self._world)
                return
            except (ApiError, ClientError) as error:
                log.warning("no default VPC yet", extra={"error": str(error)})
                await asyncio.sleep(DEFAULTS_RETRY_SECONDS)


class SubnetController(Controller):
    name = "subnet"
    resource = SUBNETS
    workers = 32

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._world = world = World(setup.planes, setup.clock)
        self.reads += world.mirrors
        self._subnets = Subnets(world, Fleet(world))
        self.on(world.subnets)
        self.on(world.subnets, self._rivals)
        self.on(world.vpcs, self._parts)
        self.on(world.bouncers, named_in("net"))
        self.on(world.endpoints, self._filled)
        self.on(world.droplets, served(world.bouncers, "net"))

    def _rivals(self, change: Change) -> Iterable[ObjectKey]:
        """A subnet that goes makes room for those it was in the way of."""
        if change.kind is not Kind.DELETED:
            return ()
        return self._waiting(spec_of(change.obj, "vpc"))

    def _parts(self, change: Change) -> Iterable[ObjectKey]:
        return self._waiting(change.key.name)

    def _waiting(self, vpc: str) -> Iterable[ObjectKey]:
        found = self._world.subnets.find("vpc", HOME, SYSTEM, vpc)
        return [key_of(each["metadata"]["name"]) for each in found if not is_provisioned(each)]

    def _filled(self, change: Change) -> Iterable[ObjectKey]:
        return () if change.kind is Kind.UPDATED else named_in("net")(change)

    async def reconcile(self, key: ObjectKey) -> Result:
        if key.name == DEFAULT_SUBNET and self._world.subnet(DEFAULT_SUBNET) is None:
            await ensure_defaults(self._world)
        return Result(await self._subnets.reconcile(key.name))


class EndpointController(Controller):
    name = "vpc-endpoint"
    resource = VPC_ENDPOINTS

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._world = world = World(setup.planes, setup.clock)
        self.reads += world.mirrors
        self._endpoints = Endpoints(world)
        self.on(world.endpoints, lambda change: () if is_provisioned(change.obj) else (change.key,))
        self.on(world.droplets, self._on_droplet)
        self.on(world.subnets, self._in_subnet)

    def _on_droplet(self, change: Change) -> Iterable[ObjectKey]:
        if change.old is not None and spec_of(change.old, "ip") == spec_of(change.obj, "ip"):
            return ()
        return self._world.endpoints.find_keys("droplet", HOME, SYSTEM, change.key.name)

    def _in_subnet(self, change: Change) -> Iterable[ObjectKey]:
        """What was written before its subnet was provisioned."""
        if not is_provisioned(change.obj) or (change.old is not None and is_provisioned(change.old)):
            return ()
        return self._world.endpoints.find_keys("net", HOME, SYSTEM, change.key.name)

    async def reconcile(self, key: ObjectKey) -> Result:
        await self._endpoints.reconcile(key.name)
        return Result()
