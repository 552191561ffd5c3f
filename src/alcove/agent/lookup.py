"""Reads the objects that pods refer to, from the pod's plane, tenant and namespace, one object at a time.

Objects are cached for some seconds: a hundred pods with the same config map cost one request. Callers get the
cached object itself, and must not change it. An object that does not exist, or that this node may not read,
is None. Raises ApiError and ClientError.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakValueDictionary

import orjson
from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.api.errors import Forbidden, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import (
    CLUSTER_TRUST_BUNDLES,
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)

CACHE_SECONDS = 5.0
CACHE_ENTRIES_MAX = 4096
CACHE_BYTES_MAX = 64 << 20
"""Of all objects in the cache, as JSON."""
PLANE_ENTRY_BYTES_MAX = 64 << 10
"""Of an object of a dedicated plane, whose API server may send any number of large ones; larger ones are read each
time."""

_CacheKey = tuple[Resource, ObjectKey]


class _CacheEntry(Struct, frozen=True):
    until: float
    object: Object | None
    size_bytes: int = 0


class ObjectLookup:
    def __init__(
        self,
        planes: Planes,
        clock: Callable[[], float] = time.monotonic,
        seconds: float = CACHE_SECONDS,
    ) -> None:
        self._planes = planes
        self._clock = clock
        self._seconds = seconds
        self._cache: dict[_CacheKey, _CacheEntry] = {}
        self._cached_bytes = 0
        self._locks: WeakValueDictionary[_CacheKey, asyncio.Lock] = WeakValueDictionary()

    async def config_map(self, key: PodKey, name: str) -> Object | None:
        return await self._get(CONFIG_MAPS, key.object_key.of(name))

    async def secret(self, key: PodKey, name: str) -> Object | None:
        return await self._get(SECRETS, key.object_key.of(name))

    async def trust_bundle(self, key: PodKey, name: str) -> Object | None:
        return await self._get(CLUSTER_TRUST_BUNDLES, key.object_key.of(name, namespace=""))

    async def trust_bundles_of(self, key: PodKey, signer: str, limit: int) -> list[Object]:
        """The metadata of at most `limit` trust bundles of a signer in the pod's tenant. Never cached."""
        fields = f"spec.signerName={signer}"
        selection = ListSelection(CLUSTER_TRUST_BUNDLES, fields=fields, metadata_only=True)
        return (await self._planes.tenant_client(key.tenant).page(key.tenant, selection, limit=limit)).items

    async def claim(self, key: PodKey, name: str) -> Object | None:
        """Never cached: what is mounted depends on it."""
        return await self._read((PERSISTENT_VOLUME_CLAIMS, key.object_key.of(name)))

    async def volume(self, key: PodKey, name: str) -> Object | None:
        """A persistent volume of the pod's tenant. Never cached."""
        return await self._read((PERSISTENT_VOLUMES, key.object_key.of(name, namespace="")))

    async def service_account(self, key: PodKey, name: str) -> Object | None:
        """Never cached: another one may have been created with the same name."""
        return await self._read((SERVICE_ACCOUNTS, key.object_key.of(name)))

    async def node_uid(self, name: str) -> str:
        node = await self._get(NODES, ObjectKey(HOME, SYSTEM, "", name))
        return str(node["metadata"]["uid"]) if node is not None else ""

    async def certificate_request(self, key: PodKey, name: str) -> Object | None:
        """A PodCertificateRequest. Never cached: its answer is waited for."""
        return await self._read((POD_CERTIFICATE_REQUESTS, key.object_key.of(name)))

    async def request_certificate(self, key: PodKey, spec: Object) -> Object:
        """Creates a PodCertificateRequest, which is deleted with the pod."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": key.uid}
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "PodCertificateRequest",
            "metadata": {"generateName": "req-", "namespace": key.namespace, "ownerReferences": [owner]},
            "spec": spec,
        }
        return await self._planes.tenant_client(key.tenant).create(
            key.tenant, POD_CERTIFICATE_REQUESTS, request
        )

    async def token(
        self, key: PodKey, service_account: str, audiences: Sequence[str], seconds: int
    ) -> Object | None:
        """A TokenRequest with its status: a token bound to the pod. None if there is no such service
        account."""
        ref = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": key.uid}
        spec = {"audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": ref}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        client = self._planes.tenant_client(key.tenant)
        return await _or_none(
            client.create(
                key.tenant,
                SERVICE_ACCOUNTS,
                request,
                namespace=key.namespace,
                name=service_account,
                subresource="token",
            )
        )

    def forget(self, key: PodKey) -> None:
        """Removes the pod's tenant from the cache."""
        tenant_key = key.object_key.tenant_key
        for each in [each for each in self._cache if each[1].tenant_key == tenant_key]:
            self._drop(each)

    async def _get(self, resource: Resource, key: ObjectKey) -> Object | None:
        cache_key = (resource, key)
        lock = self._locks.get(cache_key)
        if lock is None:
            lock = self._locks[cache_key] = asyncio.Lock()
        async with lock:
            entry = self._cache.get(cache_key)
            if entry is None or self._clock() >= entry.until:
                entry = self._store(cache_key, await self._read(cache_key))
        return entry.object

    async def _read(self, cache_key: _CacheKey) -> Object | None:
        resource, key = cache_key
        client = self._planes.tenant_client(key.tenant)
        return await _or_none(client.get(key.tenant, resource, key.name, namespace=key.namespace))

    def _store(self, cache_key: _CacheKey, obj: Object | None) -> _CacheEntry:
        now = self._clock()
        self._drop(cache_key)
        size = len(orjson.dumps(obj)) if obj is not None else 0
        is_dedicated = self._planes.serving(cache_key[1].tenant) != HOME
        if is_dedicated and size > PLANE_ENTRY_BYTES_MAX:
            return _CacheEntry(now, obj)
        # A missing object is likely to be created soon, since a pod waits for it.
        until = now + (self._seconds if obj is not None else min(self._seconds, 1.0))
        self._cache[cache_key] = entry = _CacheEntry(until, obj, size)
        self._cached_bytes += size
        # The first are the oldest, and nobody else looks at those that are over: they would stay, whatever their size.
        while self._cache and self._is_over(oldest := next(iter(self._cache)), now):
            self._drop(oldest)
        return entry

    def _is_over(self, oldest: _CacheKey, now: float) -> bool:
        """Whether the oldest entry has to go, for its age or for want of room."""
        is_full = len(self._cache) > CACHE_ENTRIES_MAX or self._cached_bytes > CACHE_BYTES_MAX
        return is_full or self._cache[oldest].until <= now

    def _drop(self, cache_key: _CacheKey) -> None:
        entry = self._cache.pop(cache_key, None)
        if entry is not None:
            self._cached_bytes -= entry.size_bytes


async def _or_none(request: Awaitable[Object]) -> Object | None:
    try:
        return await request
    except (NotFound, Forbidden):
        return None
