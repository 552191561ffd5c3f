"""Keys that wait for a named thing to become available, in the order in which they began to wait.

A key must be forgotten when it is reconciled again or its object is deleted, so the size is bounded by the
number of keys that are waiting now.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from alcove.client.keys import ObjectKey


class KeyWaiters:
    def __init__(self) -> None:
        self._by_name: dict[str, dict[ObjectKey, None]] = {}
        self._names: dict[ObjectKey, tuple[str, ...]] = {}

    def add(self, key: ObjectKey, names: Iterable[str]) -> None:
        """The key waits for any of `names`; names from an earlier call are dropped."""
        self.forget(key)
        self._names[key] = unique_names = tuple(dict.fromkeys(names))
        for name in unique_names:
            self._by_name.setdefault(name, {})[key] = None

    def forget(self, key: ObjectKey) -> None:
        for name in self._names.pop(key, ()):
            keys = self._by_name[name]
            del keys[key]
            if not keys:
                del self._by_name[name]

    def take(self, name: str, maximum: int | None = None) -> list[ObjectKey]:
        """Removes and returns the keys that wait for the name, longest wait first, at most `maximum`."""
        keys = list(islice(self._by_name.get(name, ()), maximum))
        for key in keys:
            self.forget(key)
        return keys

    def __len__(self) -> int:
        return len(self._names)
