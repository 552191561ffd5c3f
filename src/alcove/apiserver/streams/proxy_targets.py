"""The pod and port that a proxied request selects by `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`. Pure: no I/O.

The error messages are those of Kubernetes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import BadRequest, NotFound, ServiceUnavailable
from alcove.api.objects import Object
from alcove.api.resources import ENDPOINTS, SERVICES

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
    """A number, a name, or empty."""


class ProxyPath(Struct, frozen=True):
    """A request's path as it was sent, without percent-decoding."""

    prefix: str
    """Up to `proxy`, without a trailing slash."""
    rest: str
    """The path of the request to the backend: empty, or with a leading slash."""


def path_of(raw: str) -> ProxyPath | None:
    """None if it is not the path of a proxied request."""
    match = _PATH.fullmatch(raw)
    return ProxyPath(match["prefix"], match["rest"]) if match else None


def split(text: str, kind: str) -> ProxyName:
    """`kind` is pod, service or node. Raises BadRequest."""
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
        raise BadRequest(f'invalid {kind} request "{text}"')
    return ProxyName(_SCHEMES[scheme], name, port)


def port_of(text: str) -> int:
    """Raises ServiceUnavailable."""
    if not text.isascii() or not text.isdigit():
        raise unreached(f"dial tcp: lookup tcp/{text}: unknown port")
    if not 0 < int(text) <= 0xFFFF:
        raise unreached(f"dial tcp: address {text}: invalid port")
    return int(text)


def pod_port(pod: Object, proxy_name: ProxyName) -> int:
    """The requested port, by number or name; without one, the first that the pod declares."""
    declared = [
        port
        for container in objects.get(pod, "spec", "containers", default=())
        for port in container.get("ports") or ()
    ]
    if not proxy_name.port:
        return int(declared[0]["containerPort"]) if declared else _USUAL_PORTS[proxy_name.scheme]
    for port in declared:
        if port.get("name") == proxy_name.port:
            return int(port["containerPort"])
    return port_of(proxy_name.port)


class ProxyBackend(Struct, frozen=True):
    pod: Object
    port: int


def backend_of(
    proxy_name: ProxyName,
    service: Object | None,
    endpoints: Object | None,
    pod_named: Callable[[str, str], Object | None],
) -> ProxyBackend:
    """A ready pod behind the service, any of them. `pod_named(name, uid)` is a pod of the service's
    namespace.

    Raises NotFound, ServiceUnavailable.
    """
    port_name = _port_name(proxy_name, service)
    if endpoints is None:
        raise NotFound.of(ENDPOINTS if service is not None else SERVICES, proxy_name.name)
    for address, port in _shuffled(endpoints, port_name):
        # Only pods are backends: an address alone could belong to anything.
        ref = address.get("targetRef") or {}
        namespace = endpoints["metadata"].get("namespace")
        if ref.get("kind") != "Pod" or ref.get("namespace", namespace) != namespace:
            continue
        pod = pod_named(str(ref.get("name", "")), str(ref.get("uid", "")))
        if pod is not None and _has_address(pod, address.get("ip")):
            return ProxyBackend(pod, port)
    raise ServiceUnavailable(f'no endpoints available for service "{proxy_name.name}"')


def _port_name(proxy_name: ProxyName, service: Object | None) -> str:
    """The service's name of the port: Endpoints list ports by name."""
    if not proxy_name.port.isascii() or not proxy_name.port.isdigit():
        return proxy_name.port
    if service is None:
        raise NotFound.of(SERVICES, proxy_name.name)
    for port in objects.get(service, "spec", "ports", default=()):
        if port.get("port") == int(proxy_name.port):
            return str(port.get("name", ""))
    raise ServiceUnavailable(f'no service port {int(proxy_name.port)} found for service "{proxy_name.name}"')


def _shuffled(endpoints: Object, port_name: str) -> Iterator[tuple[Object, int]]:
    addresses = [
        (address, int(port["port"]))
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if port.get("name", "") == port_name
        for address in subset.get("addresses") or ()
    ]
    random.shuffle(addresses)
    return iter(addresses)


def _has_address(pod: Object, ip: object) -> bool:
    status = pod.get("status") or {}
    return ip in (status.get("podIP"), *(each.get("ip") for each in status.get("podIPs") or ()))


def unreached(message: str) -> ServiceUnavailable:
    return ServiceUnavailable(f"error trying to reach service: {message}")
