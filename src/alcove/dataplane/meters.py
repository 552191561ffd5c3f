"""Meters of networks: bytes by kind, counted by the programs (see bpf/lib/meter.h) and read here.

A network's counters begin at zero when it comes to the node, grow as long as it is there, whatever happens to the agent,
and are read once more when it leaves.
"""

from msgspec import Struct

from alcove.dataplane.drops import cpus, per_cpu
from alcove.dataplane.loader import NetworkMemories, Pins, object_id
from alcove.dataplane.maps import INDEX, METER, METERS


class TrafficBytes(Struct, frozen=True):
    """In the order of the C struct."""

    network_out: int = 0
    network_in: int = 0
    world_out: int = 0
    world_in: int = 0
    node_port_out: int = 0
    node_port_in: int = 0
    balancer_out: int = 0
    balancer_in: int = 0


class NetworkMeter(Struct, frozen=True):
    vni: int
    table: int
    """The kernel's id of the network's table of connections. It is not used again: counters with another id have begun at
    zero."""
    bytes: TrafficBytes


class NetworkMeters:
    def __init__(self, pins: Pins) -> None:
        self._map = pins.open_map(METERS, INDEX.size, METER.size)
        self._networks: dict[int, tuple[int, int]] = {}
        """VNI and table of each slot in use."""
        self._ended: list[NetworkMeter] = []

    def begin(self, slot: int) -> None:
        """Zeroes the counters of a slot, before it gets its network."""
        self._map.put(INDEX.pack(slot), bytes(METER.size * cpus()))

    def name(self, slot: int, vni: int, memories: NetworkMemories) -> None:
        """The slot has this network."""
        if self._networks.get(slot, (0, 0))[0] != vni:
            table = memories.flows.open(slot)
            try:
                self._networks[slot] = vni, object_id(table.fd)
            finally:
                table.close()

    def end(self, slot: int) -> None:
        """Keeps the last reading of a slot whose network leaves the node."""
        if slot in self._networks:
            self._ended.append(self._read(slot))
            del self._networks[slot]

    def read(self) -> list[NetworkMeter]:
        """All networks on the node, and those that have left it since the last call."""
        ended, self._ended = self._ended, []
        return [*ended, *map(self._read, self._networks)]

    def _read(self, slot: int) -> NetworkMeter:
        vni, table = self._networks[slot]
        counts = [METER.codec.unpack(raw) for raw in per_cpu(self._map, slot)]
        return NetworkMeter(vni, table, TrafficBytes(*map(sum, zip(*counts, strict=True))))

    def close(self) -> None:
        self._map.close()
