"""Loads the programs and pins them, so that they and their maps outlive the agent.

An instance (one a node) has a folder in the BPF file system:

    maps-LAYOUT/NAME          the maps, shared by every version of the programs that has this layout
    maps-LAYOUT/memory-SLOT   each network's memory
    programs/VERSION/NAME

VERSION is made of the object's content and the constants it was loaded with: the same version is taken
up again without asking the verifier, another one is loaded beside it and takes over link by link. One with
another layout of the maps begins with empty ones: what networks remembered is lost then, their ports are not.
"""

import ctypes
import hashlib
import os
import shutil
from pathlib import Path

from msgspec import Struct

from alcove.dataplane import bpf
from alcove.dataplane.bpf import ArrayMap, Map
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.maps import FLOW, INDEX, MEMORIES, MEMORIES_MAX, SHAPES, TUPLE, MapName, layout_version
from alcove.dataplane.namespaces import mount_bpf

PROGRAMS = ("from_pod", "from_underlay", "from_vxlan", "from_exit")
MAP_LRU_HASH = 9


class Programs(Struct, frozen=True):
    version: str
    descriptors: dict[str, int]
    ids: dict[str, int]
    """As the kernel numbers them: what `links.read_attached` returns."""


def pins_folder(root: Path, instance: str) -> Path:
    return root / f"alcove-{instance}"


def remove_pins(root: Path, instance: str) -> None:
    """Idempotent."""
    _remove_folder(pins_folder(root, instance))


class Pins:
    """The instance's folder, and what is pinned in it."""

    def __init__(self, root: Path, instance: str) -> None:
        mount_bpf(root)
        self.root = root
        self.folder = pins_folder(root, instance)
        self.maps_folder = self.folder / f"maps-{layout_version()}"
        self.programs_folder = self.folder / "programs"
        for folder in (self.folder, self.maps_folder, self.programs_folder):
            folder.mkdir(exist_ok=True)

    def programs(self, path: Path, constants: bytes) -> Programs:
        """The programs of the object at `path`, pinned before or loaded and pinned now."""
        digest = hashlib.blake2b(constants + path.name.encode() + layout_version().encode(), digest_size=8)
        version = digest.hexdigest()
        folder = self.programs_folder / version
        if not all((folder / name).exists() for name in PROGRAMS):
            self._load(path, constants, folder)
        descriptors = {name: bpf.open_pinned(folder / name) for name in PROGRAMS}
        ids = {name: program_id(descriptor) for name, descriptor in descriptors.items()}
        return Programs(version, descriptors, ids)

    def _load(self, path: Path, constants: bytes, folder: Path) -> None:
        loaded = bpf.load(path, self.maps_folder, constants, PROGRAMS)
        try:
            folder.mkdir(exist_ok=True)
            for name, descriptor in loaded.items():
                # A kill may have left some of them; they are of the same version.
                (folder / name).unlink(missing_ok=True)
                bpf.pin(descriptor, folder / name)
        finally:
            for descriptor in loaded.values():
                os.close(descriptor)

    def forget_other_versions(self, version: str) -> None:
        for folder in self.programs_folder.iterdir():
            if folder.name != version:
                _remove_folder(folder)
        for folder in self.folder.glob("maps-*"):
            if folder != self.maps_folder:
                _remove_folder(folder)

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
        """Everything of the instance. Idempotent."""
        _remove_folder(self.folder)


class NetworkMemories:
    """The networks' memories: one bounded table for each, in the slot the network's entries name."""

    def __init__(self, pins: Pins) -> None:
        self.pins = pins
        self.outer = pins.open_map(MEMORIES, INDEX.size, 4)
        self.slots = {int(path.name.removeprefix("memory-")) for path in pins.maps_folder.glob("memory-*")}

    def ensure(self, slot: int, entries: int) -> None:
        """A memory of that slot, of that size if it has to be made. One that is there keeps its content."""
        if not 0 <= slot < MEMORIES_MAX:
            raise ValueError(f"memory slot {slot} is not below {MEMORIES_MAX}")
        if slot in self.slots:
            return
        path = self.path(slot)
        made = bpf.create_map("memory", MAP_LRU_HASH, TUPLE.size, FLOW.size, entries)
        try:
            path.unlink(missing_ok=True)
            bpf.pin(made.fd, path)
            self.outer.put(INDEX.pack(slot), made.fd.to_bytes(4, "little"))
        finally:
            made.close()
        self.slots.add(slot)

    def restore(self) -> None:
        """Puts every pinned memory in its slot: a kill may have come between pinning and placing."""
        for slot in self.slots:
            memory = self.open(slot)
            self.outer.put(INDEX.pack(slot), memory.fd.to_bytes(4, "little"))
            memory.close()

    def drop(self, slot: int) -> None:
        self.outer.delete(INDEX.pack(slot))
        self.path(slot).unlink(missing_ok=True)
        self.slots.discard(slot)

    def open(self, slot: int) -> Map:
        return Map.pinned(self.path(slot), TUPLE.size, FLOW.size)

    def path(self, slot: int) -> Path:
        return self.pins.maps_folder / f"memory-{slot}"


class _ProgramInfo(ctypes.Structure):
    _fields_ = (("type", ctypes.c_uint32), ("id", ctypes.c_uint32), ("rest", ctypes.c_char * 248))


def program_id(descriptor: int) -> int:
    info = _ProgramInfo()
    size = ctypes.c_uint32(ctypes.sizeof(info))
    library = bpf.library()
    if library.bpf_obj_get_info_by_fd(descriptor, ctypes.byref(info), ctypes.byref(size)) < 0:
        raise KernelRefused("ask about a program", ctypes.get_errno())
    return int(info.id)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
