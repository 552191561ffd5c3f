"""Discovery and OpenAPI documents of extension servers, fetched when they are asked for, and kept.

Only the first request for a document waits for it. Later ones get what was fetched last, and an older document is
fetched again in the background. So a server that hangs delays its tenant's clients once, for WAIT_SECONDS_MAX.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Struct

from alcove.api.errors import ApiError
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.aggregation.proxying import ExtensionProxy
from alcove.apiserver.aggregation.registrations import Registration
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.identity import Identity
from alcove.component.tasks import spawn

KEPT_SECONDS = 30.0
FAILED_SECONDS = 3.0
"""A document that could not be fetched is fetched again after this time."""
WAIT_SECONDS_MAX = 4.0
FETCH_SECONDS_MAX = 10.0
DOCUMENT_BYTES_MAX = 2 << 20
"""Size of one document; a larger one counts as missing."""
TENANT_BYTES_MAX = 8 << 20
"""Documents kept of one tenant's extension servers; over it, the oldest are dropped."""
TOTAL_BYTES_MAX = 64 << 20
"""Documents kept of all tenants; over it, the tenant with most loses its oldest."""
_OVERHEAD_BYTES = 256
_AGGREGATOR = Identity(SYSTEM, "aggregator")


class DocumentKey(Struct, frozen=True):
    registration: Registration
    path: str


class ExtensionDocument(Struct, frozen=True):
    fetched_at: float
    body: bytes | None
    """None if the server did not answer with 200 in time."""

    @property
    def size(self) -> int:
        return _OVERHEAD_BYTES + len(self.body or b"")


class ExtensionDocuments:
    def __init__(
        self, proxy: ExtensionProxy, buffers: TenantBuffers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proxy = proxy
        self._buffers = buffers
        self._clock = clock
        self._kept: dict[TenantId, OrderedDict[DocumentKey, ExtensionDocument]] = {}
        self._bytes: dict[TenantId, int] = {}
        self._bytes_total = 0
        self._fetching: dict[tuple[TenantId, DocumentKey], asyncio.Task[None]] = {}

    async def close(self) -> None:
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def get(
        self, tenant: TenantId, registrations: Iterable[Registration], path: str = ""
    ) -> list[bytes | None]:
        """The servers' documents at `path`, without one those of their group versions; None for each that is not
        available."""
        keys = [DocumentKey(each, path or each.path) for each in registrations]
        awaited = [task for key in keys if (task := self._refresh(tenant, key)) is not None]
        if awaited:
            await asyncio.wait(awaited, timeout=WAIT_SECONDS_MAX)
        kept = self._kept.get(tenant, OrderedDict())
        return [document.body if (document := kept.get(key)) is not None else None for key in keys]

    def _refresh(self, tenant: TenantId, key: DocumentKey) -> asyncio.Task[None] | None:
        """Fetches a document that is missing or old. Returns the task to wait for; None if there is nothing to wait
        for."""
        if not key.registration.is_available:
            return None
        kept = self._kept.get(tenant, OrderedDict()).get(key)
        if kept is not None:
            seconds = FAILED_SECONDS if kept.body is None else KEPT_SECONDS
            if self._clock() - kept.fetched_at < seconds:
                return None
        task = self._fetching.get((tenant, key))
        if task is None:
            work = self._fetch(tenant, key)
            task = self._fetching[tenant, key] = spawn(f"document {key.path} of {tenant}", work)
        return task if kept is None else None

    async def _fetch(self, tenant: TenantId, key: DocumentKey) -> None:
        body: bytes | None = None
        try:
            with self._buffers.reserving(tenant) as reserve:
                async with asyncio.timeout(FETCH_SECONDS_MAX):
                    response = await self._proxy.fetch(
                        tenant, key.registration, key.path, _AGGREGATOR, DOCUMENT_BYTES_MAX, reserve
                    )
            body = response.body if response.status == 200 else None
        except (ApiError, TimeoutError):
            pass  # The document is missing; that is all that is shown of it.
        finally:
            del self._fetching[tenant, key]
        self._keep(tenant, key, ExtensionDocument(self._clock(), body))

    def _keep(self, tenant: TenantId, key: DocumentKey, document: ExtensionDocument) -> None:
        kept = self._kept.setdefault(tenant, OrderedDict())
        for other in [each for each in kept if each.registration.name == key.registration.name]:
            # One of an earlier state of the APIService is not asked for again.
            if other.path == key.path:
                self._drop(tenant, other)
        self._kept.setdefault(tenant, OrderedDict())[key] = document
        self._bytes[tenant] = self._bytes.get(tenant, 0) + document.size
        self._bytes_total += document.size
        while self._bytes.get(tenant, 0) > TENANT_BYTES_MAX:
            self._drop(tenant, next(iter(self._kept[tenant])))
        while self._bytes_total > TOTAL_BYTES_MAX:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            self._drop(largest, next(iter(self._kept[largest])))

    def _drop(self, tenant: TenantId, key: DocumentKey) -> None:
        document = self._kept[tenant].pop(key)
        self._bytes[tenant] -= document.size
        self._bytes_total -= document.size
        if not self._kept[tenant]:
            del self._kept[tenant], self._bytes[tenant]
