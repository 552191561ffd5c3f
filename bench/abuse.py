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
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from alcove.testing.abuse.process import KINDS, Abuse
from alcove.testing.attacks import make_attacker, runs_gvisor
from alcove.testing.cluster import RealCluster, lacking
from alcove.testing.hosttree import HostTree
from alcove.testing.quiet import PLAIN, QuietFigures, QuietTenant, StallMeter

LEAD_SECONDS = 3.0
"""From the abuser's start until its effects are measured."""


def measure(quiet: list[QuietTenant], seconds: float) -> QuietFigures:
    """All tenants at the same time; the first one also starts pods."""
    total = QuietFigures()
    with ThreadPoolExecutor(len(quiet)) as threads:
        for figures in threads.map(
            lambda each: each[1].measure(seconds, starts=each[0] == 0), enumerate(quiet)
        ):
            total.add(figures)
    return total


def figures_of(phase: str, found: QuietFigures, stall: StallMeter) -> dict[str, float]:
    return {
        f"quiet_get_p99_ms_{phase}": round(found.get_p99_ms, 2),
        f"quiet_dns_p99_ms_{phase}": round(found.dns_p99_ms, 2),
        f"quiet_pod_start_p50_ms_{phase}": round(found.start_p50_ms, 1),
        f"quiet_failures_{phase}": len(found.failures),
        f"quiet_pods_started_{phase}": len(found.start_ms),
        f"api_longest_stall_ms_{phase}": round(stall.longest_ms, 1),
        f"api_longest_stall_busy_ms_{phase}": round(stall.busy_ms, 1),
    }


def run(quick: bool, kinds: list[str], tenants: int) -> dict[str, float]:
    if why := lacking():
        raise SystemExit(f"no pods can be run here: {why}")
    idle_seconds, abused_seconds = (10.0, 25.0) if quick else (30.0, 60.0)
    with tempfile.TemporaryDirectory(prefix="bench-abuse-") as folder, RealCluster(Path(folder)) as cluster:
        gvisor = runs_gvisor(cluster)
        spec = {} if gvisor else {"runtimeClassName": PLAIN}
        print("pods run in gVisor" if gvisor else "gVisor does not work here: pods run in plain containers")
        quiet = [QuietTenant(cluster, f"quiet-{number}", **spec) for number in range(tenants)]
        target = make_attacker(cluster, "" if gvisor else PLAIN)
        measure(quiet, 1.0)  # The first pod finds everything cold.
        files = HostTree.look(cluster)
        with StallMeter(cluster.server) as stall:
            figures = figures_of("idle", measure(quiet, idle_seconds), stall)
            with Abuse(target, kinds) as abuse:
                time.sleep(LEAD_SECONDS)
                stall.reset()
                found = measure(quiet, abused_seconds)
                figures |= figures_of("abused", found, stall)
        changed = files.changes(HostTree.look(cluster))
        restarts = cluster.restarts + sum(each.restarts for each in quiet)
        _explain(abuse, found, changed, cluster)
    return {
        **figures,
        "api_longest_stall_ms": figures["api_longest_stall_ms_abused"],
        "host_files_changed": len(changed),
        "restarts": restarts,
    }


def _explain(abuse: Abuse, found: QuietFigures, changed: list[str], cluster: RealCluster) -> None:
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
    options = parser.parse_args()
    figures = run(options.quick, options.kinds, options.tenants)
    for name, value in figures.items():
        print(f"{name:34}{value:>12}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
