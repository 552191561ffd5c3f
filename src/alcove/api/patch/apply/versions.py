"""Fields owned at other API versions than the request's.

An owner's fields are paths of the version it wrote at. To find out how a change affects them, the object is
converted to that version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch.apply.compare import Comparison, compare
from alcove.api.patch.apply.fieldset import FieldSet, Trie, exclude
from alcove.api.patch.apply.shape import Struct, root
from alcove.api.schema.node import SchemaNode

Convert = Callable[[Object, str], tuple[Object, SchemaNode] | None]
"""(object, apiVersion) → the object at that version, and that version's schema; None: it is not served.

Must not change the object it is given, and must accept objects with missing or null fields.
"""


def between(kinds: Iterable[Kind]) -> Convert | None:
    """Return the conversion between the versions of one resource; None if they differ only in apiVersion."""
    by_version = {kind.api_version: kind for kind in kinds}
    if all(kind.to_storage is None for kind in by_version.values()):
        return None

    def convert(obj: Object, api_version: str) -> tuple[Object, SchemaNode] | None:
        source, target = by_version.get(obj["apiVersion"]), by_version.get(api_version)
        if source is None or target is None:
            return None
        if source is target:
            return obj, target.schema
        stored = obj if source.to_storage is None else source.to_storage(obj)
        served = stored if target.from_storage is None else target.from_storage(stored)
        return {**served, "apiVersion": api_version}, target.schema

    return convert


class ObjectVersions:
    """The request's version and the conversion to others. Without one, all versions have the same fields."""

    def __init__(self, api_version: str, node: SchemaNode, convert: Convert | None) -> None:
        self.api_version = api_version
        self.shape = root(node)
        self._convert = convert

    def at(self, obj: Object, api_version: str) -> tuple[Object, Struct] | None:
        """Return `obj` at a version with its shape; None if the version, and all ownership at it, is gone."""
        if self._convert is None or api_version == self.api_version == obj.get("apiVersion"):
            return obj, self.shape
        converted = self._convert(obj, api_version)
        return None if converted is None else (converted[0], root(converted[1]))

    def distinct(self, api_version: str) -> str:
        """Return the version, or the request's version if all have the same fields."""
        return self.api_version if self._convert is None else api_version


class VersionChanges:
    """What a write changes, at each version. Fields in `reset` do not count: the write cannot set them."""

    def __init__(self, old: Object | None, new: Object, versions: ObjectVersions, reset: FieldSet) -> None:
        self.is_creation = old is None
        self._old = old
        self._new = new
        self._versions = versions
        self._reset = reset.trie
        self._comparisons: dict[str, Comparison | None] = {}

    def at(self, api_version: str) -> Comparison | None:
        """Return the changes at a version; None if that version is no longer served."""
        api_version = self._versions.distinct(api_version)
        if api_version not in self._comparisons:
            self._comparisons[api_version] = self._compared(api_version)
        return self._comparisons[api_version]

    def _compared(self, api_version: str) -> Comparison | None:
        now = self._versions.at(self._new, api_version)
        if now is None:
            return None
        new, shape = now
        if self._old is None:
            return Comparison(created(new, shape, self._reset), {})
        was = self._versions.at(self._old, api_version)
        if was is None:
            return None
        comparison = compare(_counted(was[0], self._reset), _counted(new, self._reset), shape)
        return Comparison(exclude(comparison.changed, self._reset), exclude(comparison.removed, self._reset))


def created(new: Object, shape: Struct, reset: Trie) -> Trie:
    """Return the fields of a new object, in canonical order, without those that its write cannot set."""
    return exclude(shape.created(_counted(new, reset)), reset)


def _counted(obj: Object, reset: Trie) -> Object:
    """Return the object without fields that are reset as a whole, so that they are not compared."""
    whole = [element[2:] for element, below in reset.items() if not below]
    if not any(name in obj for name in whole):
        return obj
    return {name: value for name, value in obj.items() if name not in whole}
