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
without it there are more shapes, runs are longer and repeated, and the median is told. Everything here is
work for processors: the load that others put on the machine is printed at the end, and slows all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop
from msgspec import Struct

from bench import scheduler_api as api
from bench import scheduler_shapes as shapes
from bench.scheduler_fairness import share_error

Figures = dict[str, float]


class Shape(Struct, frozen=True):
    figure: str
    run: Callable[[int, int], shapes.Measured]
    nodes: int
    quick_pods: int
    """0: not in the quick run."""
    full_pods: int
    goal_per_s: int = 0
    kubernetes: str = ""
    """What kube-scheduler's own tests ask of it, end to end on far larger machines: pods/s."""


SHAPES = (
    Shape("basic_5000_per_s", shapes.basic, 5000, 5000, 10_000, 3000, "270"),
    Shape("basic_15000_per_s", shapes.basic, 15_000, 3000, 10_000, 1500),
    Shape("node_affinity_5000_per_s", shapes.node_affinity, 5000, 0, 10_000, 0, "220"),
    Shape("anti_affinity_5000_per_s", shapes.anti_affinity, 5000, 1500, 2000, 500, "60"),
    Shape("spread_5000_per_s", shapes.topology_spread, 5000, 2000, 5000, 500, "85"),
    Shape("controller_spread_5000_per_s", shapes.controller_spread, 5000, 0, 5000),
    Shape("preemption_5000_per_s", shapes.preemption, 5000, 0, 2000, 0, "160"),
    Shape("mixed_churn_5000_per_s", shapes.mixed_churn, 5000, 2000, 10_000, 0, "265"),
    Shape("all_different_5000_per_s", shapes.all_different, 5000, 0, 5000),
    Shape("many_tenants_5000_per_s", shapes.many_tenants, 5000, 0, 10_000),
)


def decisions(is_quick: bool, figures: Figures) -> None:
    print(f"{'decisions alone, one core':34}{'pods/s':>10}{'goal':>8}{'kube CI':>9}")
    for shape in SHAPES:
        pods = shape.quick_pods if is_quick else shape.full_pods
        if pods == 0:
            continue
        rates = [shape.run(shape.nodes, pods).per_s for _ in range(1 if is_quick else 3)]
        figures[shape.figure] = round(statistics.median(rates), 1)
        goal = str(shape.goal_per_s or "")
        print(f"  {shape.figure:32}{figures[shape.figure]:10,.0f}{goal:>8}{shape.kubernetes:>9}", flush=True)


def memory(figures: Figures) -> None:
    """In a process of its own: nothing else is in the figure."""
    command = [sys.executable, "-m", "bench.scheduler_memory", "5000", "100000"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures["rss_mb"] = float(told)
    print(f"\nmemory, 100,000 pods and 5,000 nodes: {figures['rss_mb']:.0f} MB (goal 400)", flush=True)


def fairness(is_quick: bool, figures: Figures) -> None:
    seeds = (7,) if is_quick else (7, 8, 9)
    figures["share_error_max"] = round(max(share_error(40 if is_quick else 200, seed) for seed in seeds), 5)
    print(f"\nworst share against weights: {figures['share_error_max']:.2%} off (goal 2 %)", flush=True)


def through_the_api(is_quick: bool, directory: Path, figures: Figures) -> None:
    runs, pods = (1, 2000) if is_quick else (3, 10_000)
    results = [uvloop.run(api.end_to_end(directory / f"end-{run}", 5000, pods)) for run in range(runs)]
    figures["end_to_end_per_s"] = round(statistics.median(each.per_s for each in results), 1)
    figures["end_to_end_rss_mb"] = round(max(each.rss_mb for each in results), 1)
    print(f"\nend to end, 5,000 nodes: {figures['end_to_end_per_s']:,.0f} pods/s (goal 800)")
    print(f"  the scheduler's process with {pods:,} pods: {figures['end_to_end_rss_mb']:.0f} MB", flush=True)


async def _compete(is_quick: bool, directory: Path, figures: Figures) -> None:
    async with api.arena(directory, api.Scale()) as arena:
        count = 1 if is_quick else 3
        for how, is_fair in (("fair", True), ("fifo", False)):
            results = [
                await arena.run(f"{how}-{run}", is_fair, is_last=not is_fair and run == count - 1)
                for run in range(count)
            ]
            for share, name in ((0.5, "p50"), (0.99, "p99")):
                middle = statistics.median(result.percentile_ms(share) for result in results)
                figures[f"regular_{name}_ms_{how}"] = round(middle, 1)
            p50, p99 = figures[f"regular_p50_ms_{how}"], figures[f"regular_p99_ms_{how}"]
            goal = " (goal 200)" if is_fair else " (first come, first served)"
            print(f"  {how}: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms{goal}", flush=True)


def competition(is_quick: bool, directory: Path, figures: Figures) -> None:
    print("\n10 tenants dump 900 pods each; 40 others create 10 pods one after another, create to bound:")
    uvloop.run(_compete(is_quick, directory / "arena", figures))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the scheduler.")
    parser.add_argument("--quick", action="store_true", help="less than a minute")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures: Figures = {}
    started = time.perf_counter()
    decisions(options.quick, figures)
    fairness(options.quick, figures)
    memory(figures)
    with tempfile.TemporaryDirectory() as name:
        through_the_api(options.quick, Path(name), figures)
        competition(options.quick, Path(name), figures)
    load = os.getloadavg()[0]
    print(f"\n{time.perf_counter() - started:.0f} s, {os.cpu_count()} cores, load at the end {load:.1f}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
