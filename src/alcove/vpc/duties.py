"""Duties of droplets: dividers know all subnets of a VPC, bouncers all endpoints of a subnet.

The VPC or subnet determines how many copies of a duty exist; `vpc/placement.py` determines their droplets.
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

_DROPLET_FIELDS = ("droplet", "ip", "mac")


class DutyCopies(Struct, frozen=True, kw_only=True):
    """The desired copies of one duty."""

    names: Callable[[int], str]
    desired: int
    owner_uid: str
    """The uid of the VPC or subnet."""
    spec: Object


class DutyReconciler:
    """Reconciles one kind of duty: bouncers or dividers."""

    def __init__(self, cache: VpcCache, fleet: DropletSet, resource: Resource) -> None:
        self._cache = cache
        self._fleet = fleet
        self._resource = resource

    async def keep(self, copies: DutyCopies, existing: list[Object]) -> PlacementStatus:
        """Create, update and place the desired copies; delete surplus ones."""
        by_name = {objects.name(each): each for each in existing}
        names = [copies.names(index) for index in range(copies.desired)]
        current = {index: by_name.pop(name) for index, name in enumerate(names) if name in by_name}
        placed = {index: spec_of(each, "droplet") for index, each in current.items()}
        homes = place_copies(copies.desired, placed, self._fleet.live.keys(), self._fleet.by_load())
        for index, name in enumerate(names):
            spec = {**copies.spec, **self._home(homes[index])}
            if index in current:
                await self._update(current[index], spec)
            else:
                metadata = {"name": name, "labels": {OWNER_LABEL: copies.owner_uid}}
                await self._cache.client.create(SYSTEM, self._resource, {"metadata": metadata, "spec": spec})
        for surplus in by_name.values():
            await self.drop(surplus)
        return PlacementStatus(copies.desired, sum(droplet != NOWHERE for droplet in homes.values()))

    def home(self) -> Object:
        """The spec fields of the droplet that a first copy would be placed on."""
        return self._home(place_copies(1, {}, self._fleet.live.keys(), self._fleet.by_load())[0])

    def _home(self, droplet: str) -> Object:
        if droplet == NOWHERE:
            return {"status": str(ProvisioningState.INIT)}
        host = self._fleet.live[droplet]
        home: Object = {"droplet": droplet, "status": str(ProvisioningState.PROVISIONED)}
        return home | {field: spec_of(host, field) for field in ("ip", "mac") if spec_of(host, field)}

    async def _update(self, old: Object, spec: Object) -> None:
        retained = {field: value for field, value in old["spec"].items() if field not in _DROPLET_FIELDS}
        if {**retained, **spec} != old["spec"]:
            await self._cache.client.update(SYSTEM, self._resource, {**old, "spec": {**retained, **spec}})

    async def drop(self, obj: Object) -> None:
        await self._cache.delete(self._resource, objects.name(obj), obj["metadata"]["uid"])
