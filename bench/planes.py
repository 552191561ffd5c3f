"""Dedicated planes: `python -m bench.planes [--quick] [--json FILE]`. Needs root.

| figure                    | what is measured                                                                            |
|---------------------------|---------------------------------------------------------------------------------------------|
| `plane_first_ready_s`     | from creating a tenant to its administrator's list of namespaces: the first of a node, which makes the image |
| `plane_ready_s`           | the same of the others, median                                                              |
| `plane_rss_mb`            | memory of an API server with its store's process, shared pages in parts (PSS), median        |
| `planes_running`          | how many ran at the same time                                                               |
| `agent_mb_per_plane`      | what each plane after the first adds to the memory of the node's agent                        |
| `scheduler_mb_per_plane`  | to that of the scheduler                                                                    |
| `controllers_mb_per_plane`| to that of the controllers                                                                  |
| `move_1000_objects_s`     | a shared tenant with 1,000 more objects moves to an API server of its own, from the change of its mode until that serves it, its start included |
| `move_back_1000_objects_s`| the same tenant moves back                                                                   |
| `move_unavailable_s`      | how long its requests at the home plane's address were refused meanwhile, the longer of both  |
| `shared_get_p99_ms_alone` | GET of one object by a shared tenant at the home plane, before there is any plane            |
| `shared_get_p99_ms_beside`| the same beside all of them                                                                  |
| `backup_objects_per_s`, `wake_s` and others | of `bench.tenant_data`, with all planes there                              |
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from alcove.processes.memory import TRIM_SECONDS
from alcove.testing.cluster import RealCluster, condition, lacking
from alcove.testing.dedicated import DedicatedTenants
from alcove.testing.local import LocalProcess
from alcove.testing.server import Caller, wait_until
from bench import tenant_data

Figures = dict[str, float]
PLANES = (4, 50)
"""Quick, and not."""
RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}}
"""Of each API server. By default it requests a tenth of a CPU, so that a machine with two has room for 19."""
ROUNDS_AND_OBJECTS = ((2, 3_000), (5, 50_000))
"""Of `bench.tenant_data`, quick and not."""
GETS = 2_000
MOVED_OBJECTS = 1_000
MOVE_SECONDS_MAX = 60.0
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
OBJECT = "/api/v1/namespaces/default/serviceaccounts/default"
NAMESPACES = "/api/v1/namespaces"


def measure(planes: int, directory: Path) -> Figures:
    with RealCluster(directory) as cluster:
        dedicated = DedicatedTenants(cluster, directory)
        shared = cluster.make_tenant("shared")
        alone = get_p99_ms(shared)
        [agent] = cluster.agents.values()
        watched = {"agent": agent, "scheduler": cluster.scheduler, "controllers": cluster.controllers}
        names = [f"plane-{number}" for number in range(planes)]
        times = [ready_seconds(dedicated, names[0])]
        # What is loaded for the first one is there for all.
        before = settled_mb(watched)
        times += [ready_seconds(dedicated, name) for name in names[1:]]
        after = settled_mb(watched)
        pids = [dedicated.plane_pid(name) for name in names]
        return {
            "plane_first_ready_s": times[0],
            "plane_ready_s": statistics.median(times[1:]),
            "plane_rss_mb": statistics.median(tree_mb(pid) for pid in pids if pid),
            "planes_running": float(sum(1 for pid in pids if pid)),
            **{f"{name}_mb_per_plane": (after[name] - before[name]) / (planes - 1) for name in watched},
            "shared_get_p99_ms_alone": alone,
            "shared_get_p99_ms_beside": get_p99_ms(shared),
            **move_figures(cluster),
            **tenant_data.measure(cluster, *ROUNDS_AND_OBJECTS[planes > PLANES[0]]),
        }


def move_figures(cluster: RealCluster) -> Figures:
    mover = cluster.make_tenant("mover")
    for number in range(MOVED_OBJECTS):
        body = {"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 1_000}}
        assert mover.post(CONFIG_MAPS, body).status == 201
    there, refused_there = move_seconds(cluster, mover, "Dedicated")
    back, refused_back = move_seconds(cluster, mover, "Shared")
    return {
        "move_1000_objects_s": there,
        "move_back_1000_objects_s": back,
        "move_unavailable_s": max(refused_there, refused_back),
    }


def move_seconds(cluster: RealCluster, mover: Caller, mode: str) -> tuple[float, float]:
    """How long the move took, and how long requests were refused meanwhile."""
    system, path = cluster.server.system, "/api/v1/tenants/mover"
    began = time.monotonic()
    assert system.patch(path, {"spec": {"controlPlane": {"mode": mode}}}).status == 200
    refused: list[float] = []
    taken = 0.0
    while condition(system.get(path).json, "Moving") != "False" or not taken:
        now = time.monotonic()
        if mover.get(f"{CONFIG_MAPS}/m1").status != 200:
            refused += (now, time.monotonic())
        is_served = system.get(path).json["status"]["controlPlane"]["mode"] == mode
        if is_served and not taken:
            taken = time.monotonic() - began
        assert now - began < MOVE_SECONDS_MAX
    return taken, refused[-1] - refused[0] if refused else 0.0


def ready_seconds(dedicated: DedicatedTenants, name: str) -> float:
    began = time.monotonic()
    dedicated.request(name, resources=RESOURCES)
    admin = dedicated.first_caller(name)
    wait_until(lambda: admin.get(NAMESPACES).status == 200)
    taken = time.monotonic() - began
    # The next one is not measured while this one is being joined.
    dedicated.admin(name)
    return taken


def get_p99_ms(caller: Caller) -> float:
    taken = []
    for _ in range(GETS):
        began = time.perf_counter()
        assert caller.get(OBJECT).status == 200
        taken.append(time.perf_counter() - began)
    return statistics.quantiles(taken, n=100)[98] * 1_000


def settled_mb(watched: Mapping[str, LocalProcess]) -> Figures:
    """Once freed memory is returned to the kernel."""
    time.sleep(TRIM_SECONDS + 1.0)
    return {name: pss_mb(process.pid) for name, process in watched.items()}


def tree_mb(pid: int) -> float:
    """Of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return pss_mb(pid) + sum(tree_mb(int(child)) for child in children)


def pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1_024
    raise ValueError(f"no memory of process {pid} is known")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer planes: within 120 s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    options = parser.parse_args()
    if why := lacking():
        sys.stderr.write(f"cannot measure here: {why}\n")
        return 1
    with tempfile.TemporaryDirectory(prefix="bench-planes-") as directory:
        figures = measure(PLANES[0 if options.quick else 1], Path(directory))
    for key, figure in figures.items():
        sys.stdout.write(f"{key:<26}{figure:10.3f}\n")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
