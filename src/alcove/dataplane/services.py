"""Compiles services to map entries. Pure: no I/O. See `bpf/lib/service.h` for the lookup."""

from collections.abc import Iterable

from msgspec import Struct

from alcove.api.weighed_cache import WeighedCache
from alcove.dataplane.address import Address, pack
from alcove.dataplane.maps import (
    BACKEND,
    BACKEND_KEY,
    MEMBER_KEY,
    SERVICE,
    SERVICE_DIRECT,
    SERVICE_KEY,
    WORD,
)
from alcove.dataplane.model import DataplaneService, ServiceBackend
from alcove.dataplane.policies import name_of

MEMBER = WORD.pack(1)
TICK_SECONDS = 2**30 / 1e9
KEPT_BACKENDS_MAX = 1 << 19
"""Backends in compiled sets that are kept for the next pass: more than fit into the map."""
_DIRECT = SERVICE.pack(0, 0, 0, SERVICE_DIRECT)
_BackendSet = tuple[int, tuple[bytes, ...]]
_kept_sets: WeighedCache[tuple[ServiceBackend, ...], _BackendSet] = WeighedCache(KEPT_BACKENDS_MAX)


class CompiledServices(Struct, frozen=True):
    services: dict[bytes, bytes]
    backends: dict[bytes, bytes]
    members: dict[bytes, bytes]
    answering: frozenset[tuple[int, Address]]
    """The (VNI, address) of all backends, whose packets may be replies of a service."""
    vnis: frozenset[int]


def ticks(seconds: float) -> int:
    """Seconds in ticks of the BPF programs' clock, at least 1 unless `seconds` is 0."""
    return max(1, round(seconds / TICK_SECONDS)) if seconds else 0


def _backend_set(vni: int, backends: tuple[ServiceBackend, ...]) -> _BackendSet:
    """The set's name, and its packed members in canonical order. It is kept for the network that had it first."""
    found = _kept_sets.get(backends)
    if found is None:
        packed = tuple(BACKEND.pack(pack(one.address), one.port.to_bytes(2, "big")) for one in sorted(
            set(backends), key=lambda one: (pack(one.address), one.port)))  # fmt: skip
        found = name_of(b"".join(packed)), packed
        _kept_sets.put(str(vni), backends, found, 1 + len(backends))
    return found


def compile_services(services: Iterable[DataplaneService]) -> CompiledServices:
    entries: dict[bytes, bytes] = {}
    direct: dict[bytes, bytes] = {}
    backends: dict[bytes, bytes] = {}
    members: dict[bytes, bytes] = {}
    answering: set[tuple[int, Address]] = set()
    vnis: set[int] = set()
    for service in services:
        name, packed = _backend_set(service.vni, service.backends)
        vnis.add(service.vni)
        key = SERVICE_KEY.pack(
            service.vni, pack(service.address), service.port.to_bytes(2, "big"), service.protocol
        )
        entries[key] = SERVICE.pack(name, len(packed), ticks(service.affinity_seconds), 0)
        for index, backend in enumerate(packed):
            backends[BACKEND_KEY.pack(name, index)] = backend
            members[MEMBER_KEY.pack(name, backend)] = MEMBER
            direct[SERVICE_KEY.pack(service.vni, backend[:16], backend[16:18], service.protocol)] = _DIRECT
        answering.update((service.vni, one.address) for one in service.backends)
    return CompiledServices(direct | entries, backends, members, frozenset(answering), frozenset(vnis))
