"""Conflicting ports of a pod's containers."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from alcove.api.objects import Object

WARNINGS_MAX = 100
COMPARED_MAX = 100
"""Other ports of the same number with which a port is compared."""

Located = tuple[str, Object]
"""The path of a port, and the port."""


def warnings(containers: Iterable[tuple[str, Object]]) -> list[str]:
    """Return the warnings for `containers`, given with their paths."""
    ports = [
        (f"{path}.ports[{index}]", port)
        for path, container in containers
        for index, port in enumerate(container.get("ports") or ())
    ]
    if len(ports) < 2 and not any("hostIP" in port for _, port in ports):
        return []
    return list(islice(chain(_overlaps(ports), _names(ports)), WARNINGS_MAX))


def _overlaps(ports: Iterable[Located]) -> Iterator[str]:
    ports_by_number: dict[tuple[int, str], list[Located]] = {}
    for path, port in ports:
        if port.get("hostIP") and not port.get("hostPort"):
            yield f"{path}: hostIP set without hostPort: {_shown(port)}"
        others = ports_by_number.setdefault((port.get("containerPort", 0), port.get("protocol", "TCP")), [])
        for where, other in others[:COMPARED_MAX]:
            relation = _relation(port, other)
            if relation:
                yield f"{path}: {relation} port definition with {where}"
        others.append((path, port))


def _relation(port: Object, other: Object) -> str:
    """Return how two definitions of one port conflict; empty if they do not."""
    host_ports = port.get("hostPort", 0), other.get("hostPort", 0)
    host_ips = port.get("hostIP", ""), other.get("hostIP", "")
    if host_ports[0] == host_ports[1] and host_ips[0] == host_ips[1]:
        return "duplicate"
    if not all(host_ports):
        return "overlapping"
    if host_ports[0] == host_ports[1] and any(host_ips) and not all(host_ips):
        return "dangerously ambiguous"
    return ""


def _shown(port: Object) -> str:
    """Format the port as Go prints the struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', 'TCP')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )


def _names(ports: Iterable[Located]) -> Iterator[str]:
    first: dict[str, str] = {}
    for path, port in ports:
        name = port.get("name")
        if name and first.setdefault(name, path) != path:
            other = first[name]
            yield (
                f'{path}: duplicate port name "{name}" with {other}, services and probes that select ports by '
                f"name will use {other}"
            )
