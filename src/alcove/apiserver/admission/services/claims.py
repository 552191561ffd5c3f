"""Claims: objects that are created and deleted in the transaction of the service that they belong to.

So a service that exists has its addresses and ports, and one that could not be written, or was deleted, has none,
whenever the server is killed. Of two servers that claim the same, the store lets one succeed.
"""

from collections.abc import Callable

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.ids import Key
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import CacheEntry
from alcove.store.base import ABSENT, WriteOp

IsOwn = Callable[[CacheEntry], bool]


class Setter:
    """Sets fields of an object that is to be written, and takes them back if the write is tried again."""

    def __init__(self) -> None:
        self._before: list[tuple[Object, Object]] = []

    def set(self, container: Object, field: str, value: object) -> None:
        self.update(container, {field: value})

    def update(self, container: Object, fields: Object) -> None:
        self._before.append((container, container.copy()))
        container.update(fields)

    def undo(self) -> None:
        while self._before:
            container, before = self._before.pop()
            container.clear()
            container.update(before)


def created(key: Key, claim: Object, path: str, now: float) -> WriteOp:
    """The operation that creates the claim, which gets what the server sets; `path` is that of its resource in the
    tenant."""
    claim["metadata"] |= {
        "tenant": key.tenant,
        "uid": meta.new_uid(),
        "creationTimestamp": meta.format_time(now),
        "selfLink": f"{path}/{key.name}",
    }
    return WriteOp(key, encode(claim), ABSENT)


def released(entry: CacheEntry | None, is_own: IsOwn) -> list[WriteOp]:
    """The operation that deletes the claim, if it is the service's own."""
    return [WriteOp(entry.key, None, entry.revision)] if entry is not None and is_own(entry) else []
