"""What a mirror tells of an object, and the small functions that it is made with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from typing import Any

import orjson
from msgspec import Struct

from alcove.api.objects import Object
from alcove.client.keys import ObjectKey

log = logging.getLogger(__name__)

Index = Callable[[Object], Iterable[str]]
"""The values that an object is found by."""
Trim = Callable[[Object], Object]
"""What is kept of an object (which may be changed in place)."""


class ChangeType(Enum):
    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


class ObjectChange(Struct, frozen=True):
    """What happened to an object. `obj` and `old` are shared by all who hear of it: not to be changed."""

    kind: ChangeType
    key: ObjectKey
    obj: Object
    """As it is now; for DELETED as it was last."""
    old_body: bytes = b""

    @property
    def old(self) -> Object | None:
        """As it was before, decoded when asked; None for ADDED."""
        return _decoded(self.old_body) if self.old_body else None


@lru_cache(maxsize=1)
def _decoded(body: bytes) -> Object:
    """Decoded once for all who hear of one change, one after the other."""
    return orjson.loads(body)  # type: ignore[no-any-return]


Subscriber = Callable[[ObjectChange], None]


def call(subscriber: Subscriber, change: ObjectChange) -> None:
    try:
        subscriber(change)
    except Exception:
        log.exception("subscriber failed", extra={"key": str(change.key)})


def index_values(index: Index, obj: Object) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(index(obj)))
    except Exception:
        # One odd object must not stop the others from being seen.
        log.exception("index failed", extra={"object": obj["metadata"].get("selfLink", "")})
        return ()


def without_managed_fields(obj: Object) -> Object:
    """Half of a typical object; nobody here reads them."""
    obj["metadata"].pop("managedFields", None)
    return obj


def owner_uids(obj: Object) -> Iterable[str]:
    """An index: by the uid of every owner."""
    return [owner.get("uid", "") for owner in obj["metadata"].get("ownerReferences") or ()]


def controller_uid(obj: Object) -> Iterable[str]:
    """An index: by the uid of the one owner that controls the object."""
    owners: list[Any] = obj["metadata"].get("ownerReferences") or []
    return [owner.get("uid", "") for owner in owners if owner.get("controller")]
