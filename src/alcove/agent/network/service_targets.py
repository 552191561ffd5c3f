"""The endpoints of one service's EndpointSlices, read once for all its ports. Pure: no I/O.

Backends are the ready endpoints or, if none is ready, those that still serve while they terminate.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from ipaddress import ip_address

from alcove.api.objects import Object
from alcove.dataplane.address import Address
from alcove.dataplane.model import ServiceBackend

PortKey = tuple[str, str]
"""Name and protocol, by which ports of services and of slices belong together."""
_VERSIONS = {"IPv4": 4, "IPv6": 6}


def port_key(port: Object) -> PortKey:
    return port.get("name") or "", port.get("protocol") or "TCP"


def endpoints_by_port(slices: Iterable[Object]) -> Mapping[PortKey, Mapping[int, int]]:
    """How many backends a port has at most, by the version of their addresses. It takes no longer than reading the slices."""
    ready: defaultdict[PortKey, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    serving: defaultdict[PortKey, defaultdict[int, int]] = defaultdict(lambda: defaultdict(int))
    for each in slices:
        version = _VERSIONS.get(each.get("addressType") or "")
        if version is None:
            continue
        counts = [0, 0]
        for endpoint in each.get("endpoints") or ():
            count = len(endpoint.get("addresses") or ())
            is_ready, is_serving = _conditions(endpoint)
            counts[0] += count if is_ready else 0
            counts[1] += count if is_serving else 0
        for port in each.get("ports") or ():
            if port.get("port"):
                ready[port_key(port)][version] += counts[0]
                serving[port_key(port)][version] += counts[1]
    return {
        key: {version: count or serving[key][version] for version, count in by_version.items()}
        for key, by_version in ready.items()
    }


def _conditions(endpoint: Object) -> tuple[bool, bool]:
    """Whether it is ready, and whether it serves while it terminates."""
    conditions = endpoint.get("conditions") or {}
    is_ready = conditions.get("ready") is not False
    is_serving = conditions.get("serving", is_ready) is not False
    return is_ready, is_serving and bool(conditions.get("terminating"))


class _SliceEndpoints:
    """Addresses of one slice by version, in order."""

    def __init__(self, endpoints: Iterable[Object]) -> None:
        # By number: addresses are slow as keys and to compare.
        found: dict[int, dict[int, tuple[Address, bool, bool]]] = {4: {}, 6: {}}
        for endpoint in endpoints:
            is_ready, is_serving = _conditions(endpoint)
            for text in endpoint.get("addresses") or ():
                address = ip_address(text)
                found[address.version][int(address)] = (address, is_ready, is_serving)
        self.ready: dict[int, list[Address]] = {4: [], 6: []}
        self.serving: dict[int, list[Address]] = {4: [], 6: []}
        for version, by_number in found.items():
            for number in sorted(by_number):
                address, is_ready, is_serving = by_number[number]
                if is_ready:
                    self.ready[version].append(address)
                if is_serving:
                    self.serving[version].append(address)


class ServiceTargets:
    def __init__(self, slices: Iterable[Object]) -> None:
        self._by_port: dict[PortKey, list[tuple[_SliceEndpoints, int]]] = {}
        """Slices that have the port, with its number there."""
        for each in slices:
            if each.get("addressType") in _VERSIONS:
                endpoints = _SliceEndpoints(each.get("endpoints") or ())
                for port in each.get("ports") or ():
                    if port.get("port"):
                        self._by_port.setdefault(port_key(port), []).append((endpoints, port["port"]))

    def ready_addresses(self, keys: Collection[PortKey]) -> frozenset[Address]:
        """Of all these ports."""
        slices = {id(each): each for key in keys for each, _ in self._by_port.get(key, ())}
        return frozenset(
            address for each in slices.values() for ready in each.ready.values() for address in ready
        )

    def has_ready(self, key: PortKey, version: int, among: frozenset[Address]) -> bool:
        return any(
            not among.isdisjoint(endpoints.ready[version]) for endpoints, _ in self._by_port.get(key, ())
        )

    def chosen(
        self, key: PortKey, version: int, only: frozenset[Address] | None
    ) -> tuple[ServiceBackend, ...]:
        """The backends of a port, in order. `only` restricts them to those addresses; None for all."""
        found = self._by_port.get(key, ())
        return _backends([(each.ready[version], number) for each, number in found], only) or _backends(
            [(each.serving[version], number) for each, number in found], only
        )


def _backends(
    lists: list[tuple[list[Address], int]], only: frozenset[Address] | None
) -> tuple[ServiceBackend, ...]:
    backends = [
        ServiceBackend(address, number)
        for addresses, number in lists
        for address in addresses
        if only is None or address in only
    ]
    if len(lists) > 1:
        backends = sorted(set(backends), key=lambda each: (int(each.address), each.port))
    return tuple(backends)
