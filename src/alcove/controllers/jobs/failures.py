"""Failed pods: which count, what a failure policy makes of them, and how long to wait after them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.workloads import pods

BACKOFF_SECONDS_FIRST = 10.0
BACKOFF_SECONDS_MAX = 600.0


class FailureAction(Enum):
    COUNT = "Count"
    IGNORE = "Ignore"
    FAIL_INDEX = "FailIndex"
    FAIL_JOB = "FailJob"


class PodFailureVerdict(Struct, frozen=True):
    action: FailureAction
    message: str = ""


def replaces_failed_only(job: Object) -> bool:
    """A pod is replaced when it has ended, not when it begins to."""
    spec = job.get("spec") or {}
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def has_failed(job: Object, pod: Object) -> bool:
    if pods.phase(pod) == "Failed":
        return True
    return pods.is_ending(pod) and pods.phase(pod) != "Succeeded" and not replaces_failed_only(job)


def judge(job: Object, pod: Object) -> PodFailureVerdict:
    """By the first rule of the job's policy that fits; without one, it counts."""
    for at, rule in enumerate(get(job, "spec", "podFailurePolicy", "rules", default=())):
        message = _fits(rule, pod)
        if message:
            return PodFailureVerdict(
                FailureAction(rule["action"]), f"{message} matching {rule['action']} rule at index {at}"
            )
    return PodFailureVerdict(FailureAction.COUNT)


def _fits(rule: Object, pod: Object) -> str:
    """What of the pod fits the rule, or nothing."""
    if (desired := rule.get("onExitCodes")) is not None:
        return _fits_exit_code(desired, pod)
    for pattern in rule.get("onPodConditions") or ():
        found = pods.condition(pod, pattern.get("type", ""))
        if found is not None and found.get("status") == (pattern.get("status") or "True"):
            return f"Pod {_name(pod)} has condition {found['type']}"
    return ""


def _fits_exit_code(desired: Object, pod: Object) -> str:
    values, inside = desired.get("values") or (), desired.get("operator") == "In"
    for status in _container_statuses(pod):
        code = get(status, "state", "terminated", "exitCode")
        named = desired.get("containerName") in (None, status.get("name"))
        if code and named and (code in values) is inside:
            return f"Container {status['name']} for pod {_name(pod)} failed with exit code {code}"
    return ""


def _container_statuses(pod: Object) -> Sequence[Object]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def finished_at(pod: Object) -> float:
    """When it ended, as well as it tells: its containers, else its conditions, else its deletion."""
    told = [get(each, "state", "terminated", "finishedAt") for each in _container_statuses(pod)]
    if not any(told):
        ready = pods.condition(pod, "Ready") or {}
        told = [ready.get("lastTransitionTime")]
    told.append(pod["metadata"].get("deletionTimestamp"))
    times = [meta.parse_time(each) for each in told if each]
    return max(times, default=meta.parse_time(pod["metadata"]["creationTimestamp"]))


def wait_seconds(failed: Iterable[Object], succeeded: Iterable[Object], now: float) -> float:
    """How long no pod is made after failures in a row: twice as long after each, from the last one on."""
    last_success = max((finished_at(pod) for pod in succeeded), default=0.0)
    times = [at for pod in failed if (at := finished_at(pod)) > last_success]
    if not times:
        return 0.0
    waits = min(BACKOFF_SECONDS_FIRST * 2.0 ** min(len(times) - 1, 10), BACKOFF_SECONDS_MAX)
    return max(0.0, max(times) + waits - now)
