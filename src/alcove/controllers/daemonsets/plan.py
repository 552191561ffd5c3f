"""What a daemon set does on its nodes next. Pure."""

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
    """The oldest first."""
    result: dict[str, list[Object]] = {}
    for pod in sorted(
        owned, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"])
    ):
        result.setdefault(node_of(pod), []).append(pod)
    return result


def plan(
    daemon_set: Object, owned: Sequence[Object], fits: Mapping[str, NodeFit], revision: str, now: float
) -> DaemonSetPlan:
    """First every node gets its pod; then, while enough are available, outdated ones are replaced."""
    result = DaemonSetPlan()
    if "deletionTimestamp" in daemon_set["metadata"]:
        return result
    there = by_node(owned)
    for node, on_it in there.items():
        # A node that is unknown may be one that left: the pods of such are pod GC's to clear away.
        if node in fits:
            _tidy(daemon_set, on_it, fits[node], revision, now, result)
    result.create.extend(node for node, fit in fits.items() if fit.runs and not there.get(node))
    if get(daemon_set, "spec", "updateStrategy", "type", default="RollingUpdate") == "RollingUpdate":
        _roll(daemon_set, there, fits, revision, now, result)
    return result


def _tidy(
    daemon_set: Object,
    on_it: Sequence[Object],
    fit: NodeFit,
    revision: str,
    now: float,
    result: DaemonSetPlan,
) -> None:
    living = [pod for pod in on_it if not pods.is_ending(pod)]
    if not fit.stays:
        result.delete.extend(living)
        return
    ended = [pod for pod in living if pods.is_finished(pod)]
    result.delete.extend(ended)
    running = [pod for pod in living if not pods.is_finished(pod)]
    fresh = [pod for pod in running if labels(pod).get(REVISION) == revision]
    if len(running) <= 1:
        return
    if not fresh or len(fresh) == len(running):
        result.delete.extend(running[1:])
    elif any(_is_available(daemon_set, pod, now) for pod in fresh):
        result.delete.extend(pod for pod in running if pod is not fresh[0])


def _is_available(daemon_set: Object, pod: Object, now: float) -> bool:
    return pods.is_available(pod, daemon_set["spec"].get("minReadySeconds", 0), now)


def _part(value: int | str, whole: int) -> int:
    """Percentages are rounded up."""
    return value if isinstance(value, int) else math.ceil(whole * int(value.removesuffix("%")) / 100)


def _roll(
    daemon_set: Object,
    there: Mapping[str, list[Object]],
    fits: Mapping[str, NodeFit],
    revision: str,
    now: float,
    result: DaemonSetPlan,
) -> None:
    desired = [node for node, fit in fits.items() if fit.runs]
    rolling = get(daemon_set, "spec", "updateStrategy", "rollingUpdate", default={})
    surge = _part(rolling.get("maxSurge", 0), len(desired))
    spare = max(_part(rolling.get("maxUnavailable", 1), len(desired)), 0 if surge else 1)
    available: list[Object] = []
    for node in desired:
        living = [pod for pod in there.get(node, ()) if pods.is_active(pod)]
        good = [pod for pod in living if _is_available(daemon_set, pod, now)]
        old = [pod for pod in living if labels(pod).get(REVISION) != revision]
        if not good:
            spare -= 1
            # It does not work anyway: replacing it costs nothing.
            result.delete.extend(pod for pod in old if not _is_among(pod, result.delete))
        elif old and len(living) == 1:
            available.append(old[0])
        elif old:
            surge -= 1
    if surge > 0:
        result.create.extend(node_of(pod) for pod in available[:surge])
    elif not rolling.get("maxSurge"):
        result.delete.extend(available[: max(0, spare)])


def _is_among(pod: Object, others: Sequence[Object]) -> bool:
    return any(pod is each for each in others)


def status(
    daemon_set: Object, owned: Sequence[Object], fits: Mapping[str, NodeFit], revision: str, now: float
) -> Object:
    there = {
        node: [pod for pod in on_it if not pods.is_finished(pod)] for node, on_it in by_node(owned).items()
    }
    desired = {node for node, fit in fits.items() if fit.runs}
    firsts = [there[node][0] for node in desired if there.get(node)]
    available = sum(
        1 for node in desired if any(_is_available(daemon_set, pod, now) for pod in there.get(node, ()))
    )
    old = daemon_set.get("status") or {}
    kept = {name: value for name, value in old.items() if name in ("collisionCount", "conditions")}
    counts = {
        "currentNumberScheduled": len(firsts),
        "desiredNumberScheduled": len(desired),
        "numberMisscheduled": sum(
            1 for node, on_it in there.items() if on_it and node in fits and not fits[node].runs
        ),
        "numberReady": sum(1 for node in desired if any(pods.is_ready(pod) for pod in there.get(node, ()))),
        "updatedNumberScheduled": sum(
            1 for node in desired if any(labels(pod).get(REVISION) == revision for pod in there.get(node, ()))
        ),
        "numberAvailable": available,
        "numberUnavailable": len(desired) - available,
    }
    shown = {name: count for name, count in counts.items() if count or name in _ALWAYS}
    return {**kept, **shown, "observedGeneration": daemon_set["metadata"].get("generation", 0)}


_ALWAYS = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")
