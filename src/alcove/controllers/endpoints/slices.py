"""EndpointSlices of services that have a selector. Slices that somebody else manages are left alone."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import NotFound
from alcove.api.objects import Object, labels
from alcove.client.changes import Change
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINT_SLICES
from alcove.controllers.controller import DONE, Result, Setup
from alcove.controllers.endpoints import packing
from alcove.controllers.endpoints.backends import is_kept
from alcove.controllers.endpoints.topology import Zones
from alcove.controllers.endpoints.watching import ServiceWatcher
from alcove.controllers.nodes.placed import NODE, node_of, on_node
from alcove.controllers.together import together


def service_name(slice_: Object) -> Iterable[str]:
    """An index: the service of a slice that is ours, as namespace/name."""
    own = labels(slice_)
    if own.get(packing.MANAGED_LABEL) == packing.MANAGER and own.get(packing.NAME_LABEL):
        yield f"{slice_['metadata']['namespace']}/{own[packing.NAME_LABEL]}"


class EndpointSlices(ServiceWatcher):
    name = "endpoint-slice"
    workers = 8

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._slices = self.mirror(ENDPOINT_SLICES, {"service": service_name})
        self._nodes = self.nodes()
        self._pods.add_index(NODE, node_of)
        self._zones = Zones()
        self.on(self._nodes, self._moved)
        self.on(self._slices, _service_of)

    def _moved(self, change: Change) -> Iterable[ObjectKey]:
        """Services with pods on a node whose zone is another now."""
        if not self._zones.note(change):
            return
        for key in on_node(self._pods, change.key.name):
            pod = self._pods.get(key)
            if pod is not None:
                yield from self._selectors.matching(key, pod)

    async def reconcile(self, key: ObjectKey) -> Result:
        there = self._slices.find("service", key.plane, key.tenant, f"{key.namespace}/{key.name}")
        service = self._services.get(key)
        if service is None or not is_kept(service):
            await together(self._delete(key, each) for each in there)
            return DONE
        if "deletionTimestamp" in service["metadata"]:
            return DONE
        plan = packing.plan(service, self.backends(key, service), there, self._zones.of)
        client = self.client(key)
        await together(client.create(key.tenant, ENDPOINT_SLICES, each) for each in plan.create)
        await together(client.update(key.tenant, ENDPOINT_SLICES, each) for each in plan.update)
        await together(self._delete(key, each) for each in plan.delete)
        return DONE

    async def _delete(self, key: ObjectKey, slice_: Object) -> None:
        metadata = slice_["metadata"]
        try:
            await self.client(key).delete(
                key.tenant, ENDPOINT_SLICES, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
            )
        except NotFound:
            pass


def _service_of(change: Change) -> Iterable[ObjectKey]:
    for obj in (change.obj, change.old):
        for name in service_name(obj) if obj is not None else ():
            yield change.key.of(name.partition("/")[2])
