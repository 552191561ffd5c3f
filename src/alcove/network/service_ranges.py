"""Which addresses a network's services get: those it names, or a range that its own addresses are not in."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.objects import Object
from alcove.vpc import ranges
from alcove.vpc.errors import RequestRefused

SERVICE_RANGES: tuple[Network, ...] = (
    ipaddress.ip_network("10.96.0.0/16"),
    ipaddress.ip_network("172.31.0.0/16"),
    ipaddress.ip_network("192.168.0.0/16"),
)
"""The first that does not overlap the network's own range is taken. Every network may have the same."""
SERVICE_RANGES6: tuple[Network, ...] = (
    ipaddress.ip_network("fd96::/108"),
    ipaddress.ip_network("fdac::/108"),
)


def service_ranges(network: Object, own: Iterable[Network]) -> list[Network]:
    """`own` are the ranges of its pods' addresses. Raises Refused."""
    ours = tuple(own)
    given = objects.get(network, "spec", "service", "cidrs", default=[])
    if given:
        chosen = [ipaddress.ip_network(cidr) for cidr in given]
        for cidr in chosen:
            _check(cidr, ours)
        return chosen
    wanted = SERVICE_RANGES6 if ours and ours[0].version == 6 else SERVICE_RANGES
    for cidr in wanted:
        if not any(ranges.overlaps(cidr, other) for other in ours):
            return [cidr]
    raise RequestRefused(f"no default range for services is beside {ours[0]}: name one in spec.service.cidrs")


def usable_service_ranges(network: Object, own: Iterable[Network]) -> tuple[Network, ...]:
    """The same for who only reads the network: none where it is refused."""
    try:
        return tuple(service_ranges(network, own))
    except RequestRefused:
        return ()


def _check(cidr: Network, own: tuple[Network, ...]) -> None:
    for other in own:
        if ranges.overlaps(cidr, other):
            raise RequestRefused(f"service range {cidr} overlaps the network's own range {other}")
        if cidr.version != other.version:
            raise RequestRefused(
                f"service range {cidr} is IPv{cidr.version}, but the network ({other}) is IPv{other.version}"
            )
