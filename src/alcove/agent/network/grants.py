"""What ring0 has granted to a network's services: addresses in the network, node ports, external addresses.

Pure: no I/O. Addresses and ports in a service's spec and status are used only if they are granted.
"""

from collections.abc import Iterable

from msgspec import Struct

from alcove.api.kinds.mizar import NODE_PORT, SCALED
from alcove.dataplane.address import Address
from alcove.network.endpoints import EndpointAllocation


class ServiceGrant(Struct, frozen=True):
    """The grants of one service."""

    addresses: frozenset[Address] = frozenset()
    node_ports: frozenset[tuple[int, str]] = frozenset()
    """Numbers, each with `TCP`, `UDP` or `SCTP`."""
    outside: frozenset[Address] = frozenset()
    """External addresses."""


NOTHING = ServiceGrant()


def granted(allocations: Iterable[EndpointAllocation]) -> ServiceGrant:
    """`allocations` are those of one service."""
    found = list(allocations)
    return ServiceGrant(
        frozenset(each.address for each in found if each.kind == SCALED and each.address is not None),
        frozenset(each.node_port for each in found if each.kind == NODE_PORT and each.node_port is not None),
        frozenset(
            each.address
            for each in found
            if each.kind == NODE_PORT and each.node_port is None and each.address is not None
        ),
    )
