"""Which runtime a pod gets: the handler of its RuntimeClass, or the tenant's default.

A tenant may choose any handler that isolates at least as strongly as the default. A weaker handler needs a
RuntimeClass in ring0 of the same name and with the same handler: the operator decides whether to offer it.
Ring0 and the tenants that it trusts may choose any.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from alcove.agent.podkey import PodKey
from alcove.agent.pods.executor import PodSetupError
from alcove.agent.runtime.base import ContainerRuntime, Isolation, NoSuchHandler
from alcove.agent.runtime.handlers import RuntimeHandlers
from alcove.agent.trusted_tenants import is_ring0
from alcove.api.errors import ApiError, Forbidden, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.names import LABEL_LENGTH_MAX
from alcove.api.objects import Object
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.resources import Resource

RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
CACHE_SECONDS = 30.0
CACHE_ENTRIES_MAX = 1_024
_STRENGTH = {Isolation.NONE: 0, Isolation.NAMESPACES: 1, Isolation.SANDBOX: 2}


class RuntimeClasses:
    def __init__(
        self,
        planes: Planes,
        handlers: RuntimeHandlers,
        clock: Callable[[], float] = time.monotonic,
        is_trusted: Callable[[PodKey], bool] = is_ring0,
    ) -> None:
        self._planes = planes
        self._handlers = handlers
        self._is_trusted = is_trusted
        self._clock = clock
        self._handler_cache: dict[tuple[PlaneId, TenantId, str], tuple[float, str]] = {}

    async def pick(self, key: PodKey, spec: Object) -> ContainerRuntime:
        """Raises PodSetupError if the RuntimeClass or its handler does not exist, or the tenant may not use
        it."""
        name, is_trusted = spec.get("runtimeClassName") or "", self._is_trusted(key)
        try:
            if not name:
                return self._handlers.pick("", is_trusted=is_trusted)
            handler = await self._handler(self._planes.serving(key.tenant), key.tenant, name)
            runtime = self._handlers.pick(handler, is_trusted=is_trusted)
            default = self._handlers.pick("", is_trusted=is_trusted)
        except NoSuchHandler as error:
            raise PodSetupError("FailedCreatePodSandBox", str(error)) from error
        is_weaker = _STRENGTH[runtime.isolation] < _STRENGTH[default.isolation]
        if is_weaker and not is_trusted and not await self._is_offered(name, handler):
            message = f"handler {handler} isolates less than the tenant default"
            raise PodSetupError("FailedCreatePodSandBox", f'RuntimeClass "{name}" is not allowed: {message}')
        return runtime

    async def _is_offered(self, name: str, handler: str) -> bool:
        try:
            return await self._handler(HOME, SYSTEM, name) == handler
        except PodSetupError:
            return False

    async def _handler(self, plane: PlaneId, tenant: TenantId, name: str) -> str:
        now = self._clock()
        cached = self._handler_cache.get((plane, tenant, name))
        if cached is not None and now < cached[0]:
            return cached[1]
        try:
            runtime_class = await self._planes.client(plane).get(tenant, RUNTIME_CLASSES, name)
        except (NotFound, Forbidden) as error:
            raise PodSetupError(
                "FailedCreatePodSandBox", f'failed to get sandbox runtime: RuntimeClass "{name}" not found'
            ) from error
        except (ApiError, ClientError) as error:
            raise PodSetupError(
                "FailedCreatePodSandBox", f"failed to get sandbox runtime: {error}"
            ) from error
        if len(self._handler_cache) >= CACHE_ENTRIES_MAX:
            self._handler_cache.clear()
        # A dedicated plane may send a longer one than there are, which must not stay in memory.
        handler = str(runtime_class.get("handler") or "")[: LABEL_LENGTH_MAX + 1]
        self._handler_cache[plane, tenant, name] = (now + CACHE_SECONDS, handler)
        return handler
