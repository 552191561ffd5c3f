"""One tenant's objects of one resource, by namespace and name, in order.

Most tenants have a few objects of most kinds, so these are kept in a sorted tuple: it takes a fifth of the memory of a
dictionary for each namespace.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping

from alcove.apiserver.cache.entries import CacheEntry

FEW_MAX = 8
"""Objects that are kept in a tuple."""


class NamespaceBucket:
    """The objects of one namespace."""

    __slots__ = ("entries", "names")

    def __init__(self) -> None:
        self.entries: dict[str, CacheEntry] = {}
        self.names: list[str] | None = None
        """Sorted names; created by the first list, then updated incrementally."""

    def put(self, entry: CacheEntry) -> CacheEntry | None:
        name = entry.key.name
        previous = self.entries.get(name)
        self.entries[name] = entry
        if previous is None and self.names is not None:
            insort(self.names, name)
        return previous

    def remove(self, name: str) -> CacheEntry | None:
        previous = self.entries.pop(name, None)
        if previous is not None and self.names is not None:
            del self.names[bisect_left(self.names, name)]
        return previous

    def ordered(self, after: str = "") -> Iterator[CacheEntry]:
        if self.names is None:
            self.names = sorted(self.entries)
        names = self.names[bisect_right(self.names, after) :] if after else self.names
        return map(self.entries.__getitem__, names)


class TenantObjects:
    __slots__ = ("_buckets", "_few", "size")

    def __init__(self) -> None:
        self.size = 0
        """The number of objects."""
        self._few: tuple[CacheEntry, ...] = ()
        """All objects, sorted by namespace and name, unless there are buckets."""
        self._buckets: dict[str, NamespaceBucket] | None = None

    def get(self, namespace: str, name: str) -> CacheEntry | None:
        if self._buckets is not None:
            bucket = self._buckets.get(namespace)
            return bucket.entries.get(name) if bucket is not None else None
        for entry in self._few:
            key = entry.key
            if key.name == name and key.namespace == namespace:
                return entry
        return None

    def put(self, entry: CacheEntry) -> CacheEntry | None:
        """Adds or replaces an object; returns its state before."""
        previous = self._put(entry)
        self.size += previous is None
        return previous

    def _put(self, entry: CacheEntry) -> CacheEntry | None:
        if self._buckets is None:
            if self.size < FEW_MAX or self.get(entry.key.namespace, entry.key.name) is not None:
                return self._put_few(entry)
            self._spread()
        return self._put_many(entry)

    def _put_few(self, entry: CacheEntry) -> CacheEntry | None:
        few, place = self._few, _place(entry)
        if not few or _place(few[-1]) < place:
            self._few = (*few, entry)
            return None
        at = bisect_left(few, place, key=_place)
        previous = few[at] if _place(few[at]) == place else None
        self._few = (*few[:at], entry, *few[at + (previous is not None) :])
        return previous

    def _put_many(self, entry: CacheEntry) -> CacheEntry | None:
        assert self._buckets is not None
        bucket = self._buckets.get(entry.key.namespace)
        if bucket is None:
            bucket = self._buckets[entry.key.namespace] = NamespaceBucket()
        return bucket.put(entry)

    def _spread(self) -> None:
        """Keeps the objects in buckets from now on."""
        few, self._few, self._buckets = self._few, (), {}
        for entry in few:
            self._put_many(entry)

    def remove(self, namespace: str, name: str) -> CacheEntry | None:
        """Removes an object; returns its last state."""
        previous = self.get(namespace, name)
        if previous is None:
            return None
        self.size -= 1
        if self._buckets is None:
            self._few = tuple(entry for entry in self._few if entry is not previous)
            return previous
        bucket = self._buckets[namespace]
        bucket.remove(name)
        if not bucket.entries:
            del self._buckets[namespace]
            if not self._buckets:
                self._buckets = None
        return previous

    def ordered(self, namespace: str | None, after: tuple[str, str] = ("", "")) -> Iterator[CacheEntry]:
        """Entries after (namespace, name), in that order; of one namespace unless it is None."""
        if self._buckets is None:
            few = self._few
            if namespace is None:
                yield from few[bisect_right(few, after, key=_place) :]
                return
            for entry in few:
                if entry.key.namespace == namespace and entry.key.name > after[1]:
                    yield entry
            return
        if namespace is not None:
            bucket = self._buckets.get(namespace)
            if bucket is not None:
                yield from bucket.ordered(after[1])
            return
        for name in sorted(self._buckets):
            if name >= after[0]:
                yield from self._buckets[name].ordered(after[1] if name == after[0] else "")

    def count(self, namespace: str | None) -> int:
        if namespace is None:
            return self.size
        if self._buckets is None:
            return sum(entry.key.namespace == namespace for entry in self._few)
        bucket = self._buckets.get(namespace)
        return len(bucket.entries) if bucket is not None else 0

    def by_namespace(self) -> Mapping[str, Mapping[str, CacheEntry]]:
        """A copy: the objects of each namespace by name."""
        if self._buckets is not None:
            return {namespace: dict(bucket.entries) for namespace, bucket in self._buckets.items()}
        found: dict[str, dict[str, CacheEntry]] = {}
        for entry in self._few:
            found.setdefault(entry.key.namespace, {})[entry.key.name] = entry
        return found


def _place(entry: CacheEntry) -> tuple[str, str]:
    return entry.key.namespace, entry.key.name
