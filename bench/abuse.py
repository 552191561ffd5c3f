"""What quiet tenants notice of one that abuses the cluster: `python -m bench.abuse [--quick] [--json FILE]`.

A whole cluster on this machine (API server, controllers, scheduler, one node in a network namespace), some quiet
tenants that measure, and one tenant that abuses it in every way at once, with nothing but its administrator's
kubeconfig and pods of its own (`alcove.testing.abuse`).

idle     the quiet tenants read an object, resolve a name from a pod and start pods one by one, while nothing
         else happens
abused   the same while the abuser is at work
stall    the longest time that the API server took to answer /livez; `busy` is how long it computed meanwhile
files    of the machine, outside the cluster's directory and outside pods' folders in it, that were made or changed
restarts of processes, of their background tasks, and of quiet pods whose probes failed

Without root (or with `--hollow`) the node is hollow: its pods are only reported as running. Then nothing of DNS is
measured, a pod's start is that of its status, and abuse from inside of pods does nothing.

All clients stand for machines of their own: those of quiet tenants run before everything else of this machine, and the
abuser's only when a core has nothing else to do. The cluster's processes have the priorities that `alcove up` gives them.

Every phase ends by the clock: what has not been answered by then counts with the time it was waited for. With
`--explain` the API server's stalls are listed by what it did meanwhile (`bench.stalls`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from alcove.component.stall_recorder import read_stalls
from alcove.testing.abuse.process import KINDS, Abuse
from alcove.testing.attacks import make_attacker
from alcove.testing.cluster import HollowCluster, LocalCluster, RealCluster, lacking
from alcove.testing.hosttree import HostTree
from alcove.testing.quiet import PLAIN, QuietFigures, QuietTenant, StallMeter, raised_session
from bench import stalls

LEAD_SECONDS = 3.0
"""From the abuser's start until its effects are measured."""
QUICK_SECONDS_MAX = 90.0
ENDING_SECONDS = 20.0
"""Kept of the former for the last pod start, the second look at all files and the removal of the cluster."""
STALLS = "stalls"
OVERRUN_SECONDS = 4.0
"""How long a pod that is being started at the end of a phase is waited for."""


class Phases:
    """How long each phase may take, and when it was over."""

    def __init__(self, quick: bool) -> None:
        self._quick = quick
        self._began = time.monotonic()
        self.idle_seconds = 8.0 if quick else 30.0

    @property
    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def abused_seconds(self) -> float:
        """Less if a busy machine took long to start the cluster."""
        left = QUICK_SECONDS_MAX - ENDING_SECONDS - LEAD_SECONDS - self._elapsed_seconds
        return min(20.0, max(5.0, left)) if self._quick else 60.0

    def note(self, what: str) -> None:
        print(f"{self._elapsed_seconds:6.1f} s  {what}", flush=True)


def measure(quiet: list[QuietTenant], seconds: float) -> QuietFigures:
    """All tenants at the same time; the first one also starts pods."""
    total = QuietFigures()
    with raised_session(), ThreadPoolExecutor(len(quiet)) as threads:
        for figures in threads.map(
            lambda each: each[1].measure(seconds, starts=each[0] == 0, overrun_seconds=OVERRUN_SECONDS),
            enumerate(quiet),
        ):
            total.add(figures)
    return total


def figures_of(phase: str, found: QuietFigures, stall: StallMeter) -> dict[str, float]:
    """Only what was measured."""
    figures = {
        f"quiet_get_p99_ms_{phase}": round(found.get_p99_ms, 2),
        f"quiet_dns_p99_ms_{phase}": round(found.dns_p99_ms, 2),
        f"quiet_pod_start_p50_ms_{phase}": round(found.start_p50_ms, 1),
        f"quiet_failures_{phase}": len(found.failures),
        f"quiet_pod_starts_{phase}": len(found.start_ms),
        f"api_longest_stall_ms_{phase}": round(stall.longest_ms, 1),
        f"api_longest_stall_busy_ms_{phase}": round(stall.busy_ms, 1),
    }
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def new_cluster(folder: Path, *, hollow: bool, explain: bool) -> RealCluster | HollowCluster:
    why = "asked for" if hollow else lacking()
    options = ("--stalls", str(folder / STALLS)) if explain else ()
    if not why:
        return RealCluster(folder, server_options=options)
    print(f"the node is hollow ({why}): no DNS is measured, and pods have no containers")
    return HollowCluster(folder, server_options=options)


def runtime_class(cluster: LocalCluster) -> str:
    """The class of pods in the strongest runtime that works here; empty for the default."""
    if not isinstance(cluster, RealCluster):
        return ""
    if cluster.runs_gvisor:
        print("pods run in gVisor")
        return ""
    print("gVisor does not work here: pods run in plain containers")
    return PLAIN


def run(cluster: LocalCluster, phases: Phases, kinds: list[str], tenants: int) -> dict[str, float]:
    phases.note("the cluster is ready")
    chosen = runtime_class(cluster)
    spec = {"runtimeClassName": chosen} if chosen else {}
    quiet = [QuietTenant(cluster, f"quiet-{number}", **spec) for number in range(tenants)]
    target = make_attacker(cluster, chosen)
    measure(quiet, 1.0)  # The first pod finds everything cold.
    files = HostTree.look(cluster)
    phases.note("tenants have their pods")
    with StallMeter(cluster.server) as stall:
        figures = figures_of("idle", measure(quiet, phases.idle_seconds), stall)
        phases.note("measured idle")
        with Abuse(target, [each for each in kinds if cluster.runs_pods or each != "dns_flood"]) as abuse:
            time.sleep(LEAD_SECONDS)
            stall.reset()
            began = time.time()
            found = measure(quiet, phases.abused_seconds)
            figures |= figures_of("abused", found, stall)
            ended = time.time()
    phases.note("measured abused")
    changed = files.changes(HostTree.look(cluster))
    restarts = cluster.restarts + sum(each.restarts for each in quiet)
    _explain(abuse, found, changed, cluster)
    for line in stalls.report(
        each for each in read_stalls(cluster.directory / STALLS) if began < each.at < ended
    ):
        print(line)
    return {
        **figures,
        "api_longest_stall_ms": figures["api_longest_stall_ms_abused"],
        "host_files_changed": len(changed),
        "restarts": restarts,
    }


def _explain(abuse: Abuse, found: QuietFigures, changed: list[str], cluster: LocalCluster) -> None:
    """What lies behind the figures: the abuser's answers, failures, files, and dead processes."""
    for what, count in abuse.outcomes.items():
        print(f"  abuse: {what:36}{count:>10}")
    for failure in sorted(set(found.failures))[:20]:
        print(f"  quiet tenants: {failure} ({found.failures.count(failure)})")
    for path in changed[:20]:
        print(f"  file: {path}")
    for name, process in cluster.processes.items():
        if not process.is_running:
            print(f"  ended: {name}\n{process.log[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="within 90 seconds")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--tenants", type=int, default=3, help="so many quiet tenants")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="of abuse")
    parser.add_argument("--hollow", action="store_true", help="run no containers; needs no rights")
    parser.add_argument("--explain", action="store_true", help="list what the API server did when it stalled")
    options = parser.parse_args()
    # As the Makefile does: each process would compile every module again, which takes longer than to start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The quiet tenants' threads share an interpreter, and would wait for each other for 5 ms at a time.
    sys.setswitchinterval(0.0002)
    phases = Phases(options.quick)
    with (
        tempfile.TemporaryDirectory(prefix="bench-abuse-", ignore_cleanup_errors=True) as folder,
        new_cluster(Path(folder), hollow=options.hollow, explain=options.explain) as cluster,
    ):
        figures = run(cluster, phases, options.kinds, options.tenants)
        cluster.kill()
    phases.note("the cluster is removed")
    for name, value in figures.items():
        print(f"{name:34}{value:>12}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
