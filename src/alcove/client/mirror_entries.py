"""The encoded objects of one tenant in a mirror, by namespace and name.

Most tenants have a few objects of most kinds: these are in a tuple, which takes a fourth of a dictionary's memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from alcove.api.ids import TenantId
from alcove.api.shared_bodies import BodyTemplate, PackedBody

Name: TypeAlias = tuple[str, str]
"""(namespace, name)"""
IndexedValues: TypeAlias = tuple[tuple[str, ...], ...]
"""An object's values per index, in the order of the indexes."""

FEW_MAX = 8
"""Objects that are kept in a tuple."""


class MirrorEntry:
    __slots__ = ("_own", "_template", "indexed", "name", "revision")

    def __init__(self, name: Name, revision: int, body: PackedBody | bytes, indexed: IndexedValues) -> None:
        self.name = name
        self.revision = revision
        self.indexed = indexed
        # Not the PackedBody: its own memory is a tenth of an entry's.
        self._template: BodyTemplate | None = None if isinstance(body, bytes) else body.template
        self._own = body if isinstance(body, bytes) else body.own

    @property
    def size(self) -> int:
        """Of what is stored."""
        return len(self._own)

    def body(self, tenant: TenantId) -> bytes:
        template = self._template
        return self._own if template is None else template.fill(self._own, tenant, self.name[1])


MirrorEntries: TypeAlias = tuple[MirrorEntry, ...] | dict[Name, MirrorEntry]


def find(entries: MirrorEntries, name: Name) -> MirrorEntry | None:
    if isinstance(entries, dict):
        return entries.get(name)
    for entry in entries:
        if entry.name == name:
            return entry
    return None


def each(entries: MirrorEntries) -> Iterable[MirrorEntry]:
    """The entries, in the order in which they were added."""
    return entries.values() if isinstance(entries, dict) else entries


def with_entry(entries: MirrorEntries, entry: MirrorEntry) -> MirrorEntries:
    """The entries with one added or replaced; the same dictionary if it is one."""
    if isinstance(entries, dict):
        entries[entry.name] = entry
        return entries
    for place, other in enumerate(entries):
        if other.name == entry.name:
            return (*entries[:place], entry, *entries[place + 1 :])
    if len(entries) < FEW_MAX:
        return (*entries, entry)
    return {other.name: other for other in (*entries, entry)}


def without_entry(entries: MirrorEntries, name: Name) -> MirrorEntries:
    """The entries without one; the same dictionary if it is one."""
    if isinstance(entries, dict):
        entries.pop(name, None)
        return entries
    return tuple(entry for entry in entries if entry.name != name)
