"""Duties of droplets: dividers know all subnets of a VPC, bouncers all endpoints of a subnet.

Which copies there are to be follows from the VPC or subnet; where they are, from `vpc/placement.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.resources import Resource
from alcove.vpc.droplets import DropletSet
from alcove.vpc.placement import NOWHERE, PlacementStatus, place_copies
from alcove.vpc.states import ProvisioningState
from alcove.vpc.vpc_cache import VpcCache, spec_of

_OF_DROPLET = ("droplet", "ip", "mac")


class DutyCopies(Struct, frozen=True, kw_only=True):
    """What the copies of one duty are to be."""

    names: Callable[[int], str]
    desired: int
    owner_uid: str
    """Of the VPC or subnet."""
    spec: Object


class DutyReconciler:
    """One kind of duty."""

    def __init__(self, cache: VpcCache, fleet: DropletSet, resource: Resource) -> None:
        self._cache = cache
        self._fleet = fleet
        self._resource = resource

    async def keep(self, copies: DutyCopies, existing: list[Object]) -> PlacementStatus:
        """Makes the copies what they are to be, on droplets; drops those that are too many."""
        by_name = {objects.name(each): each for each in existing}
        names = [copies.names(index) for index in range(copies.desired)]
        found = {index: by_name.pop(name) for index, name in enumerate(names) if name in by_name}
        placed = {index: spec_of(each, "droplet") for index, each in found.items()}
        homes = place_copies(copies.desired, placed, self._fleet.live.keys(), self._fleet.duties)
        for index, name in enumerate(names):
            spec = {**copies.spec, **self._home(homes[index])}
            if index in found:
                await self._update(found[index], spec)
            else:
                metadata = {"name": name, "labels": {OWNER_LABEL: copies.owner_uid}}
                await self._cache.client.create(SYSTEM, self._resource, {"metadata": metadata, "spec": spec})
        for surplus in by_name.values():
            await self.drop(surplus)
        return PlacementStatus(copies.desired, sum(droplet != NOWHERE for droplet in homes.values()))

    def home(self) -> Object:
        """The droplet that a first copy would be placed on, as its spec tells it."""
        return self._home(place_copies(1, {}, self._fleet.live.keys(), self._fleet.duties)[0])

    def _home(self, droplet: str) -> Object:
        if droplet == NOWHERE:
            return {"status": str(ProvisioningState.INIT)}
        host = self._fleet.live[droplet]
        home: Object = {"droplet": droplet, "status": str(ProvisioningState.PROVISIONED)}
        return home | {field: spec_of(host, field) for field in ("ip", "mac") if spec_of(host, field)}

    async def _update(self, old: Object, spec: Object) -> None:
        kept = {field: value for field, value in old["spec"].items() if field not in _OF_DROPLET}
        if {**kept, **spec} != old["spec"]:
            await self._cache.client.update(SYSTEM, self._resource, {**old, "spec": {**kept, **spec}})

    async def drop(self, obj: Object) -> None:
        await self._cache.delete(self._resource, objects.name(obj), obj["metadata"]["uid"])
