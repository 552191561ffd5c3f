"""Failures in the middle of a burst: `python -m bench.failover [--quick] [--json FILE]`.

Three API servers on three members of etcd; twelve writers create ConfigMaps, and try the next server when one fails. When a
third is done an API server is killed, when two thirds are the leading member of etcd. Printed are the 50th and 99th percentile of a creation with
its repetitions, and the longest time in which nothing was created. All of it is then there, once, at every server.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from alcove.testing.etcd import EtcdCluster
from alcove.testing.failover import Burst, servers_on

FULL, QUICK = 10_000, 3_000


def measure(directory: Path, count: int) -> dict[str, float]:
    with EtcdCluster(directory / "etcd", 3) as etcd, servers_on(etcd, directory, 3) as servers:
        calm = Burst(servers, count // 3, prefix="calm")
        calm.run({})
        burst = Burst(servers, count)
        burst.run({count // 3: servers[1].kill, 2 * count // 3: lambda: etcd.members[etcd.leader()].kill()})
        for server in (servers[0], servers[2]):
            burst.check(server.system)
    return {
        "created": count,
        "create_per_s": count / (burst.done_at[-1] - burst.done_at[0]),
        "calm_p50_ms": calm.percentile_ms(0.5),
        "calm_p99_ms": calm.percentile_ms(0.99),
        "create_p50_ms": burst.percentile_ms(0.5),
        "create_p99_ms": burst.percentile_ms(0.99),
        "longest_unavailability_ms": burst.longest_gap_ms,
        "retried_and_there": len(burst.unknown),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} creations instead of {FULL}")
    parser.add_argument("--json", type=Path, help="write the figures as one flat JSON object")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        figures = measure(Path(name), QUICK if arguments.quick else FULL)
    for figure, value in figures.items():
        print(f"{figure:30}{value:12,.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
