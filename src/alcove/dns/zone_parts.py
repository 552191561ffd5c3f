"""The records of one source (a service, a pod), by name: a part of a zone that is replaced as a whole.

Pure: large ones are made in any thread, with the difference to the part before, so that replacing it takes little time.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from msgspec import Struct

from alcove.dns.model import ObjectId
from alcove.dns.names import ROOT, Name, parent
from alcove.dns.records import ADDRESSES_MAX, DnsRecord

RecordSets = Mapping[int, tuple[DnsRecord, ...]]
"""The records of a name by type; empty for a name that only has names below it (empty non-terminal)."""

PartId = tuple[str, ObjectId]
"""The source: `service`, `pod` or `zone`, and its id."""


class ZonePart(Struct, frozen=True):
    names: dict[Name, RecordSets]
    count: int
    """Of records."""


EMPTY_PART = ZonePart({}, 0)


class PartChange(Struct, frozen=True):
    id: PartId
    before: ZonePart
    now: ZonePart
    added: tuple[Name, ...]
    removed: tuple[Name, ...]
    below: Counter[Name]
    """How many names more or less are below each name."""


Change = Callable[[], PartChange | None]
"""Computes a change; None if there is none."""


def change_of(id_: PartId, before: ZonePart, records: Iterable[DnsRecord]) -> PartChange | None:
    by_name: dict[Name, dict[int, dict[DnsRecord, None]]] = {}
    for record in records:
        by_name.setdefault(record.name, {}).setdefault(record.type, {})[record] = None
    names: dict[Name, RecordSets] = {
        name: {kind: tuple(sorted(found, key=_data)) for kind, found in sets.items()}
        for name, sets in by_name.items()
    }
    if names == before.names:
        return None
    now = ZonePart(names, sum(len(found) for sets in names.values() for found in sets.values()))
    added = tuple(name for name in names if name not in before.names)
    removed = tuple(name for name in before.names if name not in names)
    below: Counter[Name] = Counter()
    for changed, sign in ((added, 1), (removed, -1)):
        for name in changed:
            while name != ROOT:
                name = parent(name)
                below[name] += sign
    return PartChange(id_, before, now, added, removed, below)


def merged(parts: Iterable[RecordSets]) -> RecordSets:
    """The records that a name has in several parts; of thousands, as many as fit into an answer."""
    sets: dict[int, dict[DnsRecord, None]] = {}
    for part in islice(parts, ADDRESSES_MAX):
        for kind, found in part.items():
            of_kind = sets.setdefault(kind, {})
            of_kind.update(dict.fromkeys(found[: ADDRESSES_MAX - len(of_kind)]))
    return {kind: tuple(sorted(found, key=_data)) for kind, found in sets.items()}


def _data(record: DnsRecord) -> bytes:
    return record.data
