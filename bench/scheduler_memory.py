"""Memory of a scheduler that knows a whole cluster: `python -m bench.scheduler_memory NODES PODS`.

Everything that the scheduler's process keeps is kept here, by the same code: mirrors of trimmed objects,
and the core. Objects are decoded one by one, as a watch brings them. Prints resident megabytes.
"""

from __future__ import annotations

import gc
import os
import sys
import time

import orjson

from alcove.api.ids import SYSTEM, Revision
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.mirror import Mirror
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.resources import NODES, PODS
from alcove.scheduler.core import Scheduler
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.object_trimming import trim_node, trim_pod
from alcove.testing.scheduling import node, pod
from bench.servers import resident_mb

TENANTS = 100
REPLICAS = 100
"""Pods of each controller."""


def _dressed(made: Object) -> bytes:
    """A pod as it is on the wire, about 2 KB."""
    container = made["spec"]["containers"][0]
    container |= {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "env": [{"name": f"NAME_{number}", "value": f"value-{number}"} for number in range(4)],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    made["spec"] |= {"serviceAccountName": "default", "dnsPolicy": "ClusterFirst", "restartPolicy": "Always"}
    made["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    made["status"] = {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for each in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [{"name": "main", "ready": True, "image": "pause:3", "restartCount": 0}],
    }
    return orjson.dumps(made)


class Known:
    def __init__(self) -> None:
        self._core = Scheduler(time.monotonic)
        self._revision = 0
        self._parts = {
            ObjectKind.NODE: self._follow(ObjectKind.NODE, Mirror(ListSelection(NODES), trim=trim_node)),
            ObjectKind.POD: self._follow(ObjectKind.POD, Mirror(ListSelection(PODS), trim=trim_pod)),
        }

    def _follow(self, kind: ObjectKind, mirror: Mirror) -> PlaneMirror:
        def hear(change: ObjectChange) -> None:
            self._core.observe(SchedulerEvent(change.key.plane, change.key.tenant, kind, change.obj))

        mirror.subscribe(hear)
        return mirror.add_plane(HOME)

    def put(self, kind: ObjectKind, tenant: str, body: bytes) -> None:
        self._revision += 1
        obj = orjson.loads(body)
        obj["metadata"]["tenant"] = tenant
        self._parts[kind].put(obj, Revision(self._revision))

    @property
    def placed(self) -> int:
        return sum(len(pods) for pods in self._core.cache.on_node.values())


def main(nodes: int, pods: int) -> None:
    known = Known()
    for number in range(nodes):
        known.put(ObjectKind.NODE, SYSTEM, orjson.dumps(node(f"node-{number}", cpu="64", memory="256Gi")))
    for number in range(pods):
        controller = number // REPLICAS
        made = pod(
            f"app-{controller}-{number:x}",
            {"app": f"app-{controller}", "pod-template-hash": f"{controller:08x}"},
            namespace=f"team-{controller % 7}",
            cpu="100m",
            memory="500Mi",
            owner=f"owner-{controller}",
            on=f"node-{number % nodes}",
        )
        known.put(ObjectKind.POD, f"tenant-{controller % TENANTS}", _dressed(made))
    assert known.placed == pods
    gc.collect()
    print(f"{resident_mb(os.getpid()):.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
