"""Changes that a mirror reports to its subscribers, and functions that configure mirrors (indexes,
trimming)."""

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
from alcove.component.log_limit import LogLimit

log = logging.getLogger(__name__)
_log_limit = LogLimit()

Index = Callable[[Object], Iterable[str]]
"""Returns the values that an object is found by."""
Trim = Callable[[Object], Object]
"""Returns the part of an object that is stored; may change the object in place."""


class ChangeType(Enum):
    ADDED = "added"
    UPDATED = "updated"
    DELETED = "deleted"


class ObjectChange(Struct, frozen=True):
    """A change of an object. `obj` and `old` are shared by all subscribers and must not be modified."""

    kind: ChangeType
    key: ObjectKey
    obj: Object
    """The current state; for DELETED the last one."""
    old_body: bytes = b""

    @property
    def old(self) -> Object | None:
        """The previous state, decoded on access; None for ADDED."""
        return _decoded(self.old_body) if self.old_body else None


@lru_cache(maxsize=1)
def _decoded(body: bytes) -> Object:
    """Decode once per change: subscribers are called one after the other with the same change."""
    return orjson.loads(body)  # type: ignore[no-any-return]


Subscriber = Callable[[ObjectChange], None]


def call(subscriber: Subscriber, change: ObjectChange) -> None:
    try:
        subscriber(change)
    except Exception:
        if _log_limit.allows(change.key.tenant_key):
            log.exception("subscriber failed; continuing", extra={"key": str(change.key)})


def index_values(index: Index, obj: Object) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(index(obj)))
    except Exception:
        # One malformed object must not keep the mirror from storing the others.
        metadata = obj["metadata"]
        if _log_limit.allows(str(metadata.get("tenant"))):
            fields = {field: metadata.get(field) for field in ("tenant", "namespace", "name")}
            log.exception("failed to index object; continuing", extra={"object": fields})
        return ()


def without_managed_fields(obj: Object) -> Object:
    """Remove managedFields: they are half of a typical object, and no reader of a mirror needs them."""
    obj["metadata"].pop("managedFields", None)
    return obj


def controller_uid(obj: Object) -> Iterable[str]:
    """An index by the uid of the controlling owner."""
    owners: list[Any] = obj["metadata"].get("ownerReferences") or []
    return [owner.get("uid", "") for owner in owners if owner.get("controller")]
