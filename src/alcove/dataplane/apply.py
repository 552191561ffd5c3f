"""Writes the difference between the desired and the current entries of the maps.

Additions come first, map by map in an order in which no entry refers to a missing one; then removals in the
reverse order. So a packet always sees a consistent set of old or new entries. After a kill at any point, the
next run writes the rest of the difference.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.dataplane.bpf import Map
from alcove.dataplane.desired import Entries
from alcove.dataplane.maps import MapName

KEY_ONLY = frozenset({MapName.BUCKETS})
"""Maps whose values are changed by the BPF programs."""

Checkpoint = Callable[[str], None]
"""Called before each step that changes the kernel's state; tests interrupt there."""


class MapChange(Struct, frozen=True):
    name: MapName
    puts: dict[bytes, bytes] = {}
    deletes: tuple[bytes, ...] = ()


def difference(desired: Entries, held: Entries) -> list[MapChange]:
    puts = [_puts(name, desired.get(name, {}), held.get(name, {})) for name in MapName]
    deletes = [_deletes(name, desired.get(name, {}), held.get(name, {})) for name in reversed(MapName)]
    return [change for change in (*puts, *deletes) if change.puts or change.deletes]


def _puts(name: MapName, desired: Mapping[bytes, bytes], held: Mapping[bytes, bytes]) -> MapChange:
    if name in KEY_ONLY:
        return MapChange(name, puts={key: value for key, value in desired.items() if key not in held})
    return MapChange(name, puts={key: value for key, value in desired.items() if held.get(key) != value})


def _deletes(name: MapName, desired: Mapping[bytes, bytes], held: Mapping[bytes, bytes]) -> MapChange:
    return MapChange(name, deletes=tuple(key for key in held if key not in desired))


def apply(
    maps: Mapping[MapName, Map], changes: list[MapChange], held: Entries, checkpoint: Checkpoint
) -> None:
    """Applies the changes and updates `held` accordingly, also when a later step fails. Raises
    KernelRefused."""
    for change in changes:
        checkpoint(f"{change.name.value} +{len(change.puts)} -{len(change.deletes)}")
        entries = held.setdefault(change.name, {})
        if change.puts:
            maps[change.name].put_all(change.puts)
            entries.update(change.puts)
        if change.deletes:
            maps[change.name].delete_all(change.deletes)
            for key in change.deletes:
                entries.pop(key, None)


def read_back(maps: Mapping[MapName, Map]) -> Entries:
    return {name: one.items() for name, one in maps.items()}
