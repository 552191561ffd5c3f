"""How long a trace takes, from a pod on one node to a pod on another: the objects are read from a real API server and followed, the
programs of both nodes are run on the packet, and both nodes are asked for flows. Without the way from the API server to agents, of
which there are none here, and without the start of the command."""

import statistics
import time
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory

from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.server.traces import TracedPacket
from alcove.api.ids import TenantId
from alcove.cli.session import CliSession
from alcove.cli.trace import read
from alcove.client.keys import HOME
from alcove.dataplane.model import Protocol
from alcove.network.trace import FORWARDED, TraceRequest, trace
from alcove.testing.nodecluster import AttachedPod, NodeCluster, node_cluster

TENANT = "traced"
OBJECTS = 100
"""Pods and policies of the tenant that decide nothing, but have to be read."""
ROUNDS = 20
PORT = 5432


def make_objects(cluster: NodeCluster) -> None:
    for number in range(OBJECTS):
        name = f"beside-{number}"
        pod = {
            "metadata": {"name": name},
            "spec": {"network": "own", "containers": [{"name": "c", "image": "none"}]},
        }
        policy = {"metadata": {"name": name}, "spec": {"podSelector": {"matchLabels": {"app": name}}}}
        pods = f"/api/v1/tenants/{TENANT}/namespaces/default/pods"
        policies = f"/apis/networking.k8s.io/v1/tenants/{TENANT}/namespaces/default/networkpolicies"
        cluster.must(cluster.server.system.post(pods, pod))
        cluster.must(cluster.server.system.post(policies, policy))


def traced(session: CliSession, near: AttachedPod, far: AttachedPod) -> None:
    """What `alcove trace` does; the packet must arrive."""
    found = trace(read(session, ""), TraceRequest(("default", near.key.name), far.key.name, PORT))
    sent = TracedPacket(near.key, ip_address(far.address), PORT, Protocol.TCP)
    here = near.node.call(near.node.network.tracer.trace(sent))
    ends = ip_address(far.address), PORT, Protocol.TCP, ip_address(near.address)
    there = far.node.call(far.node.network.tracer.trace(TracedPacket(far.key, *ends, near.node.name)))
    assert found.verdict == here.verdict == there.verdict == FORWARDED
    for node in (near.node, far.node):
        node.call(node.network.traffic.flows(HOME, TenantId(TENANT), FlowSelection(pod=near.key.name)))


def tracing() -> dict[str, float]:
    with TemporaryDirectory() as folder, node_cluster(Path(folder), 2, "203.0.113.5/24") as cluster:
        cluster.make_tenant(TENANT, {"type": "vpc", "ip": "10.7.0.0", "prefix": 16})
        near, far = (cluster.place_pod(TENANT, node) for node in (0, 1))
        make_objects(cluster)
        session = CliSession(cluster.server.as_tenant(TENANT).kubeconfig)
        durations = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            traced(session, near, far)
            durations.append((time.perf_counter() - start) * 1e3)
    return {"trace_ms": statistics.median(durations)}
