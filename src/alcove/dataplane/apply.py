"""Writes the difference between the desired and the current entries of the maps.

Additions come first, map by map in an order in which no entry refers to a missing one; then removals in the
reverse order. So a packet always sees a consistent set of old or new entries. After a kill at any point, the
next run writes the rest of the difference. An entry that the kernel refuses costs its owner alone.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from alcove.dataplane.bpf import Map
from alcove.dataplane.desired import Entries
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.maps import ENDPOINT, PEER_KEY, PORT, MapName

KEY_ONLY = frozenset({MapName.BUCKETS})
"""Maps whose values are changed by the BPF programs."""

_POLICED = {MapName.PORTS: PORT, MapName.ENDPOINTS: ENDPOINT}

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


class RefusedEntries(Struct, frozen=True):
    """Entries that the kernel did not take, and the last reason."""

    name: MapName
    keys: frozenset[bytes]
    error: KernelRefused


def apply(
    maps: Mapping[MapName, Map], changes: list[MapChange], held: Entries, checkpoint: Checkpoint
) -> list[RefusedEntries]:
    """Applies the changes and updates `held` accordingly, also when a later step fails. Entries that the kernel
    does not take, as one too many for a full map, are left out and returned: they must not keep the others from
    being written or removed. Raises KernelRefused if entries cannot be removed."""
    refused: list[RefusedEntries] = []
    for change in changes:
        checkpoint(f"{change.name.value} +{len(change.puts)} -{len(change.deletes)}")
        entries = held.setdefault(change.name, {})
        if change.puts:
            puts = _without_incomplete_policies(change, refused)
            missing = _put(maps[change.name], change.name, puts)
            refused += missing
            lost = frozenset(key for each in missing for key in each.keys)
            entries.update({key: value for key, value in puts.items() if key not in lost})
        if change.deletes:
            maps[change.name].delete_all(change.deletes)
            for key in change.deletes:
                entries.pop(key, None)
    return refused


def _put(one: Map, name: MapName, puts: Mapping[bytes, bytes]) -> list[RefusedEntries]:
    """Writes all entries at once; if that fails, one by one."""
    try:
        one.put_all(puts)
        return []
    except KernelRefused as error:
        last = error
    keys: list[bytes] = []
    for key, value in puts.items():
        try:
            one.put(key, value)
        except KernelRefused as error:
            keys.append(key)
            last = error
    return [RefusedEntries(name, frozenset(keys), last)] if keys else []


def _without_incomplete_policies(change: MapChange, refused: list[RefusedEntries]) -> Mapping[bytes, bytes]:
    """The entries to add, without ports and endpoints whose policy lacks a prefix: it may be one that denies what
    a shorter one allows. They keep the policy that they have; a new one has no entry, and no traffic."""
    incomplete = {
        PEER_KEY.unpack(key)["profile"]
        for each in refused
        if each.name is MapName.POLICY_PEERS
        for key in each.keys
    }
    if not incomplete or change.name not in _POLICED:
        return change.puts
    layout = _POLICED[change.name]
    return {
        key: value
        for key, value in change.puts.items()
        if incomplete.isdisjoint((layout.unpack(value)["policy_in"], layout.unpack(value)["policy_out"]))
    }


def read_back(maps: Mapping[MapName, Map]) -> Entries:
    return {name: one.items() for name, one in maps.items()}
