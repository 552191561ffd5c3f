"""ServiceCIDRs: they show the ranges of each network's services, `kubernetes` that of the default network. A network
has them from its spec; only this controller writes them."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import AlreadyExists, Conflict, Forbidden, NotFound
from alcove.api.kinds.core.networks import DEFAULT_NETWORK, NETWORK_LABEL
from alcove.api.objects import Object
from alcove.api.service_ips import known_ranges
from alcove.client.changes import Index, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import NETWORKS, SERVICE_CIDRS
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

_READY = Condition("Ready", True, "RangeAllocated", "Kubernetes Service CIDR is ready")
_OWNER = "network"
_OF_NETWORK: Index = lambda obj: (owner_of(obj),)  # noqa: E731


class ServiceCidrController(Controller):
    name = "service-cidr"
    resource = NETWORKS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._networks = self.mirror(NETWORKS)
        self._ranges = self.mirror(SERVICE_CIDRS, {_OWNER: _OF_NETWORK})
        self.on(self._networks)
        self.on(self._ranges, self._of_range)

    def _of_range(self, change: ObjectChange) -> Iterable[ObjectKey]:
        owner = owner_of(change.obj)
        return (change.key.of(owner, ""),) if owner else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        network = self._networks.get(key)
        is_going = network is None or "deletionTimestamp" in network["metadata"]
        cidrs = [] if network is None or is_going else list(map(str, known_ranges(network)))
        desired = dict(zip(names_of(key.name, cidrs), cidrs, strict=True))
        for existing in self._ranges.find(_OWNER, key.plane, key.tenant, key.name):
            name = objects.name(existing)
            if existing["spec"]["cidrs"] == [desired.get(name)]:
                del desired[name]
            else:
                await self._delete(key, existing)
        for name, cidr in desired.items():
            await self._create(key, name, cidr)
        return DONE

    async def _create(self, key: ObjectKey, name: str, cidr: str) -> None:
        status = {"conditions": conditions.updated([], [_READY], self.clock())}
        metadata = {"name": name, "annotations": {NETWORK_LABEL: key.name}}
        body: Object = {"metadata": metadata, "spec": {"cidrs": [cidr]}, "status": status}
        try:
            await self.client(key).create(key.tenant, SERVICE_CIDRS, body)
        except (AlreadyExists, Forbidden, NotFound):
            pass  # Its watch event enqueues the network again; or the tenant is terminating.

    async def _delete(self, key: ObjectKey, existing: Object) -> None:
        try:
            uid = existing["metadata"]["uid"]
            await self.client(key).delete(key.tenant, SERVICE_CIDRS, objects.name(existing), uid=uid)
        except (NotFound, Conflict):
            pass


def owner_of(obj: Object) -> str:
    """The network whose range it shows. An annotation: names of networks may be longer than a label's value."""
    return objects.annotations(obj).get(NETWORK_LABEL, "")


def names_of(network: str, cidrs: Iterable[str]) -> list[str]:
    """The names of the network's ranges: the first has that of the network, others also their range."""
    name = "kubernetes" if network == DEFAULT_NETWORK else f"kubernetes-{network}"
    others = (each.replace("/", "-").replace("::", "-").replace(":", "-") for each in cidrs)
    return [name if index == 0 else f"{name}-{each}" for index, each in enumerate(others)]
