"""What a pod's start waits for: `python -m bench.pods --explain` prints one pod's start step by step, for each runtime.

The lines come from watches, as any client has them (the pod, its endpoint in ring0), and from the agent's debug log
(when a step was done, and how long it took).
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, get, name
from alcove.client import kubeconfig
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import PODS, VPC_ENDPOINTS
from alcove.testing.cluster import condition

READINESS = "arktos.futurewei.com/network-readiness"


class Step(NamedTuple):
    at: float
    pod: str
    text: str


class Timeline:
    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, pod: str, text: str, at: float | None = None) -> None:
        self._steps.append(Step(time.time() if at is None else at, pod, text))

    @asynccontextmanager
    async def watching(self, system: Path, tenant: TenantId) -> AsyncIterator[None]:
        """Follows the tenant's pods and their endpoints, with the kubeconfig of ring0's administrator."""
        transport = HttpPool(kubeconfig.load(system))
        try:
            async with Planes(user_agent="bench-timeline") as planes:
                planes.join(HOME, transport)
                planes.mirror(ListSelection(PODS), tenant=tenant).subscribe(self._heard(_pod, name))
                owner = planes.mirror(ListSelection(VPC_ENDPOINTS), tenant=SYSTEM)
                owner.subscribe(
                    self._heard(_endpoint, lambda each: str(get(each, "spec", "pod")).rpartition("/")[2])
                )
                await planes.synced()
                yield
        finally:
            await transport.close()

    def _heard(
        self, describe: Callable[[Object], str], pod_of: Callable[[Object], str]
    ) -> Callable[[ObjectChange], None]:
        def hear(change: ObjectChange) -> None:
            self.add(pod_of(change.obj), f"watch  {change.kind.value.lower():8} {describe(change.obj)}")

        return hear

    def read_agent_log(self, path: Path) -> None:
        """Adds the steps in the agent's debug log, which is in JSON."""
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "seconds" in record and "pod" in record:
                pod = record["pod"].partition(" ")[0].rpartition("/")[2]
                at = datetime.fromisoformat(record["time"]).timestamp()
                what = record.get("step", record["message"])
                self.add(pod, f"agent  {what} took {record['seconds'] * 1000:.1f} ms", at)

    def print(self, pod: str) -> None:
        steps = sorted(each for each in self._steps if each.pod == pod)
        for each in steps:
            print(f"{pod:12}{(each.at - steps[0].at) * 1000:10.1f} ms  {each.text}")


def _pod(found: Object) -> str:
    readiness = objects.annotations(found).get(READINESS, "-")
    phase, ready = get(found, "status", "phase"), condition(found, "Ready") or "-"
    return f"pod: node {get(found, 'spec', 'nodeName') or '-'}, network {readiness}, {phase}, ready {ready}"


def _endpoint(found: Object) -> str:
    return f"endpoint: node {get(found, 'spec', 'droplet') or '-'}, {get(found, 'spec', 'status')}"
