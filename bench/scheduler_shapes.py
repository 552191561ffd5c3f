"""Decisions alone, on one core: the core is fed nodes and pods, and asked for decisions until there are none.

The shapes are those of Kubernetes' scheduler_perf (nodes of 4 CPUs and 32 GiB, pods of 100m and 500 MiB),
with as many nodes and pods as its workloads that have a threshold, so that figures compare. What comes by the
clock there (a pod every 200 ms) comes by the number of decisions here, as often as at the pace of the
threshold or more often. Measured is what one core is at work from the first to the last decision: on an idle
machine that is the time it takes, and on a busy one it says the same. Every decision is answered at once, as
a plane would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Preempt
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.nodes import HOSTNAME, ZONE
from alcove.testing.scheduling import far, near, node, pod, spread, term

TENANT = TenantId("acme")
SMALL: dict[str, Any] = {"cpu": "100m", "memory": "500Mi"}
GREEN, BLUE = {"color": "green"}, {"color": "blue"}


class Measured(Struct, frozen=True):
    pods: int
    seconds: float

    @property
    def per_s(self) -> float:
        return self.pods / self.seconds


class Bench:
    def __init__(self, nodes: int, zones: tuple[str, ...] = ()) -> None:
        self.core = Scheduler(time.monotonic, flights_max=1 << 30)
        self._pods: dict[str, Object] = {}
        for number in range(nodes):
            labels = {ZONE: zones[number % len(zones)]} if zones else {}
            self.see(ObjectKind.NODE, node(f"node-{number}", labels), SYSTEM)

    def see(self, kind: ObjectKind, obj: Object, tenant: TenantId = TENANT, gone: bool = False) -> None:
        self.core.observe(SchedulerEvent(HOME, tenant, kind, obj, gone))

    def add(self, count: int, make: Callable[[int], Object]) -> None:
        for number in range(count):
            self.put(make(number))

    def put(self, made: Object) -> None:
        self._pods[made["metadata"]["uid"]] = made
        self.see(ObjectKind.POD, made)

    def run(self, churn: Iterator[None] | None = None, every: int = 100, counted: str = "") -> Measured:
        """Decide all there is. `churn` is asked to do its worst after so many decisions; counted are pods
        whose names begin so."""
        placed = decided = 0
        started = time.process_time()
        while (decision := self.core.schedule_next()) is not None or self.core.fairness.has_ready:
            decided += 1
            if isinstance(decision, BindPod):
                placed += decision.pod.name.startswith(counted)
                self.core.bound(decision.pod)
            elif isinstance(decision, Preempt):
                for victim in decision.victims:
                    self.see(ObjectKind.POD, self._pods[victim.uid], gone=True)
            if churn is not None and decided % every == 0:
                next(churn, None)
        return Measured(placed, time.process_time() - started)


def basic(nodes: int, pods: int) -> Measured:
    bench = Bench(nodes)
    bench.add(1000, lambda number: pod(f"init-{number}", **SMALL))
    bench.run()
    bench.add(pods, lambda number: pod(f"pod-{number}", **SMALL))
    return bench.run()


def daemon_set(nodes: int, pods: int) -> Measured:
    """Each pod names the one node it is for, which takes all of them."""
    bench = Bench(nodes)
    bench.see(ObjectKind.NODE, node("the-node", pods="90000"), SYSTEM)
    expression = {"key": "metadata.name", "operator": "In", "values": ["the-node"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    bench.add(pods, lambda number: pod(f"pod-{number}", affinity=affinity))
    return bench.run()


def node_affinity(nodes: int, pods: int) -> Measured:
    expression = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    bench = Bench(nodes, ("zone1",))
    bench.add(5000, lambda number: pod(f"init-{number}", affinity=affinity, **SMALL))
    bench.run()
    bench.add(pods, lambda number: pod(f"pod-{number}", affinity=affinity, **SMALL))
    return bench.run()


def pod_affinity(nodes: int, pods: int) -> Measured:
    """All in one zone, in either of two namespaces."""
    affinity = near(term(BLUE, ZONE, namespaces=["sched-1", "sched-0"]))
    bench = Bench(nodes, ("zone1",))

    def make(namespace: str, number: int) -> Object:
        return pod(f"pod-{number}", BLUE, namespace=namespace, affinity=affinity, **SMALL)

    bench.add(5000, lambda number: make("sched-0", number))
    bench.run()
    bench.add(pods, lambda number: make("sched-1", number))
    return bench.run()


def anti_affinity(nodes: int, pods: int) -> Measured:
    """No two on one node, in either of two namespaces."""
    affinity = far(term(GREEN, HOSTNAME, namespaces=["sched-1", "sched-0"]))
    bench = Bench(nodes)

    def make(namespace: str, number: int) -> Object:
        return pod(f"pod-{number}", GREEN, namespace=namespace, affinity=affinity, **SMALL)

    bench.add(1000, lambda number: make("sched-0", number))
    bench.run()
    bench.add(pods, lambda number: make("sched-1", number))
    return bench.run()


def topology_spread(nodes: int, pods: int) -> Measured:
    bench = Bench(nodes, ("moon-1", "moon-2", "moon-3"))
    bench.add(5000, lambda number: pod(f"init-{number}", **SMALL))
    bench.run()
    constraint = spread(BLUE, ZONE, 5)
    bench.add(
        pods, lambda number: pod(f"pod-{number}", BLUE, topologySpreadConstraints=[constraint], **SMALL)
    )
    return bench.run()


def controller_spread(nodes: int, pods: int) -> Measured:
    """Pods of one ReplicaSet, which spread over nodes and zones by default."""
    bench = Bench(nodes, ("moon-1", "moon-2", "moon-3"))
    bench.add(pods, lambda number: pod(f"pod-{number}", BLUE, owner="replicas", **SMALL))
    return bench.run()


def _full(nodes: int) -> Bench:
    """Every node has 400m of CPU left beside four unimportant pods."""
    bench = Bench(nodes)
    bench.add(4 * nodes, lambda number: pod(f"low-{number}", cpu="900m", memory="500Mi"))
    bench.run()
    return bench


def _important(number: int) -> Object:
    return pod(f"high-{number}", cpu="3000m", memory="500Mi", priority=10)


def preemption(nodes: int, pods: int) -> Measured:
    """Each pod costs three others their place."""
    bench = _full(nodes)
    bench.add(pods, _important)
    return bench.run()


def beside_preemption(nodes: int, pods: int) -> Measured:
    """Pods that fit, while others come that cost some their place (scheduler_perf's PreemptionAsync)."""
    bench = _full(nodes)
    bench.add(pods, lambda number: pod(f"pod-{number}", **SMALL))

    def churn() -> Iterator[None]:
        for number in count():
            bench.put(_important(number))
            yield

    return bench.run(churn(), every=32, counted="pod-")


def beside_unschedulable(nodes: int, pods: int) -> Measured:
    """Pods that fit, while others come that fit nowhere and stay."""
    bench = Bench(nodes)
    bench.add(100, lambda number: pod(f"init-{number}", **SMALL))
    bench.run()
    bench.add(pods, lambda number: pod(f"pod-{number}", **SMALL))

    def churn() -> Iterator[None]:
        for number in count():
            bench.put(pod(f"large-{number}", cpu="9", memory="500Mi", priority=10))
            yield

    return bench.run(churn(), every=32)


def mixed_churn(nodes: int, pods: int) -> Measured:
    """While pods are placed, useless nodes come and go, and pods that fit nowhere."""
    bench = Bench(nodes)
    bench.add(pods, lambda number: pod(f"pod-{number}", **SMALL))

    def churn() -> Iterator[None]:
        for number in count():
            useless = node(f"churn-{number}", pods="0")
            large = pod(f"large-{number}", cpu="9", priority=10)
            bench.see(ObjectKind.NODE, useless, SYSTEM)
            bench.see(ObjectKind.POD, large)
            yield
            bench.see(ObjectKind.NODE, useless, SYSTEM, gone=True)
            bench.see(ObjectKind.POD, large, gone=True)

    return bench.run(churn())


def all_different(nodes: int, pods: int) -> Measured:
    """No pod asks for what another asks for: nothing is known of one from the other."""
    bench = Bench(nodes)
    bench.add(pods, lambda number: pod(f"pod-{number}", cpu=f"{100 + number}m", memory="500Mi"))
    return bench.run()


def many_tenants(nodes: int, pods: int) -> Measured:
    """Pods of a hundred tenants, taking turns."""
    bench = Bench(nodes)
    for number in range(pods):
        bench.see(ObjectKind.POD, pod(f"pod-{number}", **SMALL), TenantId(f"tenant-{number % 100}"))
    return bench.run()
