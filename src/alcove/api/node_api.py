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


def flows_path(plane: str, tenant: str = "") -> str:
    """The flows of a tenant's networks on the node; without a tenant, of all tenants of the plane."""
    return "/" + "/".join(quote(part, safe="") for part in ("flows", plane, *((tenant,) if tenant else ())))


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


class FlowEnd(Struct, frozen=True, omit_defaults=True):
    """One end of a flow. Only the tenant's own objects have names."""

    address: str = ""
    port: int = 0
    kind: str = ""
    """Pod, Service or Gateway (the network's: DNS, probes, traffic from outside); empty for other addresses."""
    namespace: str = ""
    name: str = ""


class FlowPolicy(Struct, frozen=True):
    """A policy's part in the verdict."""

    direction: str
    """`ingress` or `egress`."""
    policy: str
    """`namespace/name` of a NetworkPolicy."""
    allows: bool
    """False if the flow was dropped: the policy selects the pod, and none that does allows the flow."""


class FlowReport(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A connection, or what was dropped of one, as seen on one node. `source` opened it."""

    tenant: str
    network: str
    direction: str
    """As this node sees it: `egress`, `ingress`, or `local` if both ends are on it."""
    verdict: str
    """`forwarded` or `dropped`."""
    protocol: str
    source: FlowEnd
    destination: FlowEnd
    start: float
    """Epoch seconds of the first and the last packet, exact to about a second."""
    end: float
    service: FlowEnd | None = None
    """What the source had connected to, if the node translated it to `destination`."""
    bytes_sent: int = 0
    bytes_received: int = 0
    packets_sent: int = 0
    packets_received: int = 0
    tcp_flags: str = ""
    reason: str = ""
    """Why it was dropped, in one word."""
    message: str = ""
    """Why it was dropped, in a sentence."""
    policies: tuple[FlowPolicy, ...] = ()
    lost: int = 0
    """In exports: how many flows were left out before this one."""


class NodeFlows(Struct, frozen=True):
    """The flows that were asked for, the newest first."""

    flows: tuple[FlowReport, ...] = ()
    left_out: int = 0
    """How many more matched."""
    full: tuple[str, ...] = ()
    """Networks whose table is full on this node: their older flows are gone."""


class LiveReply(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What came back for a real packet that was sent as if the pod had sent it."""

    source_port: int
    """By which its flow is found."""
    reply: str = ""
    """`accepted` or `refused` (TCP), `answered` (UDP), `unreachable` (an ICMP error); empty if nothing came back."""
    milliseconds: float = 0.0


class NameAnswer(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the DNS server of a pod's network, on the pod's node, says of a name."""

    name: str
    """The full name that was found by the pod's search list; of a name that was not, the one that was asked for."""
    addresses: tuple[str, ...] = ()
    message: str = ""
    """Why there are no addresses."""
    server: str = ""
    """The address of the DNS server, as pods know it."""
    denied: str = ""
    """Why the kernel drops the pod's packets to the server; empty if it does not."""


class KernelTrace(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What the kernel of a node does with a packet that a pod would send."""

    verdict: str
    """`forwarded` or `dropped`."""
    destination: FlowEnd
    """After translation."""
    next_node: str = ""
    """The node that it is sent to, where the destination's policies are applied; empty if it stays on this one."""
    reason: str = ""
    message: str = ""
    policies: tuple[FlowPolicy, ...] = ()
    source: str = ""
    """The address that the destination sees."""
    live: LiveReply | None = None
    """If a real packet was sent."""
