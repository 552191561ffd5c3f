"""What handlers work with, wired once by the process."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from alcove.api.errors import Details, ServiceUnavailable, Timeout
from alcove.api.registry import KindRegistry
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.reader import ServedKinds
from alcove.apiserver.watch import WatchHub
from alcove.store.base import Store, StoreUnavailable

CATCH_UP_SECONDS_MAX = 20.0
"""Longer than a question to the store takes that must be repeated at another of its members."""


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
    """Other servers write to the store too: a read that names no revision first catches up with them, and so does
    a request before it is refused."""

    async def catch_up(self) -> None:
        """Waits until the cache has every write that any server acknowledged before this call.

        Raises ServiceUnavailable where the store does not answer, Timeout where the cache does not get its events.
        """
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                await self.cache.catch_up()
        except StoreUnavailable as error:
            raise ServiceUnavailable(f"the store cannot be read: {error}") from error
        except TimeoutError as error:
            message = "this server is behind the store and cannot tell what is there now; try again"
            raise Timeout(message, Details(retry_after_seconds=1)) from error
