"""The ranges of a network's service addresses: those in its spec, or a default that does not overlap its
pods'."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.objects import Object
from alcove.api.service_ips import SERVICE_RANGES_MAX, default_range
from alcove.vpc import ranges
from alcove.vpc.errors import RequestRefused


def service_ranges(network: Object, pod_ranges: Iterable[Network]) -> list[Network]:
    """`pod_ranges` are the ranges of its pods' addresses. Raises RequestRefused."""
    occupied = tuple(pod_ranges)
    configured = objects.get(network, "spec", "service", "cidrs", default=[])
    if len(configured) > SERVICE_RANGES_MAX:  # Of a plane whose API server checks nothing.
        raise RequestRefused(f"spec.service.cidrs must have at most {SERVICE_RANGES_MAX} items")
    if configured:
        chosen = [ipaddress.ip_network(cidr) for cidr in configured]
        for cidr in chosen:
            _check(cidr, occupied)
        return chosen
    default = default_range(occupied)
    if default is not None:
        return [default]
    raise RequestRefused(f"all default service ranges overlap {occupied[0]}: set spec.service.cidrs")


def usable_service_ranges(network: Object, pod_ranges: Iterable[Network]) -> tuple[Network, ...]:
    """The same for readers of the network: empty if the network is refused."""
    try:
        return tuple(service_ranges(network, pod_ranges))
    except RequestRefused:
        return ()


def _check(cidr: Network, pod_ranges: tuple[Network, ...]) -> None:
    for other in pod_ranges:
        if ranges.overlaps(cidr, other):
            raise RequestRefused(f"service range {cidr} overlaps the network's own range {other}")
        if cidr.version != other.version:
            raise RequestRefused(
                f"service range {cidr} is IPv{cidr.version}, but the network ({other}) is IPv{other.version}"
            )
