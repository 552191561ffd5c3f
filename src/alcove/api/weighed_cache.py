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


class WeighedCache(Generic[Key, Result]):
    """Can be used by several threads."""

    def __init__(self, weight_max: int, one_max: int | None = None) -> None:
        """`one_max`: what one result may weigh to be kept, so that it does not push out all others."""
        self._weight_max = weight_max
        self._one_max = weight_max if one_max is None else one_max
        self._kept: OrderedDict[Key, tuple[Result, int]] = OrderedDict()
        self._lock = Lock()
        self.weight = 0
        """Of all that is kept."""

    def get(self, key: Key) -> Result | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Key, result: Result, weight: int) -> None:
        """Keeps a result instead of those unused for longest, unless it is too heavy."""
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self.weight -= before
            if weight > self._one_max:
                return
            self._kept[key] = (result, weight)
            self.weight += weight
            while self.weight > self._weight_max:
                _, (_, dropped) = self._kept.popitem(last=False)
                self.weight -= dropped
