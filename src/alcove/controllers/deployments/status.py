"""A deployment's status: counts, and the conditions Available, Progressing, ReplicaFailure. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.deployments.revisions import DeploymentReplicaSets
from alcove.controllers.deployments.scaling import bounds, replicas
from alcove.controllers.workloads.pods import condition

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
NEW_SET_AVAILABLE = "NewReplicaSetAvailable"
MOVED = "ReplicaSetUpdated"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED, RESUMED = "DeploymentPaused", "DeploymentResumed"
_NO_DEADLINE = 2**31 - 1
_COUNTS = (
    *("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
    "terminatingReplicas",
)


class DesiredCondition(Struct, frozen=True):
    type: str
    status: str
    reason: str
    message: str


def counts(deployment: Object, sets: DeploymentReplicaSets) -> Object:
    def summed(field: str, of: Sequence[Object]) -> int:
        return sum(get(each, "status", field, default=0) for each in of)

    desired = sum(replicas(each) for each in sets.all)
    available = summed("availableReplicas", sets.all)
    result: Object = {
        "replicas": summed("replicas", sets.all),
        "updatedReplicas": summed("replicas", [sets.new] if sets.new is not None else []),
        "readyReplicas": summed("readyReplicas", sets.all),
        "availableReplicas": available,
        "unavailableReplicas": max(0, desired - available),
    }
    terminating = {"terminatingReplicas": summed("terminatingReplicas", sets.all)}
    return {field: count for field, count in result.items() if count} | terminating


def is_complete(deployment: Object, status: Object) -> bool:
    desired = replicas(deployment)
    alike = all(
        status.get(field, 0) == desired for field in ("updatedReplicas", "replicas", "availableReplicas")
    )
    return alike and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)


def status(deployment: Object, sets: DeploymentReplicaSets, created: str | None, now: float) -> Object:
    """The whole new status. `created` names a replica set that was created in this reconcile."""
    old = deployment.get("status") or {}
    retained = {field: value for field, value in old.items() if field not in (*_COUNTS, "conditions")}
    new = retained | counts(deployment, sets)
    new["observedGeneration"] = deployment["metadata"].get("generation", 0)
    conditions = list(old.get("conditions") or ())
    for desired in (_progress(deployment, new, sets, created, now), _availability(deployment, new)):
        if desired is not None:
            conditions = put(conditions, desired, now)
    conditions = _with_failure(conditions, sets, now)
    if conditions:
        new["conditions"] = conditions
    return new


def put(conditions: Sequence[Object], desired: DesiredCondition, now: float) -> list[Object]:
    """`conditions` with the desired condition set. An equal condition stays unchanged, unless it reports
    progress; `lastTransitionTime` stays if only reason or message change."""
    old = next((each for each in conditions if each["type"] == desired.type), None)
    is_unchanged = old is not None and all(
        old.get(field) == getattr(desired, field) for field in ("status", "reason", "message")
    )
    if is_unchanged and desired.reason != MOVED:
        return list(conditions)
    time = meta.format_time(now)
    since = old["lastTransitionTime"] if old and old.get("status") == desired.status else time
    entry = {
        "type": desired.type,
        "status": desired.status,
        "lastUpdateTime": time,
        "lastTransitionTime": since,
        "reason": desired.reason,
        "message": desired.message,
    }
    return [*(each for each in conditions if each["type"] != desired.type), entry]


def _availability(deployment: Object, new: Object) -> DesiredCondition:
    minimum = replicas(deployment) - bounds(deployment).unavailable
    if new.get("availableReplicas", 0) >= minimum:
        return DesiredCondition(
            AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    message = "Deployment does not have minimum availability."
    return DesiredCondition(AVAILABLE, "False", "MinimumReplicasUnavailable", message)


# Progress


def deadline_seconds(deployment: Object) -> int | None:
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return None if seconds is None or seconds == _NO_DEADLINE else int(seconds)


def _progress(
    deployment: Object, new: Object, sets: DeploymentReplicaSets, created: str | None, now: float
) -> DesiredCondition | None:
    """The desired Progressing condition. None if the current one stays."""
    if deadline_seconds(deployment) is None:
        return None
    current = condition(deployment, PROGRESSING)
    reason = current.get("reason") if current else None
    if deployment["spec"].get("paused"):
        return DesiredCondition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused")
    if reason == PAUSED:
        return DesiredCondition(PROGRESSING, "Unknown", RESUMED, "Deployment is resumed")
    if created is not None:
        return DesiredCondition(
            PROGRESSING, "True", "NewReplicaSetCreated", f'Created new replica set "{created}"'
        )
    subject = _subject(deployment, sets)
    if reason == NEW_SET_AVAILABLE and new.get("replicas") == new.get("updatedReplicas"):
        return None
    if is_complete(deployment, new):
        message = f"{subject} has successfully progressed."
        return DesiredCondition(PROGRESSING, "True", NEW_SET_AVAILABLE, message)
    if _moved(deployment.get("status") or {}, new):
        return DesiredCondition(PROGRESSING, "True", MOVED, f"{subject} is progressing.")
    if _is_late(deployment, now):
        return DesiredCondition(PROGRESSING, "False", TIMED_OUT, f"{subject} has timed out progressing.")
    if current is None and sets.new is not None:
        message = f'Found new replica set "{sets.new["metadata"]["name"]}"'
        return DesiredCondition(PROGRESSING, "True", "FoundNewReplicaSet", message)
    return None


def _subject(deployment: Object, sets: DeploymentReplicaSets) -> str:
    if sets.new is not None:
        return f'ReplicaSet "{sets.new["metadata"]["name"]}"'
    return f'Deployment "{deployment["metadata"]["name"]}"'


def _moved(old: Object, new: Object) -> bool:
    def outdated(status: Object) -> int:
        return status.get("replicas", 0) - status.get("updatedReplicas", 0)  # type: ignore[no-any-return]

    increasing = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(new.get(each, 0) > old.get(each, 0) for each in increasing)


def _is_late(deployment: Object, now: float) -> bool:
    current = condition(deployment, PROGRESSING)
    if current is not None and current.get("reason") == TIMED_OUT:
        return True
    remaining_seconds = left_seconds(deployment, now)
    return remaining_seconds is not None and remaining_seconds <= 0


def left_seconds(deployment: Object, now: float) -> float | None:
    """Seconds until the progress deadline. None if no rollout is in progress or it has no deadline."""
    deadline = deadline_seconds(deployment)
    current = condition(deployment, PROGRESSING)
    if deadline is None or current is None or not current.get("lastUpdateTime"):
        return None
    if current.get("reason") in (NEW_SET_AVAILABLE, TIMED_OUT, PAUSED):
        return None
    return meta.parse_time(current["lastUpdateTime"]) + deadline - now


def _with_failure(conditions: list[Object], sets: DeploymentReplicaSets, now: float) -> list[Object]:
    """Copies the ReplicaFailure condition of the new set, or of an old one if there is no new set."""
    sets_to_check = [sets.new] if sets.new is not None else sets.old
    failures = [failure for each in sets_to_check if (failure := condition(each, FAILURE)) is not None]
    if not failures:
        return [each for each in conditions if each["type"] != FAILURE]
    failure = failures[0]
    desired = DesiredCondition(
        FAILURE, failure["status"], failure.get("reason", ""), failure.get("message", "")
    )
    return put(conditions, desired, now)
