"""Environment variables that tell a pod of services: the API server, and (unless it wants none) those beside it.

Pure. The API server is told by name: its address differs from network to network, its certificate does not.
"""

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object

API_HOST, API_PORT = "kubernetes.default.svc", 443


def environment(pod: Object, services: Iterable[Object]) -> dict[str, str]:
    """`services` are the tenant's."""
    told: dict[str, str] = {}
    if objects.get(pod, "spec", "enableServiceLinks", default=True):
        for service in services:
            if objects.namespace(service) == objects.namespace(pod) and network_of(service) == network_of(
                pod
            ):
                told |= of_service(service)
    return told | _variables("kubernetes", API_HOST, [{"name": "https", "port": API_PORT, "protocol": "TCP"}])


def of_service(service: Object) -> dict[str, str]:
    """Those that a pod beside the service gets; none for services without an address."""
    spec = service["spec"]
    host, ports = spec.get("clusterIP") or "None", spec.get("ports") or []
    if host == "None" or not ports or spec.get("type") == "ExternalName":
        return {}
    return _variables(objects.name(service), host, ports)


def _variables(name: str, host: str, ports: list[Object]) -> dict[str, str]:
    prefix = name.upper().replace("-", "_").replace(".", "_")
    shown = f"[{host}]" if ":" in host else host
    told = {f"{prefix}_SERVICE_HOST": host, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for index, port in enumerate(ports):
        protocol, number = (port.get("protocol") or "TCP"), str(port["port"])
        if port.get("name"):
            told[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
        url = f"{protocol.lower()}://{shown}:{number}"
        if index == 0:
            told[f"{prefix}_PORT"] = url
        linked = f"{prefix}_PORT_{number}_{protocol}"
        told |= {
            linked: url,
            f"{linked}_PROTO": protocol.lower(),
            f"{linked}_PORT": number,
            f"{linked}_ADDR": host,
        }
    return told
