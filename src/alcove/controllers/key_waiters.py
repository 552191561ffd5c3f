"""Who waits for what: keys by the name of the thing that would let them go on, in the order they came.

A key is here only while it waits. Whoever is looked at again, or is gone, is forgotten; so what is kept is never
more than what waits now, whatever came and went.
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
        """It waits for any of these, and for nothing that it waited for before."""
        self.forget(key)
        self._names[key] = desired = tuple(dict.fromkeys(names))
        for name in desired:
            self._by_name.setdefault(name, {})[key] = None

    def forget(self, key: ObjectKey) -> None:
        for name in self._names.pop(key, ()):
            keys = self._by_name[name]
            del keys[key]
            if not keys:
                del self._by_name[name]

    def take(self, name: str, most: int | None = None) -> list[ObjectKey]:
        """Those who waited for this, the first ones first; they wait no more."""
        found = list(islice(self._by_name.get(name, ()), most))
        for key in found:
            self.forget(key)
        return found

    def __len__(self) -> int:
        return len(self._names)
