"""Protocol between the API server and node agents: paths, identities, and the format of usage reports."""

from urllib.parse import quote

from msgspec import Struct

API_SERVER_USER = "system:apiserver"
API_SERVER_GROUP = "system:apiservers"
"""The identity (in ring0) that an API server presents to nodes; agents accept no other client."""

NODE_USER_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"
"""The identity (in ring0) of an agent's serving certificate, together with the node's name."""

PORT = 10250
USAGE_PATH = "/usage"
POD_VERBS = ("log", "exec", "attach", "portforward", "proxy")
TUNNEL = "alcove-tunnel"
"""The `Upgrade` protocol of a connection that carries the bytes of a port."""
NODE_PATH = "/node"
"""Prefix of the node's kubelet-compatible endpoints, for ring0 only."""
NODE_PORT_PATH = "/nodeport"
"""A tunnel to a port of the node itself, for ring0 only."""


def pod_path(plane: str, tenant: str, namespace: str, name: str, uid: str, verb: str) -> str:
    parts = ("pods", plane, tenant, namespace, name, uid, verb)
    return "/" + "/".join(quote(part, safe="") for part in parts)


def network_path(plane: str, tenant: str, network: str) -> str:
    """A tunnel to an address as seen from a tenant's network that is on the node."""
    return "/" + "/".join(quote(part, safe="") for part in ("networks", plane, tenant, network))


class ResourceUsage(Struct, frozen=True):
    cpu_nanocores: int
    """Average over the summary's window: a whole core is 1,000,000,000."""
    memory_bytes: int
    """The working set: excludes memory that the kernel can reclaim immediately."""


class ContainerUsage(Struct, frozen=True):
    name: str
    usage: ResourceUsage


class PodUsage(Struct, frozen=True):
    tenant: str
    namespace: str
    name: str
    uid: str
    time: float
    """Time of the measurement, epoch seconds."""
    window_seconds: float
    containers: tuple[ContainerUsage, ...]


class NodeSummary(Struct, frozen=True):
    """Usage on a node: by pods (of the requesting plane), and in total (only for ring0)."""

    time: float
    window_seconds: float
    node: ResourceUsage | None
    pods: tuple[PodUsage, ...]
