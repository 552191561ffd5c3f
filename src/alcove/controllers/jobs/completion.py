"""Whether a job is finished, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.controllers.jobs import completion_indexes
from alcove.controllers.jobs.accounting import JobAccount
from alcove.controllers.jobs.completion_indexes import IndexSet
from alcove.controllers.workloads import pods

COMPLETE, FAILED = "Complete", "Failed"
MET, TARGET = "SuccessCriteriaMet", "FailureTarget"


class JobEnd(Struct, frozen=True):
    is_success: bool
    reason: str
    message: str


def is_true(job: Object, type_: str) -> bool:
    condition = pods.condition(job, type_)
    return condition is not None and condition.get("status") == "True"


def is_over(job: Object) -> bool:
    return is_true(job, COMPLETE) or is_true(job, FAILED)


def end(job: Object, account: JobAccount, active: Sequence[Object], now: float) -> JobEnd | None:
    """The result of the job; None if it continues. A result that is already in the conditions is final."""
    for type_ in (MET, TARGET):
        if is_true(job, type_):
            condition = pods.condition(job, type_) or {}
            return JobEnd(type_ == MET, condition.get("reason", ""), condition.get("message", ""))
    return _failure(job, account, active, now) or _success(job, account, active)


def deadline_seconds(job: Object, now: float) -> float | None:
    """Seconds that the job may still be active. None if it has no deadline."""
    limit, started = get(job, "spec", "activeDeadlineSeconds"), get(job, "status", "startTime")
    if limit is None or not started or job["spec"].get("suspend"):
        return None
    return meta.parse_time(started) + float(limit) - now


def _failure(job: Object, account: JobAccount, active: Sequence[Object], now: float) -> JobEnd | None:
    if account.fatal:
        return JobEnd(False, "PodFailurePolicy", account.fatal)
    limit = job["spec"].get("backoffLimit", 6)
    if account.failed > limit or _restarts_exceed(job, active, limit):
        return JobEnd(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    remaining_seconds = deadline_seconds(job, now)
    if remaining_seconds is not None and remaining_seconds <= 0:
        return JobEnd(False, "DeadlineExceeded", "Job was active longer than specified deadline")
    failed_indexes_max = job["spec"].get("maxFailedIndexes")
    if failed_indexes_max is not None and len(account.failed_indexes) > failed_indexes_max:
        message = "Job has exceeded the specified maximal number of failed indexes"
        return JobEnd(False, "MaxFailedIndexesExceeded", message)
    finished_indexes = account.failed_indexes | account.completed_indexes
    if account.failed_indexes and len(finished_indexes) >= job["spec"].get("completions", 0):
        return JobEnd(False, "FailedIndexes", "Job has failed indexes")
    return None


def _restarts_exceed(job: Object, active: Sequence[Object], limit: int) -> bool:
    """With restartPolicy OnFailure, container restarts count as failures."""
    if get(job, "spec", "template", "spec", "restartPolicy") != "OnFailure":
        return False
    restarts = sum(_restarts(pod) for pod in active if pods.phase(pod) in ("Pending", "Running"))
    return restarts > 0 if limit == 0 else restarts >= limit


def _restarts(pod: Object) -> int:
    status = pod.get("status") or {}
    all_ = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(int(each.get("restartCount", 0)) for each in all_)


def _success(job: Object, account: JobAccount, active: Sequence[Object]) -> JobEnd | None:
    reached = "Reached expected number of succeeded pods"
    completions = job["spec"].get("completions")
    if completions is None:
        # A work queue job: after the first success no pods are started, and running ones may finish.
        if account.succeeded > 0 and not active:
            return JobEnd(True, "CompletionsReached", reached)
        return None
    # First, as in Kubernetes: a rule that is met together with the completions is the reason.
    for at, rule in enumerate(get(job, "spec", "successPolicy", "rules", default=())):
        if _is_met(rule, account.completed_indexes, completions):
            return JobEnd(True, "SuccessPolicy", f"Matched rules at index {at}")
    if account.succeeded >= completions:
        return JobEnd(True, "CompletionsReached", reached)
    return None


def _is_met(rule: Object, completed: IndexSet, completions: int) -> bool:
    indexes = rule.get("succeededIndexes") or f"0-{completions - 1}"
    desired = completion_indexes.parse(indexes, completions)
    return desired.in_common(completed) >= (rule.get("succeededCount") or len(desired))
