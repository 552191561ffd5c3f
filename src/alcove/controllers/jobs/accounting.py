"""Counting ended pods exactly once, though pods may vanish and any write may be the last. Pure.

Each pod of a job carries a finalizer, so that it cannot vanish before it was counted:

    ended, with finalizer   its uid is noted in status.uncountedTerminatedPods
    noted                   its finalizer is taken away
    noted, no finalizer     it is added to the counter, and no longer noted

An indexed job's successes need no note: an index that is complete is complete however often it is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object, get
from alcove.controllers.jobs import completion_indexes
from alcove.controllers.jobs.failures import FailureAction, PodFailureVerdict, has_failed, judge
from alcove.controllers.workloads import pods

FINALIZER = "batch.kubernetes.io/job-tracking"


class JobAccount(Struct, kw_only=True):
    succeeded: int
    """Counted and noted ones."""
    failed: int
    uncounted: Object
    completed_indexes: set[int]
    failed_indexes: set[int]
    release: list[Object]
    """Pods whose finalizers may go once this is written."""
    fatal: str = ""
    """Why the job fails at once, by its failure policy."""

    @property
    def is_settled(self) -> bool:
        return not self.uncounted and not self.release


def is_tracked(pod: Object) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def account(job: Object, owned: Sequence[Object]) -> JobAccount:
    """`owned` are all pods of the job, the ended ones included."""
    status = job.get("status") or {}
    tracked = {pod["metadata"]["uid"] for pod in owned if is_tracked(pod)}
    noted: Object = status.get("uncountedTerminatedPods") or {}
    lists = {field: list(noted.get(field) or ()) for field in ("succeeded", "failed")}
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
            _note(job, pod, lists, result)
    result.uncounted = {field: uids for field, uids in lists.items() if uids}
    result.failed = counted["failed"] + len(lists["failed"])
    result.succeeded = (
        len(result.completed_indexes)
        if completion_indexes.is_indexed(job)
        else counted["succeeded"] + len(lists["succeeded"])
    )
    return result


def _note(job: Object, pod: Object, lists: dict[str, list[str]], result: JobAccount) -> None:
    uid = pod["metadata"]["uid"]
    if any(uid in uids for uids in lists.values()):
        # What it was noted as, it stays: one that was ending may still say something else.
        result.release.append(pod)
    elif pods.phase(pod) == "Succeeded":
        result.release.append(pod)
        if not completion_indexes.is_indexed(job):
            lists["succeeded"].append(uid)
        elif (index := completion_indexes.index_of(pod)) is not None and index < job["spec"]["completions"]:
            result.completed_indexes.add(index)
    elif has_failed(job, pod):
        result.release.append(pod)
        judged = judge(job, pod)
        _weigh(job, pod, judged, result)
        if judged.action is not FailureAction.IGNORE:
            lists["failed"].append(uid)


def _weigh(job: Object, pod: Object, judged: PodFailureVerdict, result: JobAccount) -> None:
    """What one failure means for the whole job, or for its index."""
    if judged.action is FailureAction.FAIL_JOB:
        result.fatal = result.fatal or judged.message
    limit, index = job["spec"].get("backoffLimitPerIndex"), completion_indexes.index_of(pod)
    if limit is None or index is None or judged.action is FailureAction.IGNORE:
        return
    if judged.action is FailureAction.FAIL_INDEX or completion_indexes.failures_before(pod) >= limit:
        result.failed_indexes.add(index)
