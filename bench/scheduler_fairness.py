"""How well shares follow weights: a cluster that is always full, tenants that always want more.

Pods of random sizes end at random; what they leave goes to whom fairness says. The error is how far the
worst tenant's share over the whole run is from its weight, as a part of what it should have.
"""

from __future__ import annotations

import time
from collections import Counter
from random import Random

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, ScheduledPodRef
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.testing.scheduling import node, pod

WEIGHTS = (1, 1, 2, 3, 5, 8)
NODES = 50
AT_FIRST, PENDING = 4000, 100
"""Pods that each tenant has in line: at first more than the whole cluster takes, then always some."""


class Backlogged:
    def __init__(self, random: Random) -> None:
        self._random = random
        self.core = Scheduler(time.monotonic, flights_max=1 << 30)
        self._count = 0
        self._objects: dict[str, Object] = {}
        self._pending: Counter[TenantId] = Counter()
        self.running: list[ScheduledPodRef] = []
        self.tenants = {
            TenantId(f"weight-{weight}-{number}"): weight for number, weight in enumerate(WEIGHTS)
        }
        for number in range(NODES):
            self.core.observe(
                SchedulerEvent(
                    HOME, SYSTEM, ObjectKind.NODE, node(f"n{number}", cpu="32", memory="128Gi", pods="1000")
                )
            )
        for tenant, weight in self.tenants.items():
            made: Object = {"metadata": {"name": tenant}, "spec": {"weight": weight}}
            self.core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.TENANT, made))

    def fill(self, pending: int = PENDING) -> None:
        """Every tenant has so many in line; place all that fits."""
        for tenant in self.tenants:
            while self._pending[tenant] < pending:
                self._count += 1
                asked = self._random.choice(("100m", "200m", "400m", "800m"))
                made = pod(f"p{self._count}", cpu=asked, memory=f"{self._random.choice((128, 512, 1024))}Mi")
                self._objects[made["metadata"]["uid"]] = made
                self._pending[tenant] += 1
                self.core.observe(SchedulerEvent(HOME, tenant, ObjectKind.POD, made))
        while (decision := self.core.schedule_next(may_report=False)) or self.core.fairness.has_ready:
            if isinstance(decision, BindPod):
                self.core.bound(decision.pod)
                self._pending[decision.pod.tenant] -= 1
                self.running.append(decision.pod)

    def end_some(self, count: int) -> None:
        for _ in range(count):
            index = self._random.randrange(len(self.running))
            self.running[index], self.running[-1] = self.running[-1], self.running[index]
            ended = self.running.pop()
            gone = self._objects.pop(ended.uid)
            self.core.observe(SchedulerEvent(HOME, ended.tenant, ObjectKind.POD, gone, True))


def share_error(rounds: int, seed: int = 7) -> float:
    backlogged = Backlogged(Random(seed))
    fairness = backlogged.core.fairness
    totals: Counter[TenantId] = Counter()
    backlogged.fill(AT_FIRST)
    for _ in range(rounds):
        backlogged.end_some(20)
        backlogged.fill()
        for tenant in backlogged.tenants:
            totals[tenant] += round(1e9 * fairness.share(fairness.account(tenant)))
    fair = [totals[tenant] / weight for tenant, weight in backlogged.tenants.items()]
    mean = sum(fair) / len(fair)
    return max(abs(each - mean) / mean for each in fair)
