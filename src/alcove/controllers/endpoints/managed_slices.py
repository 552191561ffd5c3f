"""The slices of one manager: found by the object that they tell of, and brought to what a plan says. Those of others
are left alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.objects import Object, labels
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINT_SLICES
from alcove.controllers.concurrency import together
from alcove.controllers.controller import Controller
from alcove.controllers.deletion import delete_as_known
from alcove.controllers.endpoints.slice_packing import MANAGED_LABEL, NAME_LABEL, SlicePlan


class ManagedSlices:
    def __init__(self, controller: Controller, manager: str) -> None:
        self._controller = controller
        self._manager = manager
        self._slices = controller.mirror(ENDPOINT_SLICES, {manager: self._places})
        controller.on(self._slices, self._of_slice)

    def _places(self, slice_: Object) -> Iterable[str]:
        """An index: whom a slice of ours tells of, as namespace/name."""
        own = labels(slice_)
        if own.get(MANAGED_LABEL) == self._manager and own.get(NAME_LABEL):
            yield f"{slice_['metadata']['namespace']}/{own[NAME_LABEL]}"

    def _of_slice(self, change: ObjectChange) -> Iterable[ObjectKey]:
        for obj in (change.obj, change.old):
            for place in self._places(obj) if obj is not None else ():
                yield change.key.of(place.partition("/")[2])

    def of(self, key: ObjectKey) -> list[Object]:
        return self._slices.find(self._manager, key.plane, key.tenant, f"{key.namespace}/{key.name}")

    async def carry_out(self, key: ObjectKey, plan: SlicePlan) -> None:
        """New ones first: nobody is without a slice that had one."""
        client = self._controller.client(key)
        await together(client.create(key.tenant, ENDPOINT_SLICES, each) for each in plan.create)
        await together(client.update(key.tenant, ENDPOINT_SLICES, each) for each in plan.update)
        await self.delete(key, plan.delete)

    async def delete(self, key: ObjectKey, slices: Sequence[Object]) -> None:
        client = self._controller.client(key)
        await together(
            delete_as_known(client, ENDPOINT_SLICES, key.of(each["metadata"]["name"]), each["metadata"])
            for each in slices
        )
