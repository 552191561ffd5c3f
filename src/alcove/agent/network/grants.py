"""What ring0 has given to a network's services: addresses in the network, ports of nodes, addresses outside.

Pure. What a service's own spec and status say is only held against it.
"""

from collections.abc import Iterable

from msgspec import Struct

from alcove.api.kinds.mizar import NODE_PORT, SCALED
from alcove.dataplane.address import Address
from alcove.network.endpoints import EndpointAllocation


class ServiceGrant(Struct, frozen=True):
    """One service's."""

    addresses: frozenset[Address] = frozenset()
    node_ports: frozenset[tuple[int, str]] = frozenset()
    """Numbers, each with `TCP`, `UDP` or `SCTP`."""
    outside: frozenset[Address] = frozenset()


NOTHING = ServiceGrant()


def granted(holdings: Iterable[EndpointAllocation]) -> ServiceGrant:
    """`holdings` are those of one service."""
    found = list(holdings)
    return ServiceGrant(
        frozenset(each.address for each in found if each.kind == SCALED and each.address is not None),
        frozenset(each.node_port for each in found if each.kind == NODE_PORT and each.node_port is not None),
        frozenset(
            each.address
            for each in found
            if each.kind == NODE_PORT and each.node_port is None and each.address is not None
        ),
    )
