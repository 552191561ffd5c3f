"""Writes the difference between what the maps should hold and what they hold.

Additions go map by map in the order in which nothing refers to what is not there yet, removals the other
way, all additions first: at every moment a packet meets the old entries or the new ones, whole. Killed
anywhere, the next run finds the rest of the difference.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.dataplane.bpf import Map
from alcove.dataplane.desired import Entries
from alcove.dataplane.maps import MapName

KEY_ONLY = frozenset({MapName.BUCKETS})
"""Maps whose values are the kernel's to change."""

Checkpoint = Callable[[str], None]
"""Called before each step that changes something; tests stop the world there."""


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
    """Carries out the changes and keeps `held` true to the kernel, also when a step fails."""
    for change in changes:
        checkpoint(f"{change.name.value} +{len(change.puts)} -{len(change.deletes)}")
        known = held.setdefault(change.name, {})
        if change.puts:
            maps[change.name].put_all(change.puts)
            known.update(change.puts)
        if change.deletes:
            maps[change.name].delete_all(change.deletes)
            for key in change.deletes:
                known.pop(key, None)


def read_back(maps: Mapping[MapName, Map]) -> Entries:
    return {name: one.items() for name, one in maps.items()}
