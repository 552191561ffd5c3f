"""Minimal nodes, pods and related objects, for tests and benchmarks of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.arrays import EVERY
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Decision, Unschedulable
from alcove.scheduler.evaluator import NO_SLOT, NodeEvaluator
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.filters.base import FilterScope
from alcove.scheduler.nodes import HOSTNAME, read_node
from alcove.scheduler.pod_tracker import PodTracker
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.profiles import PROFILES
from alcove.scheduler.scheduler_cache import SchedulerCache
from alcove.scheduler.scores import SCORES

_UIDS = count(1)


def uid() -> str:
    return f"00000000-0000-4000-8000-{next(_UIDS):012d}"


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: str = "110",
    taints: Sequence[str] = (),
    unschedulable: bool = False,
    handlers: Sequence[str] = (),
    images: Mapping[str, int] | None = None,
    **devices: str,
) -> Object:
    """Taints have the form `key=value:Effect`; further resources `gpu="4"` for `example.com/gpu`."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    allocatable |= {f"example.com/{name}": amount for name, amount in devices.items()}
    spec: Object = {"unschedulable": True} if unschedulable else {}
    if taints:
        spec["taints"] = [taint(each) for each in taints]
    status: Object = {"allocatable": allocatable, "capacity": dict(allocatable)}
    if handlers:
        status["runtimeHandlers"] = [{"name": each} for each in handlers]
    if images:
        status["images"] = [{"names": [name], "sizeBytes": size} for name, size in images.items()]
    metadata = {"name": name, "uid": uid(), "labels": {HOSTNAME: name, **(labels or {})}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def taint(text: str) -> Object:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    namespace: str = "default",
    cpu: str = "",
    memory: str = "",
    priority: int = 0,
    on: str = "",
    owner: str = "",
    **spec: Any,
) -> Object:
    """Keywords are fields of the spec (`nodeSelector={…}`); `on` is the pod's node."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    container: Object = {"name": "main", "image": "pause:3", "resources": {"requests": requests}}
    metadata: Object = {"name": name, "namespace": namespace, "uid": uid(), "labels": dict(labels or {})}
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "uid": owner, "controller": True}]
    body = {"schedulerName": "default-scheduler", "containers": [container], "priority": priority, **spec}
    if on:
        body["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def asking(**resources: str) -> list[Object]:
    """Containers with requests: `asking(cpu="1", gpu="2")`, the latter for `example.com/gpu`."""
    native = ("cpu", "memory")
    requests = {key if key in native else f"example.com/{key}": value for key, value in resources.items()}
    return [{"name": "main", "image": "pause:3", "resources": {"requests": requests}}]


def term(labels: Mapping[str, str], key: str = HOSTNAME, **more: Any) -> Object:
    """An affinity term about pods with these labels."""
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key, **more}


def near(*terms: Object) -> Object:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: Object) -> Object:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def wishes(weight: int, *terms: Object, apart: bool = False) -> Object:
    weighted = [{"weight": weight, "podAffinityTerm": each} for each in terms]
    side = "podAntiAffinity" if apart else "podAffinity"
    return {side: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def spread(labels: Mapping[str, str], key: str, skew: int = 1, hard: bool = True, **more: Any) -> Object:
    return {
        "labelSelector": {"matchLabels": dict(labels)},
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        **more,
    }


TENANT = TenantId("acme")
OTHER = TenantId("other")


class Scene:
    """A scheduler cache with nodes and placed pods, to evaluate a further pod. Nothing is queued or bound."""

    def __init__(self, *nodes: Object) -> None:
        self.cache = SchedulerCache()
        self.tracker = PodTracker(self.cache)
        self.evaluator = NodeEvaluator(self.cache, PROFILES)
        for each in nodes:
            self.cache.put_node(read_node(each))

    def pod(self, obj: Object, tenant: TenantId = TENANT) -> SchedulerPod:
        return self.tracker.read(HOME, tenant, obj)

    def place(self, obj: Object, tenant: TenantId = TENANT) -> SchedulerPod:
        """Places a pod on the node of its spec."""
        placed = self.pod(obj, tenant)
        self.cache.place(placed, obj["spec"]["nodeName"])
        return placed

    def feasible(self, obj: Object, tenant: TenantId = TENANT) -> set[str]:
        """Names of the feasible nodes."""
        ranked = self.evaluator.rank(self.pod(obj, tenant))
        return {name for name, slot in self.cache.nodes.slots.items() if ranked[slot] >= 0}

    def why(self, obj: Object, tenant: TenantId = TENANT) -> str:
        return self.evaluator.explain(self.pod(obj, tenant)).text

    def chosen(self, obj: Object, tenant: TenantId = TENANT) -> str:
        slot = self.evaluator.choose(self.pod(obj, tenant))
        return "" if slot == NO_SLOT else self.cache.nodes.name(slot)

    def scores(self, obj: Object, plugin: str, tenant: TenantId = TENANT) -> dict[str, int]:
        """One plugin's normalized score of each feasible node."""
        pod = self.pod(obj, tenant)
        feasible = self.evaluator.rank(pod) >= 0
        (score,) = (each for each, _ in SCORES if each.name == plugin)
        raw = score.raw(self.cache, pod, EVERY)
        values = raw if score.scope is FilterScope.USE else score.normalized(self.cache, pod, raw, feasible)
        slots = self.cache.nodes.slots
        return {name: int(values[slot]) for name, slot in slots.items() if feasible[slot]}


class Desk:
    """A scheduler core with a manual clock."""

    def __init__(self, *nodes: Object, **options: Any) -> None:
        self.now = 1000.0
        self.core = Scheduler(lambda: self.now, **options)
        for each in nodes:
            self.see(ObjectKind.NODE, each, SYSTEM)

    def see(
        self,
        kind: ObjectKind,
        obj: Object,
        tenant: TenantId = TENANT,
        plane: PlaneId = HOME,
        gone: bool = False,
    ) -> Object:
        self.core.observe(SchedulerEvent(plane, tenant, kind, obj, gone))
        return obj

    def pod(self, name: str, tenant: TenantId = TENANT, **spec: Any) -> Object:
        return self.see(ObjectKind.POD, pod(name, **spec), tenant)

    def decide(self) -> list[Decision]:
        found = []
        while (decision := self.core.schedule_next()) is not None:
            found.append(decision)
        return found

    def placed(self) -> dict[str, str]:
        """Runs all pending decisions; returns the nodes by pod name."""
        return {each.pod.name: each.node for each in self.decide() if isinstance(each, BindPod)}

    def unschedulable(self) -> dict[str, str]:
        return {each.pod.name: each.text for each in self.decide() if isinstance(each, Unschedulable)}
