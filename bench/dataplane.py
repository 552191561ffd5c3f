"""Measures the data plane beside what limits it and what it competes with, in one run.

    python -m bench.dataplane [--quick] [--json FILE]

The cases take turns, so that whatever else the machine does hits all of them; medians are compared.
"""

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time
from ipaddress import IPv4Address

from alcove.dataplane.desired import endpoint_key, remote_endpoint
from alcove.dataplane.maps import MapName
from alcove.testing.nodes import Lab, lacking
from bench.dataplane_load import Connections, RequestResponse, Stream, steady, usual
from bench.dataplane_paths import Path, everything

Figures = dict[str, float]

TARGETS = {
    "same_node_rr_ratio_veth": 0.92,
    "same_node_tput_ratio_veth": 0.95,
    "same_node_conn_ratio_veth": 0.90,
    "same_node_service_rr_ratio_veth": 0.90,
    "same_node_service_rr_ratio_nftables": 1.2,
    "cross_node_rr_ratio_underlay": 0.95,
    "cross_node_rr_ratio_flannel": 1.3,
    "cross_node_tput_ratio_underlay": 0.95,
    "cross_node_tput_ratio_flannel": 1.3,
    "cross_node_service_rr_ratio_flannel_nftables": 1.5,
    "policy_cost_ratio": 0.95,
    "scale_100k_ratio": 0.97,
}
MOST = {"port_ms": 5.0, "map_10000_ms": 20.0}

RATIOS = {
    "rr": {
        "same_node_rr_ratio_veth": ("same node", "veth pair"),
        "same_node_service_rr_ratio_veth": ("same node, service", "veth pair"),
        "same_node_service_rr_ratio_nftables": ("same node, service", "bridge + nftables service"),
        "cross_node_rr_ratio_underlay": ("across nodes", "routed underlay"),
        "cross_node_rr_ratio_flannel": ("across nodes", "flannel style"),
        "cross_node_service_rr_ratio_flannel_nftables": (
            "across nodes, service",
            "flannel style + nftables service",
        ),
        "policy_cost_ratio": ("same node, policy", "same node"),
        "scale_100k_ratio": ("100,000 endpoints, 10,000 services", "10 endpoints, 10 services"),
    },
    "tput": {
        "same_node_tput_ratio_veth": ("same node", "veth pair"),
        "cross_node_tput_ratio_underlay": ("across nodes", "routed underlay"),
        "cross_node_tput_ratio_flannel": ("across nodes", "flannel style"),
    },
    "conn": {"same_node_conn_ratio_veth": ("same node", "veth pair")},
}
STREAMED = ("veth pair", "same node", "routed underlay", "across nodes", "flannel style")
"""In the order of their turns: what is compared runs side by side."""
ROUNDS = {"rr": (40, 150), "tput": (15, 45), "conn": (15, 60)}
"""How often each case has its turn: quick, and not."""


def turns(
    load: type[RequestResponse | Stream | Connections], paths: dict[str, Path], rounds: int
) -> dict[str, list[float]]:
    cases = {}
    try:
        for name, path in paths.items():
            cases[name] = load(path.client, path.server, path.target, path.listen)
        found: dict[str, list[float]] = {name: [] for name in cases}
        for case in cases.values():
            case.sample()
        for _ in range(rounds):
            for name, case in cases.items():
                found[name].append(case.sample())
        return found
    finally:
        for case in cases.values():
            case.close()


def port_ms(count: int) -> float:
    """A pod's port: link, addresses, routes, programs, entries; its namespace given."""
    taken = []
    with Lab(1) as lab:
        node = lab.nodes[0]
        for number in range(count):
            pod = node.make_pod(f"p{number}", 7, f"10.0.{number >> 8}.{number & 255}/16")
            start = time.perf_counter()
            node.plane.add_port(pod.veth, pod.namespace)
            taken.append((time.perf_counter() - start) * 1e3)
            node.pods.append(pod)
    return statistics.median(taken)


def map_10000_ms() -> float:
    """10,000 endpoints from Python values into the kernel, packing included."""
    first, node = IPv4Address("10.0.0.0"), IPv4Address("192.168.77.9")
    addresses = [first + number for number in range(10_000)]
    taken = []
    with Lab(1) as lab:
        endpoints = lab.nodes[0].plane.maps[MapName.ENDPOINTS]
        for vni in range(7):
            start = time.perf_counter()
            value = remote_endpoint(node)
            endpoints.put_all({endpoint_key(vni, address): value for address in addresses})
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def measure(quick: bool) -> tuple[Figures, dict[str, dict[str, float]]]:
    which = 0 if quick else 1
    steady(0)
    figures: Figures = {"port_ms": port_ms(40), "map_10000_ms": map_10000_ms()}
    usual()
    found: dict[str, dict[str, list[float]]] = {}
    with everything() as paths:
        streamed = {name: paths[name] for name in STREAMED}
        gc.disable()
        found["tput"] = turns(Stream, streamed, ROUNDS["tput"][which])
        steady(0)
        try:
            found["rr"] = turns(RequestResponse, paths, ROUNDS["rr"][which])
            found["conn"] = turns(Connections, paths, ROUNDS["conn"][which])
        finally:
            usual()
            gc.enable()
    for kind, ratios in RATIOS.items():
        for key, (ours, theirs) in ratios.items():
            # Neighbours in time are compared, so what disturbs one disturbs the other.
            pairs = zip(found[kind][ours], found[kind][theirs], strict=True)
            figures[key] = statistics.median(one / other for one, other in pairs)
    return figures, {kind: _medians(values) for kind, values in found.items()}


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in found.items()}


def show(figures: Figures, medians: dict[str, dict[str, float]]) -> None:
    print(f"{'path':38} {'Gb/s':>7} {'RR/s':>9} {'RR µs':>7} {'conn/s':>8}")
    for name, rate in medians["rr"].items():
        stream = f"{medians['tput'][name]:7.1f}" if name in medians["tput"] else " " * 7
        print(f"{name:38} {stream} {rate:9.0f} {1e6 / rate:7.2f} {medians['conn'][name]:8.0f}")
    print()
    for key, value in figures.items():
        if key in MOST:
            good, message = value <= MOST[key], f"at most {MOST[key]}"
        else:
            good, message = value >= TARGETS[key], f"at least {TARGETS[key]}"
        print(f"{key:48} {value:8.3f}   {message:16} {'' if good else 'MISSED'}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="within a minute")
    options.add_argument("--json", metavar="FILE", help="the figures, as one flat object")
    chosen = options.parse_args()
    why = lacking()
    if why:
        print(f"cannot measure here: {why}", file=sys.stderr)
        return 1
    figures, medians = measure(chosen.quick)
    show(figures, medians)
    if chosen.json:
        rounded = {key: round(value, 4) for key, value in figures.items()}
        pathlib.Path(chosen.json).write_text(json.dumps(rounded, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
