"""A job's status, computed from its account and its pods. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.jobs import completion_indexes
from alcove.controllers.jobs.accounting import JobAccount
from alcove.controllers.jobs.completion import COMPLETE, FAILED, MET, TARGET, JobEnd
from alcove.controllers.jobs.plan import active_pods
from alcove.controllers.workloads import pods

SUSPENDED = "Suspended"


def status(
    job: Object, owned: Sequence[Object], account: JobAccount, job_end: JobEnd | None, now: float
) -> Object:
    """The whole new status. It is final only when no pod of the job is running and all are counted."""
    old = job.get("status") or {}
    active = active_pods(job, owned)
    terminating = [pod for pod in owned if pods.is_terminating(pod) and not pods.is_finished(pod)]
    counts = {
        "active": len(active),
        "ready": sum(1 for pod in active if pods.is_ready(pod)),
        "terminating": len(terminating),
        "succeeded": account.succeeded - len(account.uncounted.get("succeeded", ())),
        "failed": account.failed - len(account.uncounted.get("failed", ())),
    }
    new: Object = {**old, **counts, "uncountedTerminatedPods": account.uncounted}
    if completion_indexes.is_indexed(job):
        new["completedIndexes"] = completion_indexes.render(account.completed_indexes)
        if "backoffLimitPerIndex" in job["spec"]:
            new["failedIndexes"] = completion_indexes.render(account.failed_indexes)
    conditions = _suspension(job, list(old.get("conditions") or ()), new, now)
    if job_end is not None:
        is_final = not active and not terminating and account.is_settled
        conditions = _with_result(conditions, job_end, is_final, now)
        if is_final and job_end.is_success:
            new.setdefault("completionTime", meta.format_time(now))
    new["conditions"] = conditions
    always_shown = ("terminating", "ready") if new.get("startTime") else ()
    return {field: value for field, value in new.items() if value or field in always_shown}


def put(
    conditions: Sequence[Object], type_: str, is_true: bool, reason: str, message: str, now: float
) -> list[Object]:
    value = "True" if is_true else "False"
    old = next((each for each in conditions if each["type"] == type_), None)
    if old is not None and (old["status"], old.get("reason")) == (value, reason):
        return list(conditions)
    time = meta.format_time(now)
    entry = {
        "type": type_,
        "status": value,
        "lastProbeTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }
    return [*(each for each in conditions if each["type"] != type_), entry]


def _suspension(job: Object, conditions: list[Object], new: Object, now: float) -> list[Object]:
    """Sets the Suspended condition. `startTime` is set when the job first runs, and reset on resume."""
    was_suspended = next(
        (each["status"] == "True" for each in conditions if each["type"] == SUSPENDED), False
    )
    if job["spec"].get("suspend"):
        return put(conditions, SUSPENDED, True, "JobSuspended", "Job suspended", now)
    if was_suspended:
        conditions = put(conditions, SUSPENDED, False, "JobResumed", "Job resumed", now)
        new["startTime"] = meta.format_time(now)
    new.setdefault("startTime", meta.format_time(now))
    return conditions


def _with_result(conditions: list[Object], job_end: JobEnd, is_final: bool, now: float) -> list[Object]:
    first, last = (MET, COMPLETE) if job_end.is_success else (TARGET, FAILED)
    conditions = put(conditions, first, True, job_end.reason, job_end.message, now)
    if is_final:
        conditions = put(conditions, last, True, job_end.reason, job_end.message, now)
    return conditions
