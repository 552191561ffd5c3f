"""What it costs to see the network, and how much is seen.

    python -m bench.sight [--quick] [--json FILE]

| figure                 | what is measured                                                                     |
|------------------------|--------------------------------------------------------------------------------------|
| `rr_ratio_flows_on`    | request-response with counters of flows to that without: same node and across nodes |
| `tput_ratio_flows_on`  | the same for throughput of one stream                                                 |
| `conn_ratio_flows_on`  | the same for connections per second                                                   |
| `flows_packet_ns`      | what counting adds to the time that the program at a pod's veth takes for a packet    |
| `flows_per_s`          | connections that a stream of flows reads, while one pod opens 120,000, or as many as it can: `flows_sent_per_s` of them are sent with names, the others counted |
| `flows_missed_per_s`   | those that were overwritten before it came to them                                    |
| `flows_cpu_percent`    | CPU time of that stream, in percent of one core                                       |
| `report_ms`            | reading and naming all flows of a full table                                          |
| `trace_ms`             | a trace from a pod to one on another node, from the objects and in both kernels (see `bench/sight_trace.py`) |
| `meter_error_percent`  | what all tenants are charged for (bytes sent, CPU time), to what veths and cgroups counted: the larger difference |
| `meter_cpu_percent`    | CPU time of the meters of 100 pods, in percent of one core                            |

Cases with and without counters take turns, so that whatever else the machine does hits both; medians of the ratios of
neighbours are compared.
"""

import argparse
import gc
import json
import pathlib
import statistics
import sys
from collections.abc import Callable

from msgspec.structs import replace

from alcove.dataplane import bpf, links
from alcove.dataplane.namespaces import inside
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, lacking
from alcove.testing.packets import ACK, ROUTER_MAC, SYN, ethernet, ipv4, tcp
from bench.dataplane import turns
from bench.dataplane_load import Connections, RequestResponse, Stream, steady, usual
from bench.dataplane_paths import ours
from bench.sight_flows import seen
from bench.sight_meters import cost, exactness
from bench.sight_trace import tracing

Figures = dict[str, float]
VNI = 77
PLACES = ("same node", "across nodes")
ROUNDS = {"rr": (60, 200), "tput": (20, 60), "conn": (20, 60)}
"""How often each case has its turn: quick, and not."""
SEEN_SECONDS = (5.0, 20.0)
PACKET_RUNS, PACKET_ROUNDS = 20_000, 21
TARGETS = {
    "rr_ratio_flows_on": "at least 0.98",
    "tput_ratio_flows_on": "at least 0.98",
    "flows_per_s": "at least 100,000, where the sender can",
    "flows_cpu_percent": "at most 5",
    "trace_ms": "less than 300",
    "meter_error_percent": "at most 0.5",
    "meter_cpu_percent": "less than 0.5",
}


def ratios(which: int) -> Figures:
    with Lab(2) as on, Lab(2, count_flows=False) as off:
        counted, plain = ours(on), ours(off)
        paths = {
            f"{place}, {name}": each[place]
            for place in PLACES
            for name, each in (("on", counted), ("off", plain))
        }
        found = {}
        gc.disable()
        found["tput"] = turns(Stream, paths, ROUNDS["tput"][which])
        steady(0)
        try:
            found["rr"] = turns(RequestResponse, paths, ROUNDS["rr"][which])
            found["conn"] = turns(Connections, paths, ROUNDS["conn"][which])
        finally:
            usual()
            gc.enable()
    return {
        f"{kind}_ratio_flows_on": statistics.median(
            one / other
            for place in PLACES
            for one, other in zip(samples[f"{place}, on"], samples[f"{place}, off"], strict=True)
        )
        for kind, samples in found.items()
    }


def packet_ns(lab: Lab) -> Callable[[], int]:
    """A function that measures how long the program takes for a packet of a known connection."""
    node = lab.nodes[0]
    client, server = (node.make_pod(f"p{number}", VNI, f"10.0.1.{11 + number}/24") for number in range(2))
    # The program sets the source MAC to the router's: with another one, it would drop its own output.
    client.veth = replace(client.veth, mac=ROUTER_MAC)
    for pod in (client, server):
        node.plane.add_port(pod.veth, pod.namespace)
        node.pods.append(pod)
    node.state = replace(node.state, veths=tuple(pod.veth for pod in node.pods))
    apply_networks(lab, LabNetwork(VNI, pods=node.pods))
    link = links.read_link(node.plane.netlink, client.veth.name)
    assert link is not None

    def run(flags: int, repeat: int) -> int:
        segment = tcp(client.address, server.address, 1234, 80, flags)
        packet = ipv4(client.address, server.address, 6, segment)
        frame = ethernet(ROUTER_MAC, ROUTER_MAC, 0x0800, packet)
        with inside(node.namespace):
            return bpf.test_run(
                node.plane.programs.descriptors["from_pod"], frame, link.index, repeat
            ).duration_ns

    run(SYN, 1)
    return lambda: run(ACK, PACKET_RUNS)


def packets() -> Figures:
    with Lab(1) as on, Lab(1, count_flows=False) as off:
        counted, plain = packet_ns(on), packet_ns(off)
        steady(0)
        try:
            added = statistics.median(counted() - plain() for _ in range(PACKET_ROUNDS))
        finally:
            usual()
    return {"flows_packet_ns": added}


def measure(quick: bool) -> Figures:
    which = 0 if quick else 1
    return ratios(which) | packets() | seen(SEEN_SECONDS[which]) | tracing() | exactness() | cost()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds: within 120 s")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    if why := lacking():
        sys.stderr.write(f"cannot measure here: {why}\n")
        return 1
    figures = measure(options.quick)
    for key, figure in figures.items():
        target = TARGETS.get(key)
        sys.stdout.write(f"{key:<24}{figure:10.3f}" + (f"   ({target})\n" if target else "\n"))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
