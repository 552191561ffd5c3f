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
from alcove.vpc.fleet import Fleet
from alcove.vpc.placement import NOWHERE, Kept, place
from alcove.vpc.states import State
from alcove.vpc.world import World, spec_of

_OF_DROPLET = ("droplet", "ip", "mac")


class Copies(Struct, frozen=True, kw_only=True):
    """What the copies of one duty are to be."""

    names: Callable[[int], str]
    wanted: int
    owner_uid: str
    """Of the VPC or subnet."""
    spec: Object


class Duties:
    """One kind of duty."""

    def __init__(self, world: World, fleet: Fleet, resource: Resource) -> None:
        self._world = world
        self._fleet = fleet
        self._resource = resource

    async def keep(self, copies: Copies, existing: list[Object]) -> Kept:
        """Makes the copies what they are to be, on droplets; drops those that are too many."""
        by_name = {objects.name(each): each for each in existing}
        names = [copies.names(index) for index in range(copies.wanted)]
        found = {index: by_name.pop(name) for index, name in enumerate(names) if name in by_name}
        placed = {index: spec_of(each, "droplet") for index, each in found.items()}
        homes = place(copies.wanted, placed, self._fleet.live.keys(), self._fleet.duties)
        for index, name in enumerate(names):
            spec = {**copies.spec, **self._home(homes[index])}
            if index in found:
                await self._update(found[index], spec)
            else:
                metadata = {"name": name, "labels": {OWNER_LABEL: copies.owner_uid}}
                await self._world.client.create(SYSTEM, self._resource, {"metadata": metadata, "spec": spec})
        for surplus in by_name.values():
            await self.drop(surplus)
        return Kept(copies.wanted, sum(droplet != NOWHERE for droplet in homes.values()))

    def home(self) -> Object:
        """The droplet that a first copy would be placed on, as its spec tells it."""
        return self._home(place(1, {}, self._fleet.live.keys(), self._fleet.duties)[0])

    def _home(self, droplet: str) -> Object:
        if droplet == NOWHERE:
            return {"status": str(State.INIT)}
        host = self._fleet.live[droplet]
        home: Object = {"droplet": droplet, "status": str(State.PROVISIONED)}
        return home | {field: spec_of(host, field) for field in ("ip", "mac") if spec_of(host, field)}

    async def _update(self, old: Object, spec: Object) -> None:
        kept = {field: value for field, value in old["spec"].items() if field not in _OF_DROPLET}
        if {**kept, **spec} != old["spec"]:
            await self._world.client.update(SYSTEM, self._resource, {**old, "spec": {**kept, **spec}})

    async def drop(self, obj: Object) -> None:
        await self._world.delete(self._resource, objects.name(obj), obj["metadata"]["uid"])
