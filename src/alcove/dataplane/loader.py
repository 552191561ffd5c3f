"""Loads the programs and pins them, so that they and their maps outlive the agent.

An instance has a directory in the BPF file system:

    maps-LAYOUT/NAME          the maps, shared by every version of the programs that has this layout
    maps-LAYOUT/memory-SLOT   each network's memory
    maps-LAYOUT/dropped-SLOT  what was dropped of each network's packets
    maps-LAYOUT/openings-SLOT the connections that each network has opened last
    programs/VERSION/NAME

VERSION is a digest of the object and the constants it was loaded with. The same version is reused without the
verifier; another one is loaded beside it and replaces it link by link. A version with another layout of the
maps starts with empty maps: the flows of networks are lost then, their veths are not.
"""

import ctypes
import hashlib
import os
import shutil
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from alcove.dataplane import bpf
from alcove.dataplane.bpf import ArrayMap, Map
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.maps import (
    DROP_TABLES,
    DROPPED,
    FLOW,
    INDEX,
    MEMORIES,
    MEMORIES_MAX,
    OPENING,
    OPENING_COUNTS,
    OPENING_RINGS,
    OPENINGS_MAX,
    SHAPES,
    TUPLE,
    MapName,
    layout_version,
)
from alcove.dataplane.namespaces import mount_bpf
from alcove.dataplane.openings import OpeningRing

PROGRAMS = ("from_pod", "from_underlay", "from_vxlan", "from_exit")
MAP_ARRAY, MAP_LRU_HASH = 2, 9
MMAPABLE = 1 << 10
DROPPED_ENTRIES = 512
"""Flows of one network of which drops are remembered; the oldest make room for new ones."""


class Programs(Struct, frozen=True):
    version: str
    descriptors: dict[str, int]
    ids: dict[str, int]
    """The kernel's program ids, as returned by `links.read_attached`."""


def pins_folder(root: Path, instance: str) -> Path:
    return root / f"alcove-{instance}"


def remove_pins(root: Path, instance: str) -> None:
    """Removes the instance's directory. Idempotent."""
    _remove_directory(pins_folder(root, instance))


class Pins:
    """The instance's directory in the BPF file system, and the pins in it."""

    def __init__(self, root: Path, instance: str) -> None:
        mount_bpf(root)
        self.root = root
        self.folder = pins_folder(root, instance)
        self.maps_folder = self.folder / f"maps-{layout_version()}"
        self.programs_folder = self.folder / "programs"
        for directory in (self.folder, self.maps_folder, self.programs_folder):
            directory.mkdir(exist_ok=True)

    def programs(self, path: Path, constants: bytes) -> Programs:
        """The programs of the object at `path`; loads and pins them if they are not pinned yet. Raises
        ProgramRejected."""
        digest = hashlib.blake2b(constants + path.name.encode() + layout_version().encode(), digest_size=8)
        version = digest.hexdigest()
        directory = self.programs_folder / version
        if not all((directory / name).exists() for name in PROGRAMS):
            self._load(path, constants, directory)
        descriptors = {name: bpf.open_pinned(directory / name) for name in PROGRAMS}
        ids = {name: object_id(descriptor) for name, descriptor in descriptors.items()}
        return Programs(version, descriptors, ids)

    def _load(self, path: Path, constants: bytes, directory: Path) -> None:
        loaded = bpf.load(path, self.maps_folder, constants, PROGRAMS)
        try:
            directory.mkdir(exist_ok=True)
            for name, descriptor in loaded.items():
                # A kill may have left some pins, which have the same version.
                (directory / name).unlink(missing_ok=True)
                bpf.pin(descriptor, directory / name)
        finally:
            for descriptor in loaded.values():
                os.close(descriptor)

    def forget_other_versions(self, version: str) -> None:
        for directory in self.programs_folder.iterdir():
            if directory.name != version:
                _remove_directory(directory)
        for directory in self.folder.glob("maps-*"):
            if directory != self.maps_folder:
                _remove_directory(directory)

    def open_maps(self) -> dict[MapName, Map]:
        return {
            name: (ArrayMap if shape.is_array else Map).pinned(
                self.maps_folder / name.value, shape.key.size, shape.value.size
            )
            for name, shape in SHAPES.items()
        }

    def open_map(self, name: str, key_size: int, value_size: int) -> Map:
        return Map.pinned(self.maps_folder / name, key_size, value_size)

    def remove(self) -> None:
        """Removes everything of the instance. Idempotent."""
        _remove_directory(self.folder)


class TableKind(Struct, frozen=True):
    type: int
    key_size: int
    flags: int = 0


LRU_BY_TUPLE = TableKind(MAP_LRU_HASH, TUPLE.size)
RING = TableKind(MAP_ARRAY, INDEX.size, MMAPABLE)


class SlotTables:
    """One bounded table per network, in the slot that the network's entries refer to."""

    def __init__(
        self, pins: Pins, outer: str, prefix: str, value_size: int, kind: TableKind = LRU_BY_TUPLE
    ) -> None:
        self._folder = pins.maps_folder
        self._prefix = prefix
        self._value_size = value_size
        self._kind = kind
        self.outer = pins.open_map(outer, INDEX.size, 4)
        self.slots = {int(path.name.removeprefix(prefix)) for path in self._folder.glob(f"{prefix}*")}

    def ensure(self, slot: int, entries: int) -> None:
        """Creates a table of that size in the slot. An existing one keeps its size and content."""
        if not 0 <= slot < MEMORIES_MAX:
            raise ValueError(f"invalid memory slot {slot}: must be less than {MEMORIES_MAX}")
        if slot in self.slots:
            return
        path = self.path(slot)
        kind, name = self._kind, self._prefix.strip("-")
        table = bpf.create_map(name, kind.type, kind.key_size, self._value_size, entries, kind.flags)
        try:
            path.unlink(missing_ok=True)
            bpf.pin(table.fd, path)
            self.outer.put(INDEX.pack(slot), table.fd.to_bytes(4, "little"))
        finally:
            table.close()
        self.slots.add(slot)

    def restore(self) -> None:
        """Puts every pinned table into its slot, as a kill may have come between the two steps of
        `ensure`."""
        for slot in self.slots:
            table = self.open(slot)
            self.outer.put(INDEX.pack(slot), table.fd.to_bytes(4, "little"))
            table.close()

    def drop(self, slot: int) -> None:
        self.outer.delete(INDEX.pack(slot))
        self.path(slot).unlink(missing_ok=True)
        self.slots.discard(slot)

    def open(self, slot: int) -> Map:
        return Map.pinned(self.path(slot), self._kind.key_size, self._value_size)

    def path(self, slot: int) -> Path:
        return self._folder / f"{self._prefix}{slot}"


class NetworkMemories:
    """The tables that networks' packets fill: flows, what was dropped, and which connections were opened."""

    def __init__(self, pins: Pins) -> None:
        self.flows = SlotTables(pins, MEMORIES, "memory-", FLOW.size)
        self.drops = SlotTables(pins, DROP_TABLES, "dropped-", DROPPED.size)
        self.openings = SlotTables(pins, OPENING_RINGS, "openings-", OPENING.size, RING)
        self.opening_counts = pins.open_map(OPENING_COUNTS, INDEX.size, 8)

    @property
    def slots(self) -> set[int]:
        return self.flows.slots | self.drops.slots | self.openings.slots

    def ensure(self, slot: int, entries: int) -> None:
        """Creates the tables of a slot, with that many flows. Existing ones keep their size and content."""
        self.drops.ensure(slot, DROPPED_ENTRIES)
        if slot not in self.openings.slots:
            self.opening_counts.put(INDEX.pack(slot), bytes(8))
        self.openings.ensure(slot, OPENINGS_MAX)
        self.flows.ensure(slot, entries)

    def restore(self) -> None:
        self.flows.restore()
        self.drops.restore()
        self.openings.restore()

    def drop(self, slot: int) -> None:
        self.flows.drop(slot)
        self.drops.drop(slot)
        self.openings.drop(slot)

    def open(self, slot: int) -> Map:
        """The flows of a slot."""
        return self.flows.open(slot)

    def open_ring(self, slot: int) -> OpeningRing:
        """The connections that the network of a slot opens. Raises KernelRefused, OSError."""
        with closing(self.openings.open(slot)) as ring:
            return OpeningRing(ring, self.opening_counts, slot, self.ring_pin(slot))

    def ring_pin(self, slot: int) -> int:
        """Identifies the ring of a slot: another network's, later, has another."""
        return self.openings.path(slot).stat().st_ino

    def close(self) -> None:
        self.flows.outer.close()
        self.drops.outer.close()
        self.openings.outer.close()
        self.opening_counts.close()


class _ObjectInfo(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint32), ("id", ctypes.c_uint32), ("rest", ctypes.c_char * 248))


def object_id(descriptor: int) -> int:
    """The kernel's id of a program or map. Raises KernelRefused."""
    info = _ObjectInfo()
    size = ctypes.c_uint32(ctypes.sizeof(info))
    library = bpf.library()
    if library.bpf_obj_get_info_by_fd(descriptor, ctypes.byref(info), ctypes.byref(size)) < 0:
        raise KernelRefused("get the id of a BPF object", ctypes.get_errno())
    return int(info.id)


def _remove_directory(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
