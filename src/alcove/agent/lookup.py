"""What pods name, read from their own plane, tenant and namespace, one object at a time.

Answers are remembered for some seconds: a hundred pods that name one config map cost one request. Whoever
asks gets the remembered object itself, and must not change it. Away servers raise (`client.errors`); what
is not there, or is not this node's to see, is None.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakValueDictionary

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.api.errors import Forbidden, NotFound
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)

REMEMBERED_SECONDS = 5.0
REMEMBERED_MAX = 4096

_What = tuple[Resource, ObjectKey]


class _Answer(Struct, frozen=True):
    until: float
    object: Object | None


class ObjectLookup:
    def __init__(
        self,
        planes: Planes,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = REMEMBERED_SECONDS,
    ) -> None:
        self._planes = planes
        self._clock = clock
        self._seconds = seconds
        self._known: dict[_What, _Answer] = {}
        self._asking: WeakValueDictionary[_What, asyncio.Lock] = WeakValueDictionary()

    async def config_map(self, key: PodKey, name: str) -> Object | None:
        return await self._get(CONFIG_MAPS, key.object_key.of(name))

    async def secret(self, key: PodKey, name: str) -> Object | None:
        return await self._get(SECRETS, key.object_key.of(name))

    async def claim(self, key: PodKey, name: str) -> Object | None:
        """Never a remembered one: what is mounted hangs on it."""
        return await self._ask((PERSISTENT_VOLUME_CLAIMS, key.object_key.of(name)))

    async def volume(self, key: PodKey, name: str) -> Object | None:
        """A persistent volume of the pod's tenant. Never a remembered one."""
        return await self._ask((PERSISTENT_VOLUMES, key.object_key.of(name, namespace="")))

    async def token(
        self, key: PodKey, service_account: str, audiences: Sequence[str], seconds: int
    ) -> Object | None:
        """A TokenRequest with its answer: a token that ends with the pod. None: there is no such account."""
        ref = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": key.uid}
        spec = {"audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": ref}
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        client = self._planes.client(key.plane)
        return await _or_none(
            client.create(
                key.tenant,
                SERVICE_ACCOUNTS,
                asked,
                namespace=key.namespace,
                name=service_account,
                subresource="token",
            )
        )

    def forget(self, key: PodKey) -> None:
        """What the pod's tenant has is asked for anew."""
        tenant_key = key.object_key.tenant_key
        self._known = {what: known for what, known in self._known.items() if what[1].tenant_key != tenant_key}

    async def _get(self, resource: Resource, key: ObjectKey) -> Object | None:
        what = (resource, key)
        lock = self._asking.get(what)
        if lock is None:
            lock = self._asking[what] = asyncio.Lock()
        async with lock:
            known = self._known.get(what)
            if known is None or self._clock() >= known.until:
                known = self._remember(what, await self._ask(what))
        return known.object

    async def _ask(self, what: _What) -> Object | None:
        resource, key = what
        client = self._planes.client(key.plane)
        return await _or_none(client.get(key.tenant, resource, key.name, namespace=key.namespace))

    def _remember(self, what: _What, found: Object | None) -> _Answer:
        now = self._clock()
        if len(self._known) >= REMEMBERED_MAX:
            self._known = {each: known for each, known in self._known.items() if now < known.until}
            while len(self._known) >= REMEMBERED_MAX:
                self._known.pop(next(iter(self._known)))
        # Not there now is likely to be made next: a pod waits for it.
        until = now + (self._seconds if found is not None else min(self._seconds, 1.0))
        self._known[what] = answer = _Answer(until, found)
        return answer


async def _or_none(asking: Awaitable[Object]) -> Object | None:
    try:
        return await asking
    except (NotFound, Forbidden):
        return None
