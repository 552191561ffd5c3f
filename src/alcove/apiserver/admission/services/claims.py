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
        self._before: list[tuple[Object, str, object]] = []

    def set(self, container: Object, field: str, value: object) -> None:
        self._before.append((container, field, container.get(field, self)))
        container[field] = value

    def update(self, container: Object, fields: Object) -> None:
        for field, value in fields.items():
            self.set(container, field, value)

    def undo(self) -> None:
        for container, field, value in reversed(self._before):
            if value is self:
                container.pop(field, None)
            else:
                container[field] = value
        self._before.clear()


def created(key: Key, claim: Object, path: str, now: float) -> WriteOp:
    """The operation that creates the claim; `path` is that of its resource in the tenant."""
    metadata = claim["metadata"] | {
        "tenant": key.tenant,
        "uid": meta.new_uid(),
        "creationTimestamp": meta.format_time(now),
        "selfLink": f"{path}/{key.name}",
    }
    return WriteOp(key, encode({**claim, "metadata": metadata}), ABSENT)


def released(entry: CacheEntry | None, is_own: IsOwn) -> list[WriteOp]:
    """The operation that deletes the claim, if it is the service's own."""
    return [WriteOp(entry.key, None, entry.revision)] if entry is not None and is_own(entry) else []
