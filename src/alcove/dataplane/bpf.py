"""BPF maps, objects and programs through libbpf.so.1. Every function wraps one call of the kernel or the
library and raises its failure as an exception."""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from msgspec import Struct

from alcove.dataplane.errors import KernelRefused, MapFull, ProgramRejected, Unsupported

READ_BATCH = 4096
PRINT = CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)


class OpenOptions(ctypes.Structure):
    """The first fields of libbpf's bpf_object_open_opts; `sz` is the size of this part."""

    _fields_ = (
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", c_char_p),
    )


_POINTERS = (
    "bpf_object__open_file",
    "bpf_object__find_map_by_name",
    "bpf_object__find_program_by_name",
)
_log: list[str] = []
_INFORMATION = 1
_SKB_BYTES, _SKB_MARK, _SKB_IFINDEX = 192, 8, 40
"""The size of the kernel's __sk_buff, and the offset of its link in it."""
_libc = ctypes.CDLL(None)


@cache
def library() -> ctypes.CDLL:
    try:
        lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise Unsupported(f"libbpf is not installed: {error}") from error
    for name in _POINTERS:
        getattr(lib, name).restype = c_void_p
    lib.bpf_map_lookup_batch.argtypes = [
        c_int,
        c_void_p,
        c_void_p,
        c_char_p,
        c_char_p,
        POINTER(c_uint32),
        c_void_p,
    ]
    lib.libbpf_set_print(_printer)
    return lib


def _collect(level: int, form: bytes, values: int) -> int:
    """Collects libbpf's output, above all the verifier's log, for the exception that follows."""
    if level > _INFORMATION:
        return 0
    buffer = ctypes.create_string_buffer(1 << 20)
    _libc.vsnprintf(buffer, c_size_t(len(buffer)), form, c_void_p(values))
    _log.append(buffer.value.decode(errors="replace").rstrip())
    del _log[:-50]
    return 0


_printer = PRINT(_collect)


def _checked(result: int, description: str) -> int:
    if result < 0:
        raise KernelRefused(description, ctypes.get_errno() or -result)
    return result


class Map:
    """A BPF map, by its file descriptor."""

    def __init__(self, name: str, fd: int, key_size: int, value_size: int) -> None:
        self.name = name
        self.fd = fd
        self.key_size = key_size
        self.value_size = value_size

    @classmethod
    def pinned(cls, path: Path, key_size: int, value_size: int) -> "Map":
        fd = _checked(library().bpf_obj_get(os.fsencode(path)), f"open {path.name}")
        return cls(path.name, fd, key_size, value_size)

    def get(self, key: bytes) -> bytes | None:
        value = ctypes.create_string_buffer(self.value_size)
        if library().bpf_map_lookup_elem(self.fd, key, value) < 0:
            if ctypes.get_errno() == errno.ENOENT:
                return None
            raise KernelRefused(f"read {self.name}", ctypes.get_errno())
        return value.raw

    def put(self, key: bytes, value: bytes) -> None:
        if library().bpf_map_update_elem(self.fd, key, value, c_uint64(0)) < 0:
            raise self._write_error(ctypes.get_errno())

    def delete(self, key: bytes) -> bool:
        """False if there was no such entry."""
        if library().bpf_map_delete_elem(self.fd, key) < 0:
            if ctypes.get_errno() == errno.ENOENT:
                return False
            raise KernelRefused(f"delete from {self.name}", ctypes.get_errno())
        return True

    def put_all(self, entries: Mapping[bytes, bytes]) -> None:
        """Writes all entries in one call. After a failure, some of them may be written. Raises KernelRefused,
        MapFull."""
        count = c_uint32(len(entries))
        if not entries:
            return
        keys, values = b"".join(entries), b"".join(entries.values())
        if library().bpf_map_update_batch(self.fd, keys, values, byref(count), None) < 0:
            raise self._write_error(ctypes.get_errno())

    def delete_all(self, keys: Sequence[bytes]) -> None:
        """Ignores missing entries: the kernel stops the batch at each one, so the rest is sent again."""
        remaining = list(keys)
        while remaining:
            count = c_uint32(len(remaining))
            if library().bpf_map_delete_batch(self.fd, b"".join(remaining), byref(count), None) >= 0:
                return
            if ctypes.get_errno() != errno.ENOENT:
                raise KernelRefused(f"delete from {self.name}", ctypes.get_errno())
            remaining = remaining[count.value + 1 :]

    def items(self) -> dict[bytes, bytes]:
        """All entries of the map; concurrent changes may or may not be included."""
        entries: dict[bytes, bytes] = {}
        for keys, values, count in self._batches():
            for i in range(count):
                key = keys[i * self.key_size : (i + 1) * self.key_size]
                entries[key] = values[i * self.value_size : (i + 1) * self.value_size]
        return entries

    def capacity(self) -> int:
        """How many entries fit."""
        for line in Path(f"/proc/self/fdinfo/{self.fd}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "max_entries":
                return int(value)
        raise KernelRefused(f"read the size of {self.name}", errno.ENODATA)

    def _batches(self) -> Iterator[tuple[bytes, bytes, int]]:
        keys = ctypes.create_string_buffer(READ_BATCH * self.key_size)
        values = ctypes.create_string_buffer(READ_BATCH * self.value_size)
        position = ctypes.create_string_buffer(64)
        start: ctypes.Array[ctypes.c_char] | None = None
        while True:
            count = c_uint32(READ_BATCH)
            result = library().bpf_map_lookup_batch(
                self.fd, start, position, keys, values, byref(count), None
            )
            is_end = result < 0 and ctypes.get_errno() == errno.ENOENT
            if result < 0 and not is_end:
                raise KernelRefused(f"read {self.name}", ctypes.get_errno())
            yield keys.raw, values.raw, count.value
            if is_end:
                return
            start = position

    def _write_error(self, number: int) -> KernelRefused:
        if number in (errno.E2BIG, errno.ENOSPC):
            return MapFull(self.name, number)
        return KernelRefused(f"write {self.name}", number)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class ArrayMap(Map):
    """An array map with the interface of a hash map: elements that are all zeros count as missing."""

    def items(self) -> dict[bytes, bytes]:
        empty = bytes(self.value_size)
        return {key: value for key, value in super().items().items() if value != empty}

    def delete_all(self, keys: Sequence[bytes]) -> None:
        self.put_all(dict.fromkeys(keys, bytes(self.value_size)))

    def delete(self, key: bytes) -> bool:
        existed = self.get(key) != bytes(self.value_size)
        self.put(key, bytes(self.value_size))
        return existed


class MapOptions(ctypes.Structure):
    """The first fields of libbpf's bpf_map_create_opts; `sz` is the size of this part."""

    _fields_ = (
        ("sz", c_size_t),
        ("btf_fd", c_uint32),
        ("btf_key_type_id", c_uint32),
        ("btf_value_type_id", c_uint32),
        ("btf_vmlinux_value_type_id", c_uint32),
        ("inner_map_fd", c_uint32),
        ("map_flags", c_uint32),
    )


def create_map(name: str, kind: int, key_size: int, value_size: int, entries: int, flags: int = 0) -> Map:
    options = MapOptions(sz=ctypes.sizeof(MapOptions), map_flags=flags)
    fd = library().bpf_map_create(kind, name.encode()[:15], key_size, value_size, entries, byref(options))
    return Map(name, _checked(fd, f"create map {name}"), key_size, value_size)


def pin(fd: int, path: Path) -> None:
    _checked(library().bpf_obj_pin(fd, os.fsencode(path)), f"pin {path.name}")


def open_pinned(path: Path) -> int:
    return _checked(library().bpf_obj_get(os.fsencode(path)), f"open {path.name}")


def load(path: Path, pins: Path, constants: bytes, programs: Sequence[str]) -> dict[str, int]:
    """Loads the object's programs with the maps pinned in `pins`, which are created if missing.

    `constants` becomes the content of `.rodata`. The caller closes the returned descriptors. Raises
    ProgramRejected.
    """
    lib = library()
    _log.clear()
    options = OpenOptions(sz=ctypes.sizeof(OpenOptions), pin_root_path=os.fsencode(pins))
    opened = lib.bpf_object__open_file(os.fsencode(path), byref(options))
    if not opened:
        raise ProgramRejected(f"{path.name} is not a valid BPF object:\n" + "\n".join(_log))
    try:
        handle = c_void_p(opened)
        rodata = c_void_p(lib.bpf_object__find_map_by_name(handle, b".rodata"))
        _checked(lib.bpf_map__set_initial_value(rodata, constants, c_size_t(len(constants))), "set .rodata")
        if lib.bpf_object__load(handle) < 0:
            raise ProgramRejected("programs rejected by the kernel:\n" + "\n".join(_log)[-4000:])
        return {name: _program(handle, name) for name in programs}
    finally:
        lib.bpf_object__close(c_void_p(opened))


class TestRunOptions(ctypes.Structure):
    """The first fields of libbpf's bpf_test_run_opts; `sz` is the size of this part."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
    )


class TestRun(Struct, frozen=True):
    result: int
    """What the program returned."""
    duration_ns: int
    """The average of all runs."""
    frame: bytes
    """As the program has left it."""


def test_run(program: int, frame: bytes, ifindex: int, repeat: int = 1) -> TestRun:
    """Runs a TC program on a frame as if the link had received it; nothing is sent, and meters do not count it (see
    bpf/lib/meter.h). Must be called in the link's namespace. Raises KernelRefused."""
    data, room = ctypes.create_string_buffer(frame, len(frame)), ctypes.create_string_buffer(len(frame) + 256)
    context = ctypes.create_string_buffer(_SKB_BYTES)
    struct.pack_into("=I", context, _SKB_IFINDEX, ifindex)
    struct.pack_into("=I", context, _SKB_MARK, 1)
    options = TestRunOptions(
        sz=ctypes.sizeof(TestRunOptions),
        data_in=ctypes.addressof(data),
        data_size_in=len(frame),
        data_out=ctypes.addressof(room),
        data_size_out=len(room),
        ctx_in=ctypes.addressof(context),
        ctx_size_in=_SKB_BYTES,
        repeat=repeat,
    )
    _checked(library().bpf_prog_test_run_opts(program, byref(options)), "run a program on a packet")
    return TestRun(options.retval, options.duration, room.raw[: options.data_size_out])


def _program(handle: c_void_p, name: str) -> int:
    lib = library()
    program = lib.bpf_object__find_program_by_name(handle, name.encode())
    if not program:
        raise ProgramRejected(f"program {name} not found in the BPF object")
    return os.dup(lib.bpf_program__fd(c_void_p(program)))
