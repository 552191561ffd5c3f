"""Endpoints of services without a selector, kept by hand, are told as slices too: data planes read those."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import NotFound
from alcove.api.objects import Object, labels
from alcove.client.changes import Change
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from alcove.controllers.controller import DONE, Controller, Result, Setup
from alcove.controllers.endpoints import copying, packing
from alcove.controllers.together import together


def copied_of(slice_: Object) -> Iterable[str]:
    """An index: whose copy a slice of ours is, as namespace/name."""
    own = labels(slice_)
    if own.get(packing.MANAGED_LABEL) == copying.MANAGER and own.get(packing.NAME_LABEL):
        yield f"{slice_['metadata']['namespace']}/{own[packing.NAME_LABEL]}"


class EndpointSliceMirroring(Controller):
    name = "endpoint-slice-mirroring"
    resource = ENDPOINTS
    workers = 4

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._endpoints = self.mirror(ENDPOINTS)
        self._services = self.mirror(SERVICES)
        self._slices = self.mirror(ENDPOINT_SLICES, {"copied": copied_of})
        self.on(self._endpoints, self._by_hand)
        self.on(self._services, self._with_endpoints)
        self.on(self._slices, _copied)

    def _by_hand(self, change: Change) -> Iterable[ObjectKey]:
        """Most endpoints follow a selector, and are none of ours."""
        service = self._services.get(change.key)
        return () if service is not None and service["spec"].get("selector") else (change.key,)

    def _with_endpoints(self, change: Change) -> Iterable[ObjectKey]:
        """Most services without a selector have nothing behind them that anybody keeps by hand."""
        return (change.key,) if change.key in self._endpoints else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        there = self._slices.find("copied", key.plane, key.tenant, f"{key.namespace}/{key.name}")
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        if endpoints is None or service is None or not copying.is_copied(endpoints, service):
            await together(self._delete(key, each) for each in there)
            return DONE
        if "deletionTimestamp" in endpoints["metadata"]:
            return DONE
        plan = copying.plan(endpoints, service, there)
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


def _copied(change: Change) -> Iterable[ObjectKey]:
    for obj in (change.obj, change.old):
        for place in copied_of(obj) if obj is not None else ():
            yield change.key.of(place.partition("/")[2])
