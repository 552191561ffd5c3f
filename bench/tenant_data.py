"""How fast a tenant is saved, restored and woken: `python -m bench.tenant_data [--quick] [--json FILE]`.

A whole cluster on this machine (API server, controllers, scheduler, one node: hollow where the machine has no rights for real ones), and the commands of
its operator.

backup_objects_per_s    objects of a tenant with many config maps, from the first request until the archive is complete
restore_objects_per_s   the same archive into another tenant, one object after another
pod_start_s             from the request that creates a pod until it is Ready: what waking is compared with
wake_s                  from the request that wakes a tenant until the first pod of its Deployment is Ready
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from alcove.api.objects import Object
from alcove.cli.connection import CliConnection, load
from alcove.cli.tenant_backup import places
from alcove.cli.tenant_backup.existing import Existing
from alcove.cli.tenant_backup.restoring import Restorer, verify
from alcove.cli.tenant_backup.saving import save
from alcove.testing.cluster import HollowCluster, LocalCluster, RealCluster, condition, lacking
from alcove.testing.server import Caller, LocalServer, wait_until

MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BODY = {"data": {"filling": "x" * 1000}}
WRITERS = 8
WAIT_SECONDS_MAX = 300.0
CONTAINER = {"name": "c", "image": "alcove/busybox", "command": ["sleep", "100000"]}
SPEC: Object = {"terminationGracePeriodSeconds": 1, "containers": [CONTAINER]}


def measure(cluster: LocalCluster, rounds: int, objects: int) -> dict[str, float]:
    figures = waking(cluster.server, cluster.make_tenant("waking"), rounds)
    source = cluster.make_tenant("source")
    cluster.make_tenant("target")
    return figures | data(cluster.server, source, "target", objects)


def fill(caller: Caller, objects: int) -> None:
    def write(first: int) -> None:
        own = Caller(caller.kubeconfig)
        for number in range(first, objects, WRITERS):
            assert own.post(MAPS, {"metadata": {"name": f"m-{number}"}, **BODY}).status == 201
        own.close()

    writers = [threading.Thread(target=write, args=(first,)) for first in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def data(server: LocalServer, source: Caller, target: str, objects: int) -> dict[str, float]:
    """Figures of a backup, and of its restore to the tenant `target`."""
    fill(source, objects)
    user = load(server.admin_kubeconfig)
    connection = CliConnection(user)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "backup"
        began = time.perf_counter()
        with places.writing(str(file), b"") as out:
            saved = save(connection, "source", out)
        saved_s = time.perf_counter() - began
        archive = partial(places.reading, file, b"")
        began = time.perf_counter()
        verified = verify(archive, connection, target, Existing.KEEP)
        report = Restorer(lambda: CliConnection(user), target, Existing.KEEP, as_admin=True).restore(
            archive, verified
        )
        restored_s = time.perf_counter() - began
    assert report.created >= objects and not report.failed, report.failures
    return {
        "backup_objects_per_s": round(saved.objects / saved_s),
        "restore_objects_per_s": round(report.created / restored_s),
    }


def seconds_until(act: Callable[[], None], check: Callable[[], bool]) -> float:
    began = time.perf_counter()
    act()
    wait_until(check, WAIT_SECONDS_MAX)
    return time.perf_counter() - began


def waking(server: LocalServer, caller: Caller, rounds: int) -> dict[str, float]:
    starts = [_start(caller, f"p-{number}") for number in range(rounds)]
    template = {"metadata": {"labels": {"app": "w"}}, "spec": SPEC}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "w"}}, "template": template}
    assert caller.post(DEPLOYMENTS, {"metadata": {"name": "w"}, "spec": spec}).status == 201
    wait_until(lambda: _is_ready(_pods(caller)), WAIT_SECONDS_MAX)
    wakes = []
    for _ in range(rounds):
        _set_asleep(server, True)
        wait_until(lambda: not any(each["spec"].get("nodeName") for each in _pods(caller)), WAIT_SECONDS_MAX)
        wakes.append(seconds_until(lambda: _set_asleep(server, False), lambda: _is_ready(_pods(caller))))
    return {
        "pod_start_s": round(statistics.median(starts), 3),
        "wake_s": round(statistics.median(wakes), 3),
    }


def _start(caller: Caller, name: str) -> float:
    def create() -> None:
        assert caller.post(PODS, {"metadata": {"name": name}, "spec": SPEC}).status == 201

    seconds = seconds_until(create, lambda: _is_ready([caller.get(f"{PODS}/{name}").json]))
    caller.delete(f"{PODS}/{name}")
    wait_until(lambda: caller.get(f"{PODS}/{name}").status == 404, WAIT_SECONDS_MAX)
    return seconds


def _pods(caller: Caller) -> list[Object]:
    items: list[Object] = caller.get(PODS).json["items"]
    return items


def _is_ready(pods: list[Object]) -> bool:
    return any(
        condition(each, "Ready") == "True" and "deletionTimestamp" not in each["metadata"] for each in pods
    )


def _set_asleep(server: LocalServer, asleep: bool) -> None:
    patch = {"spec": {"sleep": {"asleep": asleep}}}
    assert server.system.patch("/api/v1/tenants/waking", patch).status == 200


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer objects; ends within a minute")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--hollow", action="store_true", help="a hollow node, also where real ones can run")
    options = parser.parse_args()
    rounds, objects = (3, 10_000) if options.quick else (20, 100_000)
    with tempfile.TemporaryDirectory() as directory:
        if options.hollow or lacking():
            with HollowCluster(Path(directory)) as hollow:
                figures = measure(hollow, rounds, objects)
        else:
            with RealCluster(Path(directory)) as real:
                figures = measure(real, rounds, objects)
    for name, value in figures.items():
        print(f"{name:<24} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
