"""The addresses of Ingress backends: a service's cluster IP, or its pods if it is headless. Pure: no I/O."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from alcove.agent.ingress.routing_table import IngressTarget
from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.keys import TenantKey
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend

ADDRESSES_MAX = 256

ServiceId = tuple[str, str]


class TenantServices(Protocol):
    """A tenant's services; implemented by `agent.network.tenant_view.TenantNetworkView`."""

    @property
    def tenant_key(self) -> TenantKey: ...
    def service(self, service: ServiceId) -> Object | None: ...
    def slices_of(self, service: ServiceId) -> list[Object]: ...


def targets(
    services: TenantServices, ingresses: Iterable[DesiredIngress]
) -> dict[tuple[str, str, IngressBackend], IngressTarget]:
    """The targets by network, namespace and backend."""
    by_backend: dict[tuple[str, str, IngressBackend], IngressTarget] = {}
    read: dict[ServiceId, _Service] = {}
    for ingress in ingresses:
        for backend in (*(rule.backend for rule in ingress.rules), ingress.fallback):
            if backend is None or (ingress.network, ingress.namespace, backend) in by_backend:
                continue
            service_id = (ingress.namespace, backend.service)
            if service_id not in read:
                read[service_id] = _Service(services.service(service_id), services.slices_of(service_id))
            service = read[service_id]
            addresses: tuple[tuple[str, int], ...] = ()
            # An Ingress can only reach services of its own network.
            if service.network == ingress.network:
                addresses = tuple(islice(service.addresses(backend.port), ADDRESSES_MAX))
            description = f"{ingress.namespace}/{backend.service}"
            by_backend[ingress.network, ingress.namespace, backend] = IngressTarget(
                services.tenant_key, ingress.network, addresses, description
            )
    return by_backend


class _Service:
    """A service with its slices, read once for all backends that name it: each has thousands of ports and endpoints."""

    def __init__(self, service: Object | None, slices: Iterable[Object]) -> None:
        """`service` is None if it does not exist."""
        self.network = network_of(service) if service is not None else None
        self._is_external = objects.get(service or {}, "spec", "type") == "ExternalName"
        self._cluster = objects.get(service or {}, "spec", "clusterIP")
        self._ports: dict[int | str, Object] = {}
        for port in objects.get(service or {}, "spec", "ports") or ():
            if (port.get("protocol") or "TCP") == "TCP":
                for key in (port.get("port"), port.get("name")):
                    if key:
                        self._ports.setdefault(key, port)
        self._ready: dict[str, list[tuple[Sequence[str], int]]] = {}
        """By the name of a port: ready addresses, and the port's number there."""
        for each in slices:
            addresses = tuple(islice(_ready(each), ADDRESSES_MAX))
            for port in each.get("ports") or ():
                if port.get("port"):
                    self._ready.setdefault(port.get("name") or "", []).append((addresses, port["port"]))

    def addresses(self, backend_port: int | str) -> Iterator[tuple[str, int]]:
        port = self._ports.get(backend_port)
        if port is None or self._is_external:
            return
        ready = self._ready.get(port.get("name") or "", ())
        if self._cluster and self._cluster != "None":
            if any(addresses for addresses, _ in ready):
                yield self._cluster, port["port"]
        elif self._cluster == "None":
            for addresses, number in ready:
                yield from ((address, number) for address in addresses)


def _ready(endpoint_slice: Object) -> Iterator[str]:
    for endpoint in endpoint_slice.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield from endpoint.get("addresses") or ()
