"""What a proxied request means: the pod and port behind `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`. Pure.

The refusals are Kubernetes', word for word where it has words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import BadRequest, NotFound, ServiceUnavailable
from alcove.api.ids import GroupResource
from alcove.api.objects import Object

SERVICES = GroupResource("", "services")
ENDPOINTS = GroupResource("", "endpoints")

_SCHEMES = {"": "http", "http": "http", "https": "https"}
_USUAL_PORTS = {"http": 80, "https": 443}
_PATH = re.compile(
    r"(?P<prefix>(?:/tenants/[^/]+)?/api/v1(?:/tenants/[^/]+)?"
    r"(?:/namespaces/[^/]+/(?:pods|services)|/nodes)/[^/]+/proxy)(?P<rest>(?:/.*)?)",
    re.DOTALL,
)


class ProxyName(Struct, frozen=True):
    scheme: str
    name: str
    port: str
    """A number, a name, or nothing."""


class ProxyPath(Struct, frozen=True):
    """A request's path as it was sent, nothing unquoted."""

    prefix: str
    """Up to `proxy`, without a slash at its end."""
    rest: str
    """What the backend is asked for: empty, or beginning with a slash."""


def path_of(raw: str) -> ProxyPath | None:
    """None: it is no proxied request's."""
    found = _PATH.fullmatch(raw)
    return ProxyPath(found["prefix"], found["rest"]) if found else None


def split(text: str, what: str) -> ProxyName:
    """`what` is a pod, service or node. Raises BadRequest."""
    parts = text.split(":")
    match parts:
        case [name]:
            scheme, port = "", ""
        case [name, port]:
            scheme = ""
        case [scheme, name, port]:
            pass
        case _:
            scheme, name, port = "-", "", ""
    if not name or scheme not in _SCHEMES:
        raise BadRequest(f'invalid {what} request "{text}"')
    return ProxyName(_SCHEMES[scheme], name, port)


def port_of(text: str) -> int:
    """Raises ServiceUnavailable."""
    if not text.isascii() or not text.isdigit():
        raise unreached(f"dial tcp: lookup tcp/{text}: unknown port")
    if not 0 < int(text) <= 0xFFFF:
        raise unreached(f"dial tcp: address {text}: invalid port")
    return int(text)


def pod_port(pod: Object, asked: ProxyName) -> int:
    """The port that is asked for, by number or name, or else the first that the pod declares."""
    declared = [
        port
        for container in objects.get(pod, "spec", "containers", default=())
        for port in container.get("ports") or ()
    ]
    if not asked.port:
        return int(declared[0]["containerPort"]) if declared else _USUAL_PORTS[asked.scheme]
    for port in declared:
        if port.get("name") == asked.port:
            return int(port["containerPort"])
    return port_of(asked.port)


class ProxyBackend(Struct, frozen=True):
    pod: Object
    port: int


def backend_of(
    asked: ProxyName,
    service: Object | None,
    endpoints: Object | None,
    pod_named: Callable[[str, str], Object | None],
) -> ProxyBackend:
    """A ready pod behind the service, any of them. `pod_named(name, uid)` is a pod of the service's namespace.

    Raises NotFound, ServiceUnavailable.
    """
    port_name = _port_name(asked, service)
    if endpoints is None:
        raise NotFound.of(ENDPOINTS if service is not None else SERVICES, asked.name)
    for address, port in _shuffled(endpoints, port_name):
        # Only pods are gone to: an address alone could be anybody's.
        ref = address.get("targetRef") or {}
        own = endpoints["metadata"].get("namespace")
        if ref.get("kind") != "Pod" or ref.get("namespace", own) != own:
            continue
        pod = pod_named(str(ref.get("name", "")), str(ref.get("uid", "")))
        if pod is not None and _has_address(pod, address.get("ip")):
            return ProxyBackend(pod, port)
    raise ServiceUnavailable(f'no endpoints available for service "{asked.name}"')


def _port_name(asked: ProxyName, service: Object | None) -> str:
    """Endpoints know ports by the service's names for them."""
    if not asked.port.isascii() or not asked.port.isdigit():
        return asked.port
    if service is None:
        raise NotFound.of(SERVICES, asked.name)
    for port in objects.get(service, "spec", "ports", default=()):
        if port.get("port") == int(asked.port):
            return str(port.get("name", ""))
    raise ServiceUnavailable(f'no service port {int(asked.port)} found for service "{asked.name}"')


def _shuffled(endpoints: Object, port_name: str) -> Iterator[tuple[Object, int]]:
    found = [
        (address, int(port["port"]))
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if port.get("name", "") == port_name
        for address in subset.get("addresses") or ()
    ]
    random.shuffle(found)
    return iter(found)


def _has_address(pod: Object, ip: object) -> bool:
    status = pod.get("status") or {}
    return ip in (status.get("podIP"), *(each.get("ip") for each in status.get("podIPs") or ()))


def unreached(why: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"error trying to reach service: {why}")
