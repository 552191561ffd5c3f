"""Failed pods: which of them count, the pod failure policy, and the backoff. Pure."""

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
    """Whether a pod is replaced only when it has terminated, not while it is terminating."""
    spec = job.get("spec") or {}
    return spec.get("podReplacementPolicy") == "Failed" or bool(spec.get("podFailurePolicy"))


def has_failed(job: Object, pod: Object) -> bool:
    if pods.phase(pod) == "Failed":
        return True
    return pods.is_terminating(pod) and pods.phase(pod) != "Succeeded" and not replaces_failed_only(job)


def evaluate_failure(job: Object, pod: Object) -> PodFailureVerdict:
    """Evaluates a failed pod by the first matching rule of the pod failure policy; without one, it counts."""
    for at, rule in enumerate(get(job, "spec", "podFailurePolicy", "rules", default=())):
        message = _match_rule(rule, pod)
        if message:
            return PodFailureVerdict(
                FailureAction(rule["action"]), f"{message} matching {rule['action']} rule at index {at}"
            )
    return PodFailureVerdict(FailureAction.COUNT)


def _match_rule(rule: Object, pod: Object) -> str:
    """A message that describes how the pod matches the rule; empty if it does not match."""
    if (exit_codes := rule.get("onExitCodes")) is not None:
        return _match_exit_code(exit_codes, pod)
    for pattern in rule.get("onPodConditions") or ():
        condition = pods.condition(pod, pattern.get("type", ""))
        if condition is not None and condition.get("status") == (pattern.get("status") or "True"):
            return f"Pod {_name(pod)} has condition {condition['type']}"
    return ""


def _match_exit_code(requirement: Object, pod: Object) -> str:
    values, is_in = requirement.get("values") or (), requirement.get("operator") == "In"
    for status in _container_statuses(pod):
        code = get(status, "state", "terminated", "exitCode")
        named = requirement.get("containerName") in (None, status.get("name"))
        if code and named and (code in values) is is_in:
            return f"Container {status['name']} for pod {_name(pod)} failed with exit code {code}"
    return ""


def _container_statuses(pod: Object) -> Sequence[Object]:
    status = pod.get("status") or {}
    return [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def finished_at(pod: Object) -> float:
    """When the pod terminated, from its containers or else its Ready condition, and its deletion timestamp;
    its creation time if it has none of these."""
    timestamps = [get(each, "state", "terminated", "finishedAt") for each in _container_statuses(pod)]
    if not any(timestamps):
        ready = pods.condition(pod, "Ready") or {}
        timestamps = [ready.get("lastTransitionTime")]
    timestamps.append(pod["metadata"].get("deletionTimestamp"))
    times = [meta.parse_time(each) for each in timestamps if each]
    return max(times, default=meta.parse_time(pod["metadata"]["creationTimestamp"]))


def wait_seconds(failed: Iterable[Object], succeeded: Iterable[Object], now: float) -> float:
    """The remaining backoff in seconds: doubles with each failure since the last success, and counts from the
    last failure."""
    last_success = max((finished_at(pod) for pod in succeeded), default=0.0)
    times = [at for pod in failed if (at := finished_at(pod)) > last_success]
    if not times:
        return 0.0
    backoff = min(BACKOFF_SECONDS_FIRST * 2.0 ** min(len(times) - 1, 10), BACKOFF_SECONDS_MAX)
    return max(0.0, max(times) + backoff - now)
