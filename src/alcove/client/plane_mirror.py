"""One plane's part of a mirror: its objects, encoded, by tenant, and what indexes find them by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from sys import intern

import msgspec
import orjson

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, Index, ObjectChange, Subscriber, Trim, index_values
from alcove.client.keys import ObjectKey, PlaneId

Name = tuple[str, str]
"""(namespace, name)"""
Accepts = Callable[[TenantId, Name], bool]

_encode = msgspec.json.Encoder().encode
"""Not orjson's: its bytes keep the whole buffer that they were written in, 4 KB at least."""


class _Entry:
    __slots__ = ("body", "indexed", "revision")

    def __init__(self, revision: int, body: bytes, indexed: tuple[tuple[str, ...], ...]) -> None:
        self.revision = revision
        self.body = body
        self.indexed = indexed
        """Per index, in the order they were added."""


class PlaneMirror:
    """Written by the plane's informer."""

    def __init__(
        self,
        plane: PlaneId,
        trim: Trim,
        indexes: Sequence[Index],
        notify: Subscriber,
        accepts: Accepts = lambda _tenant, _name: True,
    ) -> None:
        """What it does not accept, is not there."""
        self.plane = plane
        self._accepts = accepts
        self.revision = Revision(0)
        """Everything up to it is here."""
        self.synced = asyncio.Event()
        """Everything was listed once."""
        self._trim = trim
        self._tell = notify
        self._indexes: list[Index] = []
        self._spaces: dict[TenantId, dict[Name, _Entry]] = {}
        self._found: list[dict[tuple[TenantId, str], dict[Name, None]]] = []
        self._listed: set[tuple[TenantId, Name]] | None = None
        self._waiting: list[tuple[Revision, asyncio.Future[None]]] = []
        for index in indexes:
            self.add_index(index)

    # The informer's side

    def begin_list(self) -> None:
        self._listed = set()

    def end_list(self, revision: Revision) -> None:
        """What was not listed is gone."""
        listed, self._listed = self._listed or set(), None
        gone = [
            (tenant, name)
            for tenant, space in self._spaces.items()
            for name in space
            if (tenant, name) not in listed
        ]
        for tenant, name in gone:
            self._drop(tenant, name, None)
        self.advance(revision)
        self.synced.set()

    def put(self, obj: Object, revision: Revision) -> None:
        meta = obj["metadata"]
        tenant = TenantId(intern(meta["tenant"]))
        name = (intern(meta.get("namespace") or ""), meta["name"])
        if self._accepts(tenant, name):
            self._put(tenant, name, obj, revision)
        if self._listed is None:
            self.advance(revision)

    def _put(self, tenant: TenantId, name: Name, obj: Object, revision: Revision) -> None:
        if self._listed is not None:
            self._listed.add((tenant, name))
        space = self._spaces.setdefault(tenant, {})
        old = space.get(name)
        if old is None or old.revision != revision:
            obj = self._trim(obj)
            indexed = tuple(index_values(index, obj) for index in self._indexes)
            space[name] = _Entry(revision, _encode(obj), indexed)
            self._reindex(tenant, name, old.indexed if old else (), indexed)
            key = ObjectKey(self.plane, tenant, *name)
            kind = ChangeType.UPDATED if old else ChangeType.ADDED
            self._tell(ObjectChange(kind, key, obj, old.body if old else b""))

    def remove(self, obj: Object, revision: Revision) -> None:
        meta = obj["metadata"]
        self._drop(meta["tenant"], (meta.get("namespace") or "", meta["name"]), obj)
        self.advance(revision)

    def advance(self, revision: Revision) -> None:
        self.revision = max(self.revision, revision)
        if self._waiting:
            self._wake()

    def forget(self) -> None:
        """The plane left: all its objects are gone for us."""
        for tenant, space in list(self._spaces.items()):
            for name in list(space):
                self._drop(tenant, name, None)
        for _, waiting in self._waiting:
            waiting.cancel()

    def _drop(self, tenant: TenantId, name: Name, last: Object | None) -> None:
        space = self._spaces.get(tenant)
        entry = space.pop(name, None) if space is not None else None
        if space is None or entry is None:
            return
        if not space:
            del self._spaces[tenant]
        self._reindex(tenant, name, entry.indexed, ())
        obj = self._trim(last) if last is not None else orjson.loads(entry.body)
        self._tell(ObjectChange(ChangeType.DELETED, ObjectKey(self.plane, tenant, *name), obj, entry.body))

    # Indexes

    def add_index(self, index: Index) -> None:
        self._indexes.append(index)
        self._found.append({})
        place = len(self._found) - 1
        for tenant, space in self._spaces.items():
            for name, entry in space.items():
                values = index_values(index, orjson.loads(entry.body))
                entry.indexed = (*entry.indexed, values)
                self._index(place, tenant, name, values)

    def _reindex(
        self, tenant: TenantId, name: Name, old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]
    ) -> None:
        if old == new:
            return
        for found, values in zip(self._found, old, strict=False):
            for value in values:
                names = found[tenant, value]
                names.pop(name, None)
                if not names:
                    del found[tenant, value]
        for place, values in enumerate(new):
            self._index(place, tenant, name, values)

    def _index(self, place: int, tenant: TenantId, name: Name, values: Iterable[str]) -> None:
        found = self._found[place]
        for value in values:
            found.setdefault((tenant, value), {})[name] = None

    # The readers' side

    def get(self, tenant: TenantId, name: Name) -> bytes | None:
        space = self._spaces.get(tenant)
        entry = space.get(name) if space else None
        return entry.body if entry else None

    def names(self, tenant: TenantId, namespace: str | None) -> list[Name]:
        space = self._spaces.get(tenant, {})
        return [name for name in space if namespace is None or name[0] == namespace]

    def tenants(self) -> list[TenantId]:
        return list(self._spaces)

    def found(self, place: int, tenant: TenantId, value: str) -> list[Name]:
        return list(self._found[place].get((tenant, value), ()))

    def count(self) -> int:
        return sum(len(space) for space in self._spaces.values())

    async def reached(self, revision: Revision) -> None:
        if self.revision < revision:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, waiting))
            await waiting

    def _wake(self) -> None:
        still = []
        for revision, waiting in self._waiting:
            if revision > self.revision:
                still.append((revision, waiting))
            elif not waiting.done():
                waiting.set_result(None)
        self._waiting = [each for each in still if not each[1].done()]
