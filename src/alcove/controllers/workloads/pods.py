"""Pod state that workload controllers base their decisions on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from alcove.api import meta, objects
from alcove.api.objects import Object, get

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
_COST_MAX = 2**31 - 1


def phase(pod: Object) -> str:
    return get(pod, "status", "phase", default="Pending")  # type: ignore[no-any-return]


def is_terminating(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_finished(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def is_active(pod: Object) -> bool:
    """Neither finished nor terminating."""
    return not is_terminating(pod) and not is_finished(pod)


def condition(obj: Object, type_: str) -> Object | None:
    conditions = get(obj, "status", "conditions", default=())
    return next((each for each in conditions if each.get("type") == type_), None)


def is_ready(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return ready is not None and ready.get("status") == "True"


def ready_since(pod: Object) -> float | None:
    """None if the pod is not ready, or its Ready condition has no transition time."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True" or not ready.get("lastTransitionTime"):
        return None
    return meta.parse_time(ready["lastTransitionTime"])


def available_in_seconds(pod: Object, min_ready_seconds: int, now: float) -> float | None:
    """Seconds until a ready pod counts as available; 0 if it does. None if it is not ready."""
    if not is_ready(pod):
        return None
    if not min_ready_seconds:
        return 0.0
    since = ready_since(pod)
    return None if since is None else max(0.0, since + min_ready_seconds - now)


def is_available(pod: Object, min_ready_seconds: int, now: float) -> bool:
    return available_in_seconds(pod, min_ready_seconds, now) == 0.0


def next_available_seconds(pods: Iterable[Object], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next ready pod becomes available. None if no ready pod is waiting for that."""
    waits = (available_in_seconds(pod, min_ready_seconds, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def restarts(pod: Object) -> int:
    statuses: Sequence[Object] = get(pod, "status", "containerStatuses", default=())
    return max((int(each.get("restartCount", 0)) for each in statuses), default=0)


def deletion_cost(pod: Object) -> int:
    text = objects.annotations(pod).get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        return 0
    cost = int(text)
    return cost if -_COST_MAX - 1 <= cost <= _COST_MAX else 0


def first_to_delete(neighbours: Iterable[Object], now: float) -> Callable[[Object], Any]:
    """A sort key that puts the pods to delete first, as in Kubernetes.

    Pods without a node, not yet running, not ready; with the lowest deletion cost; on nodes with more of
    `neighbours` (active pods of the same application); ready for a shorter time (compared by powers of two,
    so that pods of about the same age are equal); with more restarts; younger.
    """
    on_node = Counter(get(pod, "spec", "nodeName", default="") for pod in neighbours if is_active(pod))

    def key(pod: Object) -> Any:
        node = get(pod, "spec", "nodeName", default="")
        ready = ready_since(pod)
        return (
            bool(node),
            _PHASES.get(phase(pod), 0),
            is_ready(pod),
            deletion_cost(pod),
            -on_node[node] if node else 0,
            _age(ready, now) if ready is not None else 0,
            -restarts(pod),
            _age(meta.parse_time(pod["metadata"]["creationTimestamp"]), now),
            pod["metadata"].get("uid", ""),
        )

    return key


def _age(since: float, now: float) -> int:
    return int(math.log2(max(1.0, now - since)))
