"""Counts terminated pods exactly once, although pods may be deleted and the controller may stop at any time.
Pure.

Each pod of a job has a finalizer, so that it cannot be deleted before it is counted:

    terminated, with finalizer   its uid is added to status.uncountedTerminatedPods
    uid in the status            its finalizer is removed
    uid, but no finalizer        the counter is incremented and the uid removed

Successes of an indexed job need no uid list, because adding a completed index is idempotent.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.controllers.jobs import completion_indexes
from alcove.controllers.jobs.failures import FailureAction, PodFailureVerdict, evaluate_failure, has_failed
from alcove.controllers.workloads import pods

FINALIZER = "batch.kubernetes.io/job-tracking"


class JobAccount(Struct, kw_only=True):
    succeeded: int
    """Includes the uncounted ones."""
    failed: int
    uncounted: Object
    completed_indexes: completion_indexes.IndexSet
    failed_indexes: completion_indexes.IndexSet
    release: list[Object]
    """Pods whose finalizers may be removed once the status is written."""
    fatal: str = ""
    """The message if the failure policy fails the whole job; otherwise empty."""

    @property
    def is_settled(self) -> bool:
        return not self.uncounted and not self.release


def is_tracked(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def account(job: Object, owned: Sequence[Object]) -> JobAccount:
    """`owned` are all pods of the job, including terminated ones."""
    status = job.get("status") or {}
    tracked = {pod["metadata"]["uid"] for pod in owned if is_tracked(pod)}
    uncounted: Object = status.get("uncountedTerminatedPods") or {}
    lists = {field: list(uncounted.get(field) or ()) for field in ("succeeded", "failed")}
    counted = {
        field: status.get(field, 0) + sum(1 for uid in uids if uid not in tracked)
        for field, uids in lists.items()
    }
    lists = {field: [uid for uid in uids if uid in tracked] for field, uids in lists.items()}
    completions = get(job, "spec", "completions", default=0)
    result = JobAccount(
        succeeded=0,
        failed=0,
        uncounted={},
        completed_indexes=completion_indexes.parse(status.get("completedIndexes", ""), completions),
        failed_indexes=completion_indexes.parse(status.get("failedIndexes", ""), completions),
        release=[],
    )
    for pod in owned:
        if is_tracked(pod):
            _account_pod(job, pod, lists, result)
    result.uncounted = {field: uids for field, uids in lists.items() if uids}
    result.failed = counted["failed"] + len(lists["failed"])
    result.succeeded = (
        len(result.completed_indexes)
        if completion_indexes.is_indexed(job)
        else counted["succeeded"] + len(lists["succeeded"])
    )
    return result


def _account_pod(job: Object, pod: Object, lists: dict[str, list[str]], result: JobAccount) -> None:
    uid = pod["metadata"]["uid"]
    if any(uid in uids for uids in lists.values()):
        # Keeps its classification: a terminating pod may still change its phase.
        result.release.append(pod)
    elif pods.phase(pod) == "Succeeded":
        result.release.append(pod)
        if not completion_indexes.is_indexed(job):
            lists["succeeded"].append(uid)
        elif (index := completion_indexes.index_of(pod)) is not None and index < job["spec"]["completions"]:
            result.completed_indexes.add(index)
    elif has_failed(job, pod):
        result.release.append(pod)
        decision = evaluate_failure(job, pod)
        _apply_failure(job, pod, decision, result)
        if decision.action is not FailureAction.IGNORE:
            lists["failed"].append(uid)


def _apply_failure(job: Object, pod: Object, decision: PodFailureVerdict, result: JobAccount) -> None:
    """Applies the effect of one failure to the whole job, or to its index."""
    if decision.action is FailureAction.FAIL_JOB:
        result.fatal = result.fatal or decision.message
    limit, index = job["spec"].get("backoffLimitPerIndex"), completion_indexes.index_of(pod)
    if limit is None or index is None or decision.action is FailureAction.IGNORE:
        return
    if decision.action is FailureAction.FAIL_INDEX or completion_indexes.failures_before(pod) >= limit:
        result.failed_indexes.add(index)
