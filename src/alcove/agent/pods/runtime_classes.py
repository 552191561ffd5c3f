"""Which runtime a pod gets: its RuntimeClass' handler, or what its tenant gets without one.

A tenant may choose among what is at least as strong as what it gets anyway. Something weaker it gets only by a class
that ring0 has, too, under the same name and with the same handler: offering it is the operator's to decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from alcove.agent.podkey import PodKey
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.runtime.base import ContainerRuntime, Isolation, NoSuchHandler
from alcove.agent.runtime.handlers import RuntimeHandlers
from alcove.api.errors import ApiError, Forbidden, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.resources import Resource

RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
REMEMBERED_SECONDS = 30.0
REMEMBERED_MAX = 1_024
_STRENGTH = {Isolation.NONE: 0, Isolation.NAMESPACES: 1, Isolation.SANDBOX: 2}


def is_ring0(key: PodKey) -> bool:
    """A dedicated plane may have a tenant called `system` as well: it is not ring0."""
    return key.plane == HOME and key.tenant == SYSTEM


class RuntimeClasses:
    def __init__(
        self, planes: Planes, handlers: RuntimeHandlers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._planes = planes
        self._handlers = handlers
        self._clock = clock
        self._known: dict[tuple[PlaneId, TenantId, str], tuple[float, str]] = {}

    async def pick(self, key: PodKey, spec: Object) -> ContainerRuntime:
        """PodTrouble: there is no such class, or no such handler here, or it is not for the tenant."""
        name = spec.get("runtimeClassName") or ""
        try:
            if not name:
                return self._handlers.pick("", is_ring0=is_ring0(key))
            handler = await self._handler(key.plane, key.tenant, name)
            runtime = self._handlers.pick(handler, is_ring0=is_ring0(key))
            usual = self._handlers.pick("", is_ring0=is_ring0(key))
        except NoSuchHandler as error:
            raise PodSetupError("FailedCreatePodSandBox", str(error)) from error
        is_weaker = _STRENGTH[runtime.isolation] < _STRENGTH[usual.isolation]
        if is_weaker and not is_ring0(key) and not await self._is_offered(name, handler):
            message = f'RuntimeClass "{name}" asks for less isolation than tenants get here ({handler})'
            raise PodSetupError("FailedCreatePodSandBox", message)
        return runtime

    async def _is_offered(self, name: str, handler: str) -> bool:
        try:
            return await self._handler(HOME, SYSTEM, name) == handler
        except PodSetupError:
            return False

    async def _handler(self, plane: PlaneId, tenant: TenantId, name: str) -> str:
        now = self._clock()
        known = self._known.get((plane, tenant, name))
        if known is not None and now < known[0]:
            return known[1]
        try:
            found = await self._planes.client(plane).get(tenant, RUNTIME_CLASSES, name)
        except (NotFound, Forbidden) as error:
            raise PodSetupError(
                "FailedCreatePodSandBox", f'failed to get sandbox runtime: RuntimeClass "{name}" not found'
            ) from error
        except (ApiError, ClientError) as error:
            raise PodSetupError(
                "FailedCreatePodSandBox", f"failed to get sandbox runtime: {error}"
            ) from error
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        handler = str(found.get("handler") or "")
        self._known[plane, tenant, name] = (now + REMEMBERED_SECONDS, handler)
        return handler
