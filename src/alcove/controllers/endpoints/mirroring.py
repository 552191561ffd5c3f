"""Mirrors user-managed Endpoints of services without a selector to EndpointSlices, which data planes read."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINTS, SERVICES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.endpoints import mirrored_slices
from alcove.controllers.endpoints.managed_slices import ManagedSlices


class EndpointSliceMirroring(Controller):
    name = "endpoint-slice-mirroring"
    resource = ENDPOINTS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = self.mirror(ENDPOINTS)
        self._services = self.mirror(SERVICES)
        self._slices = ManagedSlices(self, mirrored_slices.MANAGER)
        self.on(self._endpoints, self._user_managed)
        self.on(self._services, self._with_endpoints)

    def _user_managed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Skips Endpoints of services with a selector, which are most of them."""
        service = self._services.get(change.key)
        return () if service is not None and service["spec"].get("selector") else (change.key,)

    def _with_endpoints(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Skips services that have no Endpoints object."""
        return (change.key,) if change.key in self._endpoints else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        existing = self._slices.of(key)
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        if endpoints is None or service is None or not mirrored_slices.is_copied(endpoints, service):
            await self._slices.delete(key, existing)
        elif "deletionTimestamp" not in endpoints["metadata"]:
            await self._slices.carry_out(key, mirrored_slices.plan(endpoints, service, existing))
        return DONE
