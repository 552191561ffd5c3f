"""What backends of Ingresses come to: a service's virtual address, or, if it has none, the pods behind it. Pure."""

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
    """A tenant's services, as `agent.network.tenant_view.TenantNetworkView` has them."""

    @property
    def tenant_key(self) -> TenantKey: ...
    def service(self, service: ServiceId) -> Object | None: ...
    def slices_of(self, service: ServiceId) -> list[Object]: ...


def targets(
    services: TenantServices, ingresses: Iterable[DesiredIngress]
) -> dict[tuple[str, str, IngressBackend], IngressTarget]:
    """By network, namespace and backend."""
    found: dict[tuple[str, str, IngressBackend], IngressTarget] = {}
    for ingress in ingresses:
        for backend in (*(rule.backend for rule in ingress.rules), ingress.fallback):
            if backend is None or (ingress.network, ingress.namespace, backend) in found:
                continue
            where = (ingress.namespace, backend.service)
            service = services.service(where)
            addresses: tuple[tuple[str, int], ...] = ()
            # A service of another of the tenant's networks is not this one's to reach.
            if service is not None and network_of(service) == ingress.network:
                addresses = tuple(_addresses(service, backend.port, services.slices_of(where)))[
                    :ADDRESSES_MAX
                ]
            message = f"{ingress.namespace}/{backend.service}"
            found[ingress.network, ingress.namespace, backend] = IngressTarget(
                services.tenant_key, ingress.network, addresses, message
            )
    return found


def _addresses(service: Object, wanted: int | str, slices: list[Object]) -> Iterator[tuple[str, int]]:
    port = _port(service, wanted)
    if port is None or objects.get(service, "spec", "type") == "ExternalName":
        return
    cluster = objects.get(service, "spec", "clusterIP")
    if cluster and cluster != "None":
        if any(_ready(each, port) for each in slices):
            yield cluster, port["port"]
    elif cluster == "None":
        for each in slices:
            yield from _ready(each, port)


def _port(service: Object, wanted: int | str) -> Object | None:
    field = "name" if isinstance(wanted, str) else "port"
    for port in objects.get(service, "spec", "ports") or ():
        if port.get(field) == wanted and (port.get("protocol") or "TCP") == "TCP":
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
