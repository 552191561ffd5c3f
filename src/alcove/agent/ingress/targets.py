"""The addresses of Ingress backends: a service's cluster IP, or its pods if it is headless. Pure: no I/O."""

from collections.abc import Iterable, Iterator
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
    for ingress in ingresses:
        for backend in (*(rule.backend for rule in ingress.rules), ingress.fallback):
            if backend is None or (ingress.network, ingress.namespace, backend) in by_backend:
                continue
            service_id = (ingress.namespace, backend.service)
            service = services.service(service_id)
            addresses: tuple[tuple[str, int], ...] = ()
            # An Ingress can only reach services of its own network.
            if service is not None and network_of(service) == ingress.network:
                addresses = tuple(_addresses(service, backend.port, services.slices_of(service_id)))[
                    :ADDRESSES_MAX
                ]
            description = f"{ingress.namespace}/{backend.service}"
            by_backend[ingress.network, ingress.namespace, backend] = IngressTarget(
                services.tenant_key, ingress.network, addresses, description
            )
    return by_backend


def _addresses(service: Object, backend_port: int | str, slices: list[Object]) -> Iterator[tuple[str, int]]:
    port = _port(service, backend_port)
    if port is None or objects.get(service, "spec", "type") == "ExternalName":
        return
    cluster = objects.get(service, "spec", "clusterIP")
    if cluster and cluster != "None":
        if any(_ready(each, port) for each in slices):
            yield cluster, port["port"]
    elif cluster == "None":
        for each in slices:
            yield from _ready(each, port)


def _port(service: Object, backend_port: int | str) -> Object | None:
    field = "name" if isinstance(backend_port, str) else "port"
    for port in objects.get(service, "spec", "ports") or ():
        if port.get(field) == backend_port and (port.get("protocol") or "TCP") == "TCP":
            return dict(port)
    return None


def _ready(slice_: Object, port: Object) -> list[tuple[str, int]]:
    numbers = [
        each["port"]
        for each in slice_.get("ports") or ()
        if (each.get("name") or "") == (port.get("name") or "") and each.get("port")
    ]
    return [
        (address, number)
        for number in numbers
        for endpoint in slice_.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]
