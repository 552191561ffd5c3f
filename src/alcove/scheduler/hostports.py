"""Host ports in use: per port, the nodes and addresses it is taken on."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from alcove.scheduler.arrays import Bools

EVERY_ADDRESS = "0.0.0.0"


class HostPort(Struct, frozen=True):
    address: str
    protocol: str
    number: int


class HostPorts:
    def __init__(self) -> None:
        self._taken: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        """(protocol, port) → slot → address → how many pods have it."""

    def take(self, slot: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            nodes = self._taken.setdefault((port.protocol, port.number), {})
            nodes.setdefault(slot, Counter())[port.address] += 1

    def give_back(self, slot: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            key = (port.protocol, port.number)
            nodes = self._taken[key]
            addresses = nodes[slot]
            addresses[port.address] -= 1
            if addresses[port.address] == 0:
                del addresses[port.address]
            if not addresses:
                del nodes[slot]
            if not nodes:
                del self._taken[key]

    def is_free(self, slot: int, ports: Iterable[HostPort]) -> bool:
        return not any(
            _collide(port.address, self._taken.get((port.protocol, port.number), {}).get(slot))
            for port in ports
        )

    def free_everywhere(self, slots: int, ports: Iterable[HostPort]) -> Bools:
        """For each of so many slots, whether all the ports are free there."""
        free = np.ones(slots, dtype=np.bool_)
        for port in ports:
            for slot, addresses in self._taken.get((port.protocol, port.number), {}).items():
                if _collide(port.address, addresses):
                    free[slot] = False
        return free


def _collide(address: str, taken: Counter[str] | None) -> bool:
    """Every address collides with every other; else only the same one, or one taken everywhere."""
    if not taken:
        return False
    return address == EVERY_ADDRESS or address in taken or EVERY_ADDRESS in taken
