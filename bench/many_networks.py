"""A node that hosts pods of many networks with the same range: `python -m bench.many_networks [--quick] [--json FILE]`.

Real parts: API server, controllers, and two nodes' data planes in network namespaces. A pod is a namespace with a veth. The first node hosts
one pod of each network, the second one only a pod of the first network. At 10, 100 and 1,000 networks (`--quick`: 10 and 100):

port_ms        from the request that creates a pod, in a network that is new on the node, until its network's DNS server answers it: median of ten
port_cpu_ms    CPU time of this process, which is that of both agents, for each such pod
agent_kb       resident memory of the same, for each network
kernel_kb      slab and per-CPU memory for each network: two namespaces (the pod's, and the gateway's), their devices, sockets and map entries
other_cpu_us   CPU time of the second node's agent for each pod of a network that it does not host
connect_ms     a connection between two pods of the first network, on different nodes
map_share      of the BPF map that is fullest: entries in proportion to its capacity

The exponents say by which power of the number of networks a figure grows: 0 if it does not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from alcove.dataplane.bpf import Map
from alcove.dataplane.maps import SHAPES
from alcove.testing.nodecluster import AttachedPod, NodeCluster, node_cluster
from alcove.testing.nodes import LabNode, lacking
from alcove.testing.podprobes import asked
from alcove.testing.probes import connect, tcp_server
from alcove.testing.server import Caller, wait_until

STAGES, QUICK_STAGES = (10, 100, 1_000), (10, 100)
SAMPLES = 10
MAKING_MAX = 8
NAME = "kubernetes.default.svc.cluster.local"
WORLD = "203.0.113.5/24"
NETWORK = "default"
PORT = 8_080
SECONDS_MAX = 600.0


def make_tenants(cluster: NodeCluster, count: int) -> None:
    """Each has a network of its own; all have the same range."""
    local = threading.local()

    def make(number: int) -> None:
        if not hasattr(local, "caller"):
            local.caller = Caller(cluster.server.admin_kubeconfig)
        answer = local.caller.post("/api/v1/tenants", {"metadata": {"name": f"t{number}"}})
        assert answer.status == 201, answer.body

    with ThreadPoolExecutor(MAKING_MAX) as pool:
        list(pool.map(make, range(count)))
    path = "/apis/arktos.futurewei.com/v1/tenants/all/networks"

    def are_ready() -> bool:
        items = cluster.server.system.get(path).json["items"]
        phases = [
            each.get("status", {}).get("phase") for each in items if each["metadata"]["tenant"] != "system"
        ]
        return phases.count("Ready") >= count

    wait_until(are_ready, SECONDS_MAX)


def own_mb() -> float:
    """Resident memory of this process, in which the agents run; without its children."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def kernel_kb() -> float:
    lines = Path("/proc/meminfo").read_text().splitlines()
    found = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
    return found["Slab"] + found["Percpu"]


def thread_cpu(thread: threading.Thread) -> float:
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def fullest_map(node: LabNode) -> float:
    """The share of its capacity that the fullest map has in use."""
    shares = []
    for name, shape in SHAPES.items():
        opened = Map.pinned(node.plane.pins.maps_folder / name.value, shape.key.size, shape.value.size)
        used = sum(1 for raw in opened.items().values() if not shape.is_array or any(raw))
        shares.append(used / opened.capacity())
        opened.close()
    return max(shares)


def connect_ms(near: AttachedPod, far: AttachedPod) -> float:
    """Median time of a connection between two pods of one network on different nodes."""
    taken = []
    with tcp_server(far.namespace, far.address, PORT):
        for _ in range(SAMPLES * 3):
            began = time.perf_counter()
            client = connect(near.namespace, far.address, PORT)
            assert client is not None
            taken.append((time.perf_counter() - began) * 1_000)
            client.close()
    return statistics.median(taken)


class Node:
    """The first node, as it gets pods of ever more networks."""

    def __init__(self, cluster: NodeCluster) -> None:
        self.cluster = cluster
        self.pods: list[AttachedPod] = []

    def add(self) -> float:
        """Seconds until the pod is answered by its network's DNS server."""
        began = time.perf_counter()
        pod = self.cluster.place_pod(f"t{len(self.pods)}", 0, NETWORK)
        wait_until(lambda: asked(pod, NAME) not in ([], ["NXDOMAIN"]))
        self.pods.append(pod)
        return time.perf_counter() - began

    def measure(self, networks: int) -> dict[str, float]:
        """Adds pods until there are so many; the last ones count."""
        while len(self.pods) < networks - SAMPLES:
            self.add()
        other = self.cluster.nodes[1].thread
        cpu, other_cpu = time.process_time(), thread_cpu(other)
        seconds = [self.add() for _ in range(SAMPLES)]
        return {
            "port_ms": statistics.median(seconds) * 1_000,
            "port_cpu_ms": (time.process_time() - cpu) / SAMPLES * 1_000,
            "other_cpu_us": (thread_cpu(other) - other_cpu) / SAMPLES * 1_000_000,
        }


def measure(directory: Path, stages: tuple[int, ...]) -> dict[str, float]:
    figures: dict[str, float] = {}
    with node_cluster(directory, 2, WORLD) as cluster:
        make_tenants(cluster, stages[-1])
        far = cluster.place_pod("t0", 1, NETWORK)
        node = Node(cluster)
        for _ in range(stages[0] // 2):
            node.add()
        memory, kernel, began = own_mb(), kernel_kb(), len(node.pods)
        by_stage: list[dict[str, float]] = []
        for networks in stages:
            found = node.measure(networks)
            added = len(node.pods) - began
            found["agent_kb"] = (own_mb() - memory) * 1_024 / added
            found["kernel_kb"] = (kernel_kb() - kernel) / added
            found["connect_ms"] = connect_ms(node.pods[0], far)
            by_stage.append(found)
            figures |= {f"{name}_at_{networks}": round(value, 2) for name, value in found.items()}
        figures["map_share"] = round(fullest_map(cluster.lab.nodes[0]), 4)
        ratio = stages[-1] / stages[0]
        for name in ("port_ms", "port_cpu_ms", "other_cpu_us", "connect_ms"):
            grown = by_stage[-1][name] / max(by_stage[0][name], 1e-9)
            figures[f"{name}_exponent"] = round(math.log(max(grown, 1e-9)) / math.log(ratio), 3)
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 networks instead of 1,000")
    parser.add_argument("--json", type=Path, help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    if why := lacking():
        raise SystemExit(why)
    with tempfile.TemporaryDirectory() as name:
        result = measure(Path(name), QUICK_STAGES if arguments.quick else STAGES)
    for figure, value in result.items():
        print(f"{figure:30}{value:12,.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
