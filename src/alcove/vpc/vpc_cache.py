"""Mirrors of the provider's objects, with the associations between them as indexes.

| index                       | finds                                                  |
|-----------------------------|--------------------------------------------------------|
| subnets by `vpc`            | a VPC's subnets                                        |
| endpoints by `net`, `scope` | a subnet's endpoints; the endpoints of a VNI           |
| endpoints by `owner`        | the endpoints of a pod, service or other owner by uid  |
| dividers by `vpc`, bouncers by `net` | the duties of a VPC or subnet                 |
| dividers by `owner`         | those of a VPC, without those of networks that share its range |
| dividers, bouncers and endpoints by `droplet` | what a droplet serves or hosts       |
| dividers and bouncers by `unplaced` | the duties that wait for a droplet             |

All objects are in ring0, on the home plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from alcove.api import objects
from alcove.api.errors import Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.changes import Index
from alcove.client.client import Client, ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import BOUNCERS, DIVIDERS, DROPLETS, SUBNETS, VPC_ENDPOINTS, VPCS, Resource
from alcove.vpc import claims
from alcove.vpc.states import is_provisioned

Clock = Callable[[], float]
UNPLACED = "unplaced"
"""The name of an index, and the value by which it finds the duties that wait for a droplet."""


def key_of(name: str) -> ObjectKey:
    return ObjectKey(HOME, SYSTEM, "", name)


def spec_of(obj: Object, field: str) -> str:
    return str(objects.get(obj, "spec", field, default=""))


def by_spec(field: str) -> Index:
    """An index by a spec field; objects without the field are found by the empty string."""
    return lambda obj: (spec_of(obj, field),)


def _scope(endpoint: Object) -> Iterable[str]:
    scope = claims.scope_of(objects.name(endpoint))
    return (scope,) if scope else ()


def _owner(obj: Object) -> Iterable[str]:
    owner = objects.labels(obj).get(OWNER_LABEL)
    return (owner,) if owner else ()


def _unplaced(duty: Object) -> Iterable[str]:
    """Dividers of flat networks need no droplet, and are provisioned without one."""
    return () if spec_of(duty, "droplet") or is_provisioned(duty) else (UNPLACED,)


class VpcCache:
    def __init__(self, planes: Planes, clock: Clock) -> None:
        self._planes = planes
        self.clock = clock
        self.vpcs = self._mirror(VPCS)
        self.subnets = self._mirror(SUBNETS, vpc=by_spec("vpc"))
        self.endpoints = self._mirror(
            VPC_ENDPOINTS, net=by_spec("net"), droplet=by_spec("droplet"), scope=_scope, owner=_owner
        )
        self.bouncers = self._mirror(
            BOUNCERS, net=by_spec("net"), droplet=by_spec("droplet"), unplaced=_unplaced
        )
        self.dividers = self._mirror(
            DIVIDERS, vpc=by_spec("vpc"), owner=_owner, droplet=by_spec("droplet"), unplaced=_unplaced
        )
        self.droplets = self._mirror(DROPLETS)

    def _mirror(self, resource: Resource, **indexes: Index) -> Mirror:
        return self._planes.mirror(ListSelection(resource), indexes, tenant=SYSTEM, only=HOME)

    @property
    def mirrors(self) -> tuple[Mirror, ...]:
        return (self.vpcs, self.subnets, self.endpoints, self.bouncers, self.dividers, self.droplets)

    @property
    def client(self) -> Client:
        return self._planes.client(HOME)

    async def caught_up(self, *mirrors: Mirror) -> None:
        """Wait until the mirrors have received this process' own writes."""
        for mirror in mirrors:
            await mirror.caught_up(HOME, SYSTEM)

    def vpc(self, name: str) -> Object | None:
        return self.vpcs.get(key_of(name))

    def subnet(self, name: str) -> Object | None:
        return self.subnets.get(key_of(name))

    def subnets_of(self, vpc: str) -> list[Object]:
        """The VPC's subnets by age, the oldest first, then by name."""
        subnets = self.subnets.find("vpc", HOME, SYSTEM, vpc)
        return sorted(subnets, key=lambda each: (each["metadata"]["creationTimestamp"], objects.name(each)))

    def endpoints_of(self, owner_uid: str) -> list[Object]:
        return self.endpoints.find("owner", HOME, SYSTEM, owner_uid)

    async def is_gone(self, resource: Resource, name: str) -> bool:
        """Ask the API server, because one mirror may lag behind another."""
        try:
            await self.client.get(SYSTEM, resource, name)
        except NotFound:
            return True
        return False

    async def delete(self, resource: Resource, name: str, uid: str = "") -> None:
        """Delete the object. Does nothing if it is already deleted, or if `uid` is given and differs."""
        with suppress(NotFound, Conflict):
            await self.client.delete(SYSTEM, resource, name, uid=uid)
