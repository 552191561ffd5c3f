"""What one object costs the API server and the controllers, in CPU time: made, brought to its desired state, and
deleted again, beside however many tenants there are.

CPU time and not seconds: it grows with work, and little with what else the machine does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client, ListSelection
from alcove.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    NETWORKS,
    NODES,
    PODS,
    SERVICES,
    Resource,
)
from bench.servers import cpu_seconds

AT_ONCE = 16
IDLE_LOOK_SECONDS = 0.25
IDLE_SHARE = 0.1
"""Of a core: processes that use less have nothing left to do."""
IDLE_SECONDS_MAX = 60.0
USER = TenantId("bench-user")
"""The tenant whose objects are measured."""
Step = Callable[[int], Awaitable[object]]


class CpuMeter:
    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids

    def seconds(self) -> float:
        return sum(map(cpu_seconds, self._pids()))

    async def idle(self, seconds_max: float = IDLE_SECONDS_MAX) -> None:
        """Waits until the processes have done what follows from earlier requests."""
        async with asyncio.timeout(seconds_max):
            while True:
                before = self.seconds()
                await asyncio.sleep(IDLE_LOOK_SECONDS)
                if self.seconds() - before < IDLE_SHARE * IDLE_LOOK_SECONDS:
                    return

    @contextmanager
    def measured(self, costs: dict[str, float], name: str, count: int) -> Iterator[None]:
        """Stores the milliseconds of CPU time for each of `count` objects."""
        before = self.seconds()
        yield
        costs[name] = (self.seconds() - before) * 1000 / count


async def each(count: int, step: Step) -> None:
    """Calls `step` with every number below `count`, some at once."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await step(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


class MeasuredKind(Struct, frozen=True):
    """Objects of one kind, which are made and deleted."""

    name: str
    tenant: TenantId
    resource: Resource
    body: Object

    @property
    def namespace(self) -> str:
        return "default" if self.resource.namespaced else ""

    async def make(self, client: Client, number: int) -> None:
        metadata = {**self.body.get("metadata", {}), "name": f"bench-{number}"}
        obj = {**self.body, "metadata": metadata}
        await client.create(self.tenant, self.resource, obj, namespace=self.namespace)

    async def remove(self, client: Client, number: int) -> None:
        await client.delete(self.tenant, self.resource, f"bench-{number}", namespace=self.namespace)


_WEB = {"app": "web"}
_CONTAINER = {"name": "main", "image": "example.com/app:1"}
_POLICY = {"podSelector": {"matchLabels": _WEB}, "policyTypes": ["Ingress"]}
KINDS = (
    MeasuredKind("config_map", USER, CONFIG_MAPS, {"data": {"key": "value" * 20}}),
    MeasuredKind("namespace", USER, NAMESPACES, {}),
    MeasuredKind("network", USER, NETWORKS, {"spec": {"type": "flat"}}),
    MeasuredKind("service", USER, SERVICES, {"spec": {"selector": _WEB, "ports": [{"port": 80}]}}),
    MeasuredKind("pod", USER, PODS, {"metadata": {"labels": _WEB}, "spec": {"containers": [_CONTAINER]}}),
    MeasuredKind("policy", USER, NETWORK_POLICIES, {"spec": _POLICY}),
    MeasuredKind("node", SYSTEM, NODES, {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
)


async def object_costs(client: Client, meter: CpuMeter, count: int) -> dict[str, float]:
    """Milliseconds of CPU time for each object of several kinds, made and deleted. The tenant USER must exist."""
    costs: dict[str, float] = {}
    for kind in KINDS:
        await meter.idle()
        with meter.measured(costs, kind.name, count):
            await each(count, partial(kind.make, client))
            await meter.idle()
            await each(count, partial(kind.remove, client))
            await meter.idle()
    return costs


async def reading_costs(client: Client, meter: CpuMeter, count: int) -> dict[str, float]:
    """Milliseconds of CPU time for a GET, a LIST in a namespace, a LIST of a node's pods, and the start and end of a
    watch."""

    async def get(_number: int) -> None:
        await client.get(USER, NAMESPACES, "default")

    async def list_namespace(_number: int) -> None:
        await client.list(USER, CONFIG_MAPS, namespace="default")

    async def list_of_node(_number: int) -> None:
        await client.list(ALL, PODS, fields="spec.nodeName=bench")

    async def watch(_number: int) -> None:
        selection = ListSelection(CONFIG_MAPS, namespace="default")
        async with client.watch(USER, selection, after=None, seconds_max=60) as watched:
            async for batch in watched.batches():
                if any(event.ends_initial for event in batch):
                    return

    costs: dict[str, float] = {}
    for step in (get, list_namespace, list_of_node, watch):
        await meter.idle()
        with meter.measured(costs, step.__name__, count):
            await each(count, step)
    return costs


def exponents(few: dict[str, float], many: dict[str, float], ratio: float) -> dict[str, float]:
    """The exponent of N by which each cost grows; 0 if it does not depend on N, 1 if it is proportional."""
    return {name: round(math.log(many[name] / few[name]) / math.log(ratio), 3) for name in few}
