"""Host ports in use: the nodes and addresses of each port."""

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
        self._used: dict[tuple[str, int], dict[int, Counter[str]]] = {}
        """(protocol, port) → slot → address → number of pods."""

    def take(self, slot: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            nodes = self._used.setdefault((port.protocol, port.number), {})
            nodes.setdefault(slot, Counter())[port.address] += 1

    def give_back(self, slot: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            key = (port.protocol, port.number)
            nodes = self._used[key]
            addresses = nodes[slot]
            addresses[port.address] -= 1
            if addresses[port.address] == 0:
                del addresses[port.address]
            if not addresses:
                del nodes[slot]
            if not nodes:
                del self._used[key]

    def is_free(self, slot: int, ports: Iterable[HostPort]) -> bool:
        return not any(
            _collide(port.address, self._used.get((port.protocol, port.number), {}).get(slot))
            for port in ports
        )

    def free_everywhere(self, slots: int, ports: Iterable[HostPort]) -> Bools:
        """For each of `slots` slots, whether all the ports are free there."""
        free = np.ones(slots, dtype=np.bool_)
        for port in ports:
            for slot, addresses in self._used.get((port.protocol, port.number), {}).items():
                if _collide(port.address, addresses):
                    free[slot] = False
        return free


def _collide(address: str, used: Counter[str] | None) -> bool:
    """0.0.0.0 collides with every address; others only with themselves and 0.0.0.0."""
    if not used:
        return False
    return address == EVERY_ADDRESS or address in used or EVERY_ADDRESS in used
