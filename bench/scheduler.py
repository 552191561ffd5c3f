"""How fast and how fair the scheduler is: `python -m bench.scheduler [--quick] [--json FILE]`.

| figure                     | what it is                                                                  |
|----------------------------|-----------------------------------------------------------------------------|
| basic_5000_per_s, …        | decisions alone, one core, in the shapes of scheduler_perf (`scheduler_shapes`) |
| end_to_end_per_s           | bindings through the API server at 5,000 nodes, both on this machine (`scheduler_api`) |
| regular_p99_ms_fair, _fifo | create to bound for 40 regular tenants beside 10 greedy ones; fifo: fairness off |
| share_error_max            | how far a tenant's long-run share is from its weight (`scheduler_fairness`)  |
| rss_mb                     | memory with 100,000 pods and 5,000 nodes (`scheduler_memory`)                |
| end_to_end_rss_mb          | of the scheduler's process in the run through the API                        |

Each figure is measured in the run that prints it. `--quick` takes less than a minute on two idle cores;
without it there are more shapes and longer runs, each repeated, the median is reported and how far the runs were
apart, and it takes some minutes. Everything here is work for processors: the load that others put on the
machine is printed at the end, and slows what goes through the API.

"kube CI" is what Kubernetes' own CI asks of kube-scheduler in the same shape, as pods/s on average: the
`threshold` of the workload named in `SHAPES`, in test/integration/scheduler_perf/*/performance-config.yaml of
kubernetes/kubernetes at v1.36.4 and at v1.37.0-rc.1. They are meant to be a little below the worst run seen
there, and they are end to end, with an API server and etcd beside, on larger machines: what compares with
them on this one is `end_to_end_per_s`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import uvloop
from msgspec import Struct

from bench import scheduler_api as api
from bench import scheduler_shapes as shapes
from bench.scheduler_fairness import share_error

Figures = dict[str, float]

RUNS = 3
"""Of everything that takes time, but for the quick run."""


class Shape(Struct, frozen=True):
    figure: str
    run: Callable[[int, int], shapes.Measured]
    nodes: int
    quick_pods: int
    """0: not in the quick run."""
    full_pods: int
    """As many as the workload has."""
    goal_per_s: int = 0
    workload: str = ""
    """The case of scheduler_perf, and of its workloads the one that has a threshold."""
    thresholds: tuple[int, int] = (0, 0)
    """Of Kubernetes 1.36 and 1.37."""


SHAPES = (
    Shape(
        "basic_5000_per_s",
        shapes.basic,
        5000,
        5000,
        10_000,
        3000,
        "SchedulingBasic/5000Nodes_10000Pods",
        (270, 680),
    ),
    Shape("basic_15000_per_s", shapes.basic, 15_000, 3000, 10_000, 1500),
    Shape(
        "daemon_set_15000_per_s",
        shapes.daemon_set,
        15_000,
        0,
        30_000,
        0,
        "SchedulingDaemonset/15000Nodes",
        (390, 1100),
    ),
    Shape(
        "node_affinity_5000_per_s",
        shapes.node_affinity,
        5000,
        0,
        10_000,
        0,
        "SchedulingNodeAffinity/5000Nodes_10000Pods",
        (220, 540),
    ),
    Shape(
        "pod_affinity_5000_per_s",
        shapes.pod_affinity,
        5000,
        0,
        5000,
        0,
        "SchedulingPodAffinity/5000Nodes_5000Pods",
        (35, 70),
    ),
    Shape(
        "anti_affinity_5000_per_s",
        shapes.anti_affinity,
        5000,
        1500,
        2000,
        500,
        "SchedulingPodAntiAffinity/5000Nodes_2000Pods",
        (60, 180),
    ),
    Shape(
        "spread_5000_per_s",
        shapes.topology_spread,
        5000,
        2000,
        5000,
        500,
        "TopologySpreading/5000Nodes_5000Pods",
        (85, 460),
    ),
    Shape("controller_spread_5000_per_s", shapes.controller_spread, 5000, 0, 5000),
    Shape("preemption_5000_per_s", shapes.preemption, 5000, 0, 2000),
    Shape(
        "beside_preemption_5000_per_s",
        shapes.beside_preemption,
        5000,
        0,
        5000,
        0,
        "PreemptionAsync/5000Nodes",
        (160, 570),
    ),
    Shape(
        "beside_unschedulable_5000_per_s",
        shapes.beside_unschedulable,
        5000,
        0,
        10_000,
        0,
        "Unschedulable/5kNodes/100Init/10kPods_AsyncAPICallsEnabled",
        (170, 590),
    ),
    Shape(
        "mixed_churn_5000_per_s",
        shapes.mixed_churn,
        5000,
        2000,
        10_000,
        0,
        "SchedulingWithMixedChurn/5000Nodes_10000Pods",
        (265, 710),
    ),
    Shape("all_different_5000_per_s", shapes.all_different, 5000, 0, 5000),
    Shape("many_tenants_5000_per_s", shapes.many_tenants, 5000, 0, 10_000),
)


T = TypeVar("T")
STARTED = time.perf_counter()


def _repeat(what: str, is_quick: bool, run: Callable[[int], T]) -> list[T]:
    """The results of one run, or of several; progress is printed meanwhile."""
    results = []
    for number in range(1 if is_quick else RUNS):
        if not is_quick:
            message = f"[{time.perf_counter() - STARTED:4.0f} s] {what}, run {number + 1} of {RUNS}"
            print(message, file=sys.stderr, flush=True)
        results.append(run(number))
    return results


def _apart(values: list[float]) -> str:
    """How far the worst and the best of several runs are from each other."""
    return f"{min(values):,.0f} to {max(values):,.0f}" if len(values) > 1 else ""


def decisions(is_quick: bool, figures: Figures) -> None:
    print(f"{'':36}{'':>8}{'':>8}{'kube CI':>14}")
    print(f"{'decisions alone, one core':36}{'pods/s':>8}{'goal':>8}{'1.36':>7}{'1.37':>7}  runs")
    for shape in SHAPES:
        pods = shape.quick_pods if is_quick else shape.full_pods
        if pods == 0:
            continue
        measured = _repeat(shape.figure, is_quick, partial(_decide, shape, pods))
        rates = [each.per_s for each in measured]
        figures[shape.figure] = round(statistics.median(rates), 1)
        beside = "".join(
            f"{number or '':>{width}}"
            for number, width in zip((shape.goal_per_s, *shape.thresholds), (8, 7, 7), strict=True)
        )
        print(f"  {shape.figure:34}{figures[shape.figure]:8,.0f}{beside}  {_apart(rates)}", flush=True)


def _decide(shape: Shape, pods: int, _number: int) -> shapes.Measured:
    return shape.run(shape.nodes, pods)


def memory(figures: Figures) -> None:
    """In a process of its own: nothing else is in the figure."""
    command = [sys.executable, "-m", "bench.scheduler_memory", "5000", "100000"]
    message = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures["rss_mb"] = float(message)
    print(f"\nmemory, 100,000 pods and 5,000 nodes: {figures['rss_mb']:.0f} MB (goal 400)", flush=True)


def fairness(is_quick: bool, figures: Figures) -> None:
    seeds = (7,) if is_quick else (7, 8, 9)
    figures["share_error_max"] = round(max(share_error(40 if is_quick else 200, seed) for seed in seeds), 5)
    print(f"\nworst share against weights: {figures['share_error_max']:.2%} off (goal 2 %)", flush=True)


def through_the_api(is_quick: bool, directory: Path, figures: Figures) -> None:
    pods = 2000 if is_quick else 10_000
    results = _repeat("end to end", is_quick, partial(_bind, directory, pods))
    rates = [each.per_s for each in results]
    figures["end_to_end_per_s"] = round(statistics.median(rates), 1)
    figures["end_to_end_rss_mb"] = round(max(each.rss_mb for each in results), 1)
    print(f"\nend to end, 5,000 nodes: {figures['end_to_end_per_s']:,.0f} pods/s (goal 800)  {_apart(rates)}")
    print(f"  the scheduler's process with {pods:,} pods: {figures['end_to_end_rss_mb']:.0f} MB", flush=True)


def _bind(directory: Path, pods: int, number: int) -> api.EndToEnd:
    return uvloop.run(api.end_to_end(directory / f"end-{number}", 5000, pods))


def competition(is_quick: bool, directory: Path, figures: Figures) -> None:
    print("\n10 tenants dump 900 pods each; 40 others create 10 pods one after another, create to bound:")
    for how, goal in (("fair", "goal 200"), ("fifo", "first come, first served")):
        results = _repeat(f"greedy tenants, {how}", is_quick, partial(_compete, directory, how))
        found = {
            name: [result.percentile_ms(share) for result in results]
            for name, share in (("p50", 0.5), ("p99", 0.99))
        }
        for name, values in found.items():
            figures[f"regular_{name}_ms_{how}"] = round(statistics.median(values), 1)
        message = ", ".join(f"{name} {figures[f'regular_{name}_ms_{how}']:,.0f} ms" for name in found)
        print(f"  {how}: {message} ({goal})  {_apart(found['p99'])}", flush=True)


def _compete(directory: Path, how: str, number: int) -> api.Greedy:
    return uvloop.run(api.compete(directory / f"{how}-{number}", api.Scale(), is_fair=how == "fair"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the scheduler.")
    parser.add_argument("--quick", action="store_true", help="less than a minute")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures: Figures = {}
    decisions(options.quick, figures)
    fairness(options.quick, figures)
    memory(figures)
    # What decisions left in this process must not be looked through while others' latencies are measured.
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as name:
        through_the_api(options.quick, Path(name), figures)
        competition(options.quick, Path(name), figures)
    load = os.getloadavg()[0]
    print(f"\n{time.perf_counter() - STARTED:.0f} s, {os.cpu_count()} cores, load at the end {load:.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
