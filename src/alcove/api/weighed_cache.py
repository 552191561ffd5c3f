"""Results that are computed from what tenants have sent, kept for the next use: all together weigh no more than a bound.

`lru_cache` bounds how many results are kept and not how large they are, which tenants decide: one that sends a few thousand
large ones, each a little different, would have gigabytes kept that no account of its has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class _Kept(Generic[Result]):
    __slots__ = ("is_used", "result", "weight")

    def __init__(self, result: Result, weight: int) -> None:
        self.result = result
        self.weight = weight
        self.is_used = False
        """Since it was put here, or was last the oldest. Keys may be large: to sort them by use would hash them once more."""


class WeighedCache(Generic[Key, Result]):
    """Can be used by several threads."""

    def __init__(self, weight_max: int, one_max: int | None = None) -> None:
        """`one_max`: what one result may weigh to be kept, so that it does not push out all others."""
        self._weight_max = weight_max
        self._one_max = weight_max if one_max is None else one_max
        self._kept: OrderedDict[Key, _Kept[Result]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0
        """Of all that is kept."""

    def get(self, key: Key) -> Result | None:
        found = self._kept.get(key)
        if found is None:
            return None
        found.is_used = True
        return found.result

    def put(self, key: Key, result: Result, weight: int) -> None:
        """Keeps a result instead of old ones that were not used since, unless it is too heavy."""
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self.weight -= before.weight
            if weight > self._one_max:
                return
            added = self._kept[key] = _Kept(result, weight)
            self.weight += weight
            while self.weight > self._weight_max:
                self._drop_oldest(added)

    def _drop_oldest(self, added: _Kept[Result]) -> None:
        """Drops it, unless it was used or `added`: then it is the newest from now on."""
        oldest, kept = self._kept.popitem(last=False)
        if kept.is_used or kept is added:
            kept.is_used = False
            self._kept[oldest] = kept
        else:
            self.weight -= kept.weight
