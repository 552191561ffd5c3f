"""Environment variables for services: the API server, and, with `enableServiceLinks`, those in the pod's
namespace.

Pure: no I/O. The API server's host is a name: its address differs between networks, its certificate does not.
"""

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object

API_HOST, API_PORT = "kubernetes.default.svc", 443


def environment(pod: Object, services: Iterable[Object]) -> dict[str, str]:
    """The variables of a pod. `services` are all services of its tenant."""
    variables: dict[str, str] = {}
    if objects.get(pod, "spec", "enableServiceLinks", default=True):
        for service in services:
            if objects.namespace(service) == objects.namespace(pod) and network_of(service) == network_of(
                pod
            ):
                variables |= service_variables(service)
    return variables | _variables(
        "kubernetes", API_HOST, [{"name": "https", "port": API_PORT, "protocol": "TCP"}]
    )


def service_variables(service: Object) -> dict[str, str]:
    """The variables for one service; empty if it has no cluster IP."""
    spec = service["spec"]
    host, ports = spec.get("clusterIP") or "None", spec.get("ports") or []
    if host == "None" or not ports or spec.get("type") == "ExternalName":
        return {}
    return _variables(objects.name(service), host, ports)


def _variables(name: str, host: str, ports: list[Object]) -> dict[str, str]:
    prefix = name.upper().replace("-", "_").replace(".", "_")
    shown = f"[{host}]" if ":" in host else host
    variables = {f"{prefix}_SERVICE_HOST": host, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for index, port in enumerate(ports):
        protocol, number = (port.get("protocol") or "TCP"), str(port["port"])
        if port.get("name"):
            variables[f"{prefix}_SERVICE_PORT_{port['name'].upper().replace('-', '_')}"] = number
        url = f"{protocol.lower()}://{shown}:{number}"
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        linked = f"{prefix}_PORT_{number}_{protocol}"
        variables |= {
            linked: url,
            f"{linked}_PROTO": protocol.lower(),
            f"{linked}_PORT": number,
            f"{linked}_ADDR": host,
        }
    return variables
