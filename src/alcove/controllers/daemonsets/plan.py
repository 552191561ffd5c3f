"""The pods that a daemon set creates and deletes next, and its status. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from alcove.api.objects import Object, get, labels
from alcove.controllers.daemonsets.fitting import NodeFit, node_of
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.history import POD_LABEL

REVISION = POD_LABEL


class DaemonSetPlan(Struct, frozen=True):
    create: list[str] = field(default_factory=list)
    """Names of nodes."""
    delete: list[Object] = field(default_factory=list)


def by_node(owned: Sequence[Object]) -> dict[str, list[Object]]:
    """The pods of each node, oldest first."""
    result: dict[str, list[Object]] = {}
    for pod in sorted(
        owned, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"])
    ):
        result.setdefault(node_of(pod), []).append(pod)
    return result


def plan(
    daemon_set: Object, owned: Sequence[Object], fits: Mapping[str, NodeFit], revision: str, now: float
) -> DaemonSetPlan:
    """Creates missing pods, removes surplus ones, and replaces outdated pods within the update's limits."""
    result = DaemonSetPlan()
    if "deletionTimestamp" in daemon_set["metadata"]:
        return result
    pods_by_node = by_node(owned)
    for node, node_pods in pods_by_node.items():
        # An unknown node may have been deleted; the pod garbage collector removes its pods.
        if node in fits:
            _remove_surplus(daemon_set, node_pods, fits[node], revision, now, result)
    result.create.extend(node for node, fit in fits.items() if fit.runs and not pods_by_node.get(node))
    if get(daemon_set, "spec", "updateStrategy", "type", default="RollingUpdate") == "RollingUpdate":
        _roll(daemon_set, pods_by_node, fits, revision, now, result)
    return result


def _remove_surplus(
    daemon_set: Object,
    node_pods: Sequence[Object],
    fit: NodeFit,
    revision: str,
    now: float,
    result: DaemonSetPlan,
) -> None:
    remaining = [pod for pod in node_pods if not pods.is_terminating(pod)]
    if not fit.stays:
        result.delete.extend(remaining)
        return
    finished = [pod for pod in remaining if pods.is_finished(pod)]
    result.delete.extend(finished)
    running = [pod for pod in remaining if not pods.is_finished(pod)]
    current = [pod for pod in running if labels(pod).get(REVISION) == revision]
    if len(running) <= 1:
        return
    if not current or len(current) == len(running):
        result.delete.extend(running[1:])
    elif any(_is_available(daemon_set, pod, now) for pod in current):
        result.delete.extend(pod for pod in running if pod is not current[0])


def _is_available(daemon_set: Object, pod: Object, now: float) -> bool:
    return pods.is_available(pod, daemon_set["spec"].get("minReadySeconds", 0), now)


def _resolve_percentage(value: int | str, whole: int) -> int:
    """Percentages are rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.removesuffix("%")) / 100)


def _roll(
    daemon_set: Object,
    pods_by_node: Mapping[str, list[Object]],
    fits: Mapping[str, NodeFit],
    revision: str,
    now: float,
    result: DaemonSetPlan,
) -> None:
    eligible = [node for node, fit in fits.items() if fit.runs]
    rolling = get(daemon_set, "spec", "updateStrategy", "rollingUpdate", default={})
    surge = _resolve_percentage(rolling.get("maxSurge", 0), len(eligible))
    unavailable_budget = max(
        _resolve_percentage(rolling.get("maxUnavailable", 1), len(eligible)), 0 if surge else 1
    )
    available: list[Object] = []
    for node in eligible:
        active = [pod for pod in pods_by_node.get(node, ()) if pods.is_active(pod)]
        available_pods = [pod for pod in active if _is_available(daemon_set, pod, now)]
        outdated = [pod for pod in active if labels(pod).get(REVISION) != revision]
        if not available_pods:
            unavailable_budget -= 1
            # The node has no available pod, so replacing the outdated one costs no availability.
            result.delete.extend(pod for pod in outdated if not _is_among(pod, result.delete))
        elif outdated and len(active) == 1:
            available.append(outdated[0])
        elif outdated:
            surge -= 1
    if surge > 0:
        result.create.extend(node_of(pod) for pod in available[:surge])
    elif not rolling.get("maxSurge"):
        result.delete.extend(available[: max(0, unavailable_budget)])


def _is_among(pod: Object, others: Sequence[Object]) -> bool:
    return any(pod is each for each in others)


def status(
    daemon_set: Object, owned: Sequence[Object], fits: Mapping[str, NodeFit], revision: str, now: float
) -> Object:
    pods_by_node = {
        node: [pod for pod in node_pods if not pods.is_finished(pod)]
        for node, node_pods in by_node(owned).items()
    }
    eligible = {node for node, fit in fits.items() if fit.runs}
    firsts = [pods_by_node[node][0] for node in eligible if pods_by_node.get(node)]
    available = sum(
        1
        for node in eligible
        if any(_is_available(daemon_set, pod, now) for pod in pods_by_node.get(node, ()))
    )
    old = daemon_set.get("status") or {}
    retained = {name: value for name, value in old.items() if name in ("collisionCount", "conditions")}
    counts = {
        "currentNumberScheduled": len(firsts),
        "desiredNumberScheduled": len(eligible),
        "numberMisscheduled": sum(
            1
            for node, node_pods in pods_by_node.items()
            if node_pods and node in fits and not fits[node].runs
        ),
        "numberReady": sum(
            1 for node in eligible if any(pods.is_ready(pod) for pod in pods_by_node.get(node, ()))
        ),
        "updatedNumberScheduled": sum(
            1
            for node in eligible
            if any(labels(pod).get(REVISION) == revision for pod in pods_by_node.get(node, ()))
        ),
        "numberAvailable": available,
        "numberUnavailable": len(eligible) - available,
    }
    shown = {name: count for name, count in counts.items() if count or name in _ALWAYS}
    return {**retained, **shown, "observedGeneration": daemon_set["metadata"].get("generation", 0)}


_ALWAYS = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
