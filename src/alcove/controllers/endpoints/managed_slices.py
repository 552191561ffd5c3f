"""The EndpointSlices of one manager (`managed-by` label): looked up by service name and changed according to
a plan. Slices of other managers are never touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.objects import Object, labels
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINT_SLICES
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import Controller
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.endpoints.slice_packing import MANAGED_LABEL, NAME_LABEL, SlicePlan


class ManagedSlices:
    def __init__(self, controller: Controller, manager: str) -> None:
        self._controller = controller
        self._manager = manager
        self._slices = controller.mirror(ENDPOINT_SLICES, {manager: self._service_names})
        controller.on(self._slices, self._services_of_slice)

    def _service_names(self, slice_: Object) -> Iterable[str]:
        """An index: the service (or Endpoints) of a slice of this manager, as namespace/name."""
        slice_labels = labels(slice_)
        if slice_labels.get(MANAGED_LABEL) == self._manager and slice_labels.get(NAME_LABEL):
            yield f"{slice_['metadata']['namespace']}/{slice_labels[NAME_LABEL]}"

    def _services_of_slice(self, change: ObjectChange) -> Iterable[ObjectKey]:
        for obj in (change.obj, change.old):
            for service_name in self._service_names(obj) if obj is not None else ():
                yield change.key.of(service_name.partition("/")[2])

    def of(self, key: ObjectKey) -> list[Object]:
        return self._slices.find(self._manager, key.plane, key.tenant, f"{key.namespace}/{key.name}")

    async def carry_out(self, key: ObjectKey, plan: SlicePlan) -> None:
        """Creates before it deletes, so that no endpoint is temporarily without a slice."""
        client = self._controller.client(key)
        await gather_all(client.create(key.tenant, ENDPOINT_SLICES, each) for each in plan.create)
        await gather_all(client.update(key.tenant, ENDPOINT_SLICES, each) for each in plan.update)
        await self.delete(key, plan.delete)

    async def delete(self, key: ObjectKey, slices: Sequence[Object]) -> None:
        client = self._controller.client(key)
        await gather_all(
            delete_if_unchanged(client, ENDPOINT_SLICES, key.of(each["metadata"]["name"]), each["metadata"])
            for each in slices
        )
