"""The services that handlers use, wired once by the process."""

import asyncio
from collections.abc import Callable

from msgspec import Struct, field

from alcove.api.errors import Details, ServiceUnavailable, Timeout
from alcove.api.registry import KindRegistry
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.watch_hub import WatchHub
from alcove.store.base import Store, StoreUnavailable
from alcove.store.encrypted import UnreadableObjects

CATCH_UP_SECONDS_MAX = 20.0
"""Longer than a read of the store that is repeated at another member of its cluster."""


STORED_BYTES_PER_TENANT_MAX = 2 << 30
"""Bytes of all objects of a tenant: all of them are in memory, and on the store's disk. A write that makes them more is
refused with 403."""


class ApiServerServices(Struct, frozen=True):
    store: Store
    cache: Cache
    hub: WatchHub
    registry: KindRegistry
    kinds: ServedKinds
    admission: Chain
    clock: Callable[[], float]
    """Epoch seconds."""
    shared: bool = False
    """Other servers write to the store too: the cache catches up before a read without a resourceVersion, and
    before a request is rejected."""
    unreadable: UnreadableObjects = field(default_factory=UnreadableObjects)
    threads: ComputeThreads = field(default_factory=ComputeThreads)
    """For what takes long."""
    stored_bytes_max: int = STORED_BYTES_PER_TENANT_MAX

    async def catch_up(self) -> None:
        """Waits until the cache has every write that any server acknowledged before this call.

        Raises ServiceUnavailable if the store does not answer, Timeout if the cache does not get its events.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self.cache.catch_up()
        except StoreUnavailable as error:
            raise ServiceUnavailable(f"the store is unavailable for reads: {error}") from error
        except TimeoutError as error:
            message = "this server has not caught up with the store; try again"
            raise Timeout(message, Details(retry_after_seconds=1)) from error
