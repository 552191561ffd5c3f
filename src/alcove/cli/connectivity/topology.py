"""The pods, networks and services of a connectivity test, and their manifests. Pure.

Every pod serves a page with its identity, so that an answer shows which of several pods with the same address
gave it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object

IMAGE = "alcove/busybox:latest"
PORT = 8080
SERVICE_PORT = 80
SERVICE = "web"
LABEL = "arktos.futurewei.com/network"


class CheckPod(Struct, frozen=True):
    tenant: str
    namespace: str
    network: str
    name: str
    address: str = ""
    """Requested address. Empty for any."""
    node: str = ""
    """Required node. Empty for any."""
    is_backend: bool = True
    """Whether it is an endpoint of its network's service."""

    @property
    def identity(self) -> str:
        """The content of the pod's page."""
        return f"{self.tenant}/{self.network}/{self.name}"


class CheckNetwork(Struct, frozen=True):
    tenant: str
    name: str
    cidr: str
    """For example 10.0.0.0/24."""

    @property
    def namespace(self) -> str:
        """Each network has its own namespace, so that services can have the same name."""
        return self.name


class CheckTopology(Struct, frozen=True):
    networks: tuple[CheckNetwork, ...]
    pods: tuple[CheckPod, ...]

    @property
    def tenants(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(network.tenant for network in self.networks))


def build(tenants: Sequence[str], networks: Sequence[str], cidr: str, nodes: Sequence[str]) -> CheckTopology:
    """Networks with the same names and range in every tenant, with pods at the same addresses: one per node,
    at least two. The pod `lone` of the first network has an address that no other network uses."""
    created = [CheckNetwork(tenant, name, cidr) for tenant in tenants for name in networks]
    prefix = cidr.rpartition(".")[0]
    node_names = list(nodes) if len(nodes) > 1 else [*nodes, *nodes]
    pods = [
        CheckPod(
            network.tenant, network.namespace, network.name, f"pod-{number}", f"{prefix}.{10 + number}", node
        )
        for network in created
        for number, node in enumerate(node_names, 1)
    ]
    first = created[0]
    lone = CheckPod(
        first.tenant, first.namespace, first.name, "lone", f"{prefix}.99", node_names[0], is_backend=False
    )
    return CheckTopology(tuple(created), (*pods, lone))


def tenant_manifest(name: str, *, is_dedicated: bool) -> Object:
    spec: Object = {"controlPlane": {"mode": "Dedicated"}} if is_dedicated else {}
    return {"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": name}, "spec": spec}


def network_manifest(network: CheckNetwork) -> Object:
    address, _, prefix = network.cidr.partition("/")
    spec = {"type": "vpc", "vpcID": f"{network.tenant}-{network.name}", "ip": address, "prefix": prefix}
    return {
        "apiVersion": "arktos.futurewei.com/v1",
        "kind": "Network",
        "metadata": {"name": network.name},
        "spec": spec,
    }


def service_manifest(network: CheckNetwork) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "labels": {LABEL: network.name}},
        "spec": {
            "selector": {"app": SERVICE},
            "ports": [{"port": SERVICE_PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    }


def pod_manifest(pod: CheckPod) -> Object:
    page = f"mkdir -p /tmp/www && echo {pod.identity} >/tmp/www/index.html"
    command = f"{page} && exec httpd -f -p {PORT} -h /tmp/www"
    spec: Object = {
        "containers": [
            {
                "name": "web",
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", command],
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }
        ],
        "terminationGracePeriodSeconds": 0,
    }
    if pod.address:
        spec["nics"] = [{"ip": pod.address}]
    if pod.node:
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _node_selector(pod.node)}
        }
    labels = {LABEL: pod.network, **({"app": SERVICE} if pod.is_backend else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod.name, "labels": labels}, "spec": spec}


def _node_selector(node: str) -> Object:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}
