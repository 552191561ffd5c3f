"""What API server and node agents say to each other: paths, who is who, and how usage is told."""

from urllib.parse import quote

from msgspec import Struct

API_SERVER_USER = "system:apiserver"
API_SERVER_GROUP = "system:apiservers"
"""The identity (of ring0) that an API server shows its nodes; agents answer nobody else."""

NODE_USER_PREFIX = "system:node:"
NODE_GROUP = "system:nodes"
"""The identity (of ring0) that an agent's serving certificate has, with the node's name."""

PORT = 10250
USAGE_PATH = "/usage"
HEALTH_PATH = "/healthz"
POD_VERBS = ("log", "exec", "attach", "portforward", "proxy")
TUNNEL = "alcove-tunnel"
"""What a connection is upgraded to whose bytes are those of a port."""
NODE_PATH = "/node"
"""Below it is what a node tells ring0 of itself, under kubelet's names."""
NODE_PORT_PATH = "/nodeport"
"""A port of the node's own, as a tunnel; ring0's too."""


def pod_path(plane: str, tenant: str, namespace: str, name: str, uid: str, verb: str) -> str:
    parts = ("pods", plane, tenant, namespace, name, uid, verb)
    return "/" + "/".join(quote(part, safe="") for part in parts)


class ResourceUsage(Struct, frozen=True):
    cpu_nanocores: int
    """Over the summary's window: a whole core is 1,000,000,000."""
    memory_bytes: int
    """The working set: without what the kernel can take back at once."""


class ContainerUsage(Struct, frozen=True):
    name: str
    usage: ResourceUsage


class PodUsage(Struct, frozen=True):
    tenant: str
    namespace: str
    name: str
    uid: str
    time: float
    """When it was measured, epoch seconds."""
    window_seconds: float
    containers: tuple[ContainerUsage, ...]


class NodeSummary(Struct, frozen=True):
    """What is used on a node: by its pods (of the plane that asks), and in all (told to ring0 only)."""

    time: float
    window_seconds: float
    node: ResourceUsage | None
    pods: tuple[PodUsage, ...]
