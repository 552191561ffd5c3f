"""Sets the condition Available of APIServices: whether their service has endpoints and serves the group version.

The server is asked for its discovery document through the API server, the way that clients' requests take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.errors import MalformedResponse, Unreachable
from alcove.client.keys import ObjectKey
from alcove.client.resources import API_SERVICES, ENDPOINT_SLICES, SERVICES
from alcove.component.fair_slots import FairSlots
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

AVAILABLE = "Available"
CHECK_SECONDS_MAX = 6.0
"""For the discovery document; a server that takes longer is not available."""
CHECKS_MAX, CHECKS_PER_TENANT_MAX = 16, 4
"""Checks that wait for their servers at the same time: they use connections that other controllers need too."""
PASSED_SECONDS = 30.0
FAILED_SECONDS = 5.0
_SERVICE_NAME = "kubernetes.io/service-name"
_BY_SERVICE = "service"


def _service_of(obj: Object) -> Iterable[str]:
    service = objects.get(obj, "spec", "service")
    return [f"{service.get('namespace', '')}/{service.get('name', '')}"] if service else []


class ApiServiceAvailability(Controller):
    name = "apiservice-availability"
    resource = API_SERVICES
    workers = 48

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._api_services = self.mirror(API_SERVICES, {_BY_SERVICE: _service_of})
        self._services = self.mirror(SERVICES)
        self._slices = self.mirror(ENDPOINT_SLICES)
        self._checks: FairSlots[TenantId] = FairSlots(CHECKS_MAX, owner_max=CHECKS_PER_TENANT_MAX)
        self.on(self._api_services)
        self.on(self._services, self._of_service)
        self.on(self._slices, self._of_slice)

    def _of_service(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return self._registered(change.key, change.key.name)

    def _of_slice(self, change: ObjectChange) -> Iterable[ObjectKey]:
        for obj in (change.obj, change.old):
            if obj is not None and (service := objects.labels(obj).get(_SERVICE_NAME)):
                yield from self._registered(change.key, service)

    def _registered(self, key: ObjectKey, service: str) -> Iterable[ObjectKey]:
        return self._api_services.find_keys(_BY_SERVICE, key.plane, key.tenant, f"{key.namespace}/{service}")

    async def reconcile(self, key: ObjectKey) -> Result:
        obj = self._api_services.get(key)
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return DONE
        condition = await self._condition(key, obj)
        status = obj.setdefault("status", {})
        existing = status.get("conditions") or []
        status["conditions"] = conditions.updated(existing, [condition], self.clock())
        if status["conditions"] != existing:
            try:
                await self.client(key).update(key.tenant, API_SERVICES, obj, subresource="status")
            except NotFound:
                return DONE
        if not objects.get(obj, "spec", "service"):
            return DONE
        return Result(after_seconds=PASSED_SECONDS if condition.status else FAILED_SECONDS)

    async def _condition(self, key: ObjectKey, obj: Object) -> Condition:
        reference = objects.get(obj, "spec", "service")
        if reference is None:
            return Condition(AVAILABLE, True, "Local", "Local APIServices are always available")
        namespace, name = reference.get("namespace", ""), reference.get("name", "")
        service = self._services.get(key.of(name, namespace))
        slices = [
            each
            for each in self._slices.list(key.plane, key.tenant, namespace)
            if objects.labels(each).get(_SERVICE_NAME) == name
        ]
        missing = without_endpoints(reference, service, slices)
        return missing or await self._check(key, obj)

    async def _check(self, key: ObjectKey, obj: Object) -> Condition:
        spec = obj["spec"]
        path = f"/apis/{spec['group']}/{spec['version']}"
        try:
            async with self._checks.slot(key.tenant), asyncio.timeout(CHECK_SECONDS_MAX):
                await self.client(key).request("GET", f"/tenants/{key.tenant}{path}")
        except ApiError as error:
            reason = error.message
        except MalformedResponse as error:
            reason = str(error)
        except TimeoutError:
            reason = "context deadline exceeded"
        except Unreachable as error:
            if not error.sent:
                raise  # The API server itself cannot be reached: that says nothing.
            reason = "the response was cut off"
        else:
            return Condition(AVAILABLE, True, "Passed", "all checks passed")
        service = spec["service"]
        host = f"{service.get('name')}.{service.get('namespace')}.svc:{service.get('port') or 443}"
        message = f"failing or missing response from https://{host}{path}: {reason}"
        return Condition(AVAILABLE, False, "FailedDiscoveryCheck", message)


def without_endpoints(
    reference: Object, service: Object | None, slices: Iterable[Object]
) -> Condition | None:
    """The condition of an APIService whose service has no ready endpoints; None if it has. Pure."""
    namespace, name = reference.get("namespace", ""), reference.get("name", "")
    number = reference.get("port") or 443
    if service is None:
        return _unavailable("ServiceNotFound", f'service/{name} in "{namespace}" is not present')
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return None
    port = next((each for each in spec.get("ports") or () if each.get("port") == number), None)
    if port is None:
        message = f'service/{name} in "{namespace}" is not listening on port {number}'
        return _unavailable("ServicePortError", message)
    slices = list(slices)
    if not slices:
        message = f'cannot find endpoints for service/{name} in "{namespace}"'
        return _unavailable("EndpointsNotFound", message)
    port_name = port.get("name") or ""
    for each in slices:
        is_named = any((other.get("name") or "") == port_name for other in each.get("ports") or ())
        if is_named and any(map(_is_ready, each.get("endpoints") or ())):
            return None
    message = f'endpoints for service/{name} in "{namespace}" have no addresses with port name "{port_name}"'
    return _unavailable("MissingEndpoints", message)


def _is_ready(endpoint: Object) -> bool:
    return bool(endpoint.get("addresses")) and bool(
        objects.get(endpoint, "conditions", "ready", default=True)
    )


def _unavailable(reason: str, message: str) -> Condition:
    return Condition(AVAILABLE, False, reason, message)
