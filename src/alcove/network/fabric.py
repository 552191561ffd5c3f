"""Mirrors of the VPC provider's objects that a node watches.

A node does not watch all endpoints; controllers do, with `vpc/vpc_cache.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import Index, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import BOUNCERS, DIVIDERS, SUBNETS, VPCS, Resource
from alcove.vpc.vpc_cache import by_spec, key_of


class Fabric:
    def __init__(self, planes: Planes, on_change: Callable[[Resource, ObjectChange], None]) -> None:
        """`on_change` is called with every change of any of the objects, and its resource."""
        by_droplet, by_vpc = by_spec("droplet"), by_spec("vpc")
        self._planes = planes
        self._vpcs = self._mirror(VPCS)
        self._subnets = self._mirror(SUBNETS, vpc=by_vpc)
        self._bouncers = self._mirror(BOUNCERS, vpc=by_vpc, droplet=by_droplet)
        self._dividers = self._mirror(DIVIDERS, vpc=by_vpc, droplet=by_droplet)
        for mirror in self.mirrors:
            mirror.subscribe(partial(on_change, mirror.selection.resource))

    def _mirror(self, resource: Resource, **indexes: Index) -> Mirror:
        return self._planes.mirror(ListSelection(resource), indexes, tenant=SYSTEM, only=HOME)

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        return (self._vpcs, self._subnets, self._bouncers, self._dividers)

    def vpc(self, name: str) -> Object | None:
        return self._vpcs.get(key_of(name))

    def subnet(self, name: str) -> Object | None:
        return self._subnets.get(key_of(name))

    def divider(self, name: str) -> Object | None:
        return self._dividers.get(key_of(name))

    def subnets_of(self, vpc: str) -> list[Object]:
        return self._subnets.find("vpc", HOME, SYSTEM, vpc)

    def bouncers_of(self, vpc: str) -> list[Object]:
        return self._bouncers.find("vpc", HOME, SYSTEM, vpc)

    def dividers_of(self, vpc: str) -> list[Object]:
        return self._dividers.find("vpc", HOME, SYSTEM, vpc)

    def bouncers_on(self, droplet: str) -> list[Object]:
        return self._bouncers.find("droplet", HOME, SYSTEM, droplet)

    def dividers_on(self, droplet: str) -> list[Object]:
        return self._dividers.find("droplet", HOME, SYSTEM, droplet)
