"""Results that are computed from what tenants have sent, kept for the next use: all together weigh no more than a bound.

`lru_cache` bounds how many results are kept and not how large they are, which tenants decide: one that sends a few thousand
large ones, each a little different, would have gigabytes kept that no account of its has. Nor does it know whose they are: here
the owner with most loses its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from alcove.api.fair_pool import FairPool

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")

IDLE_SECONDS = 600.0
"""For which a result is kept that nobody uses."""


class _Kept(Generic[Key, Result]):
    __slots__ = ("is_used", "key", "owner", "result")

    def __init__(self, owner: str, key: Key, result: Result) -> None:
        self.owner = owner
        self.key = key
        self.result = result
        self.is_used = False
        """Since it was put here, or was last the oldest. Keys may be large: to sort them by use would hash them once more."""

    def was_used(self) -> bool:
        is_used, self.is_used = self.is_used, False
        return is_used


class WeighedCache(Generic[Key, Result]):
    """Can be used by several threads."""

    def __init__(
        self, weight_max: int, one_max: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`one_max`: what one result may weigh to be kept, so that it does not push out all others."""
        self._one_max = weight_max if one_max is None else one_max
        self._kept: dict[Key, _Kept[Key, Result]] = {}
        self._pool: FairPool[_Kept[Key, Result]] = FairPool(weight_max, IDLE_SECONDS, _Kept.was_used, clock)
        self._lock = Lock()

    @property
    def weight(self) -> int:
        """Of all that is kept."""
        return self._pool.weight

    def get(self, key: Key) -> Result | None:
        """A result, whoever has put it here."""
        found = self._kept.get(key)
        if found is None:
            return None
        found.is_used = True
        return found.result

    def put(self, owner: str, key: Key, result: Result, weight: int) -> None:
        """Keeps a result instead of old ones that were not used since, unless it is too heavy. They are those of the owner who
        has most, which may be this one. A key is its first owner's for as long as it is kept."""
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                owner = before.owner
                self._pool.remove(owner, before)
            if weight > self._one_max:
                return
            kept = self._kept[key] = _Kept(owner, key, result)
            for gone in self._pool.add(owner, kept, weight):
                del self._kept[gone.key]
