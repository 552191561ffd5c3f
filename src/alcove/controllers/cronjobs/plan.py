"""A cron job's history, status and new jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.client.resources import CRON_JOBS, JOBS
from alcove.controllers.jobs.completion import COMPLETE, is_over, is_true
from alcove.controllers.workloads.controller_refs import reference

SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobHistory(Struct, frozen=True):
    active: list[Object]
    succeeded: list[Object]
    failed: list[Object]


def sort_jobs(owned: Sequence[Object]) -> CronJobHistory:
    finished = [job for job in owned if is_over(job)]
    return CronJobHistory(
        [job for job in owned if not is_over(job)],
        [job for job in finished if is_true(job, COMPLETE)],
        [job for job in finished if not is_true(job, COMPLETE)],
    )


def beyond_history_limit(cron_job: Object, jobs: CronJobHistory) -> list[Object]:
    """The oldest finished jobs beyond the history limits."""
    spec = cron_job["spec"]
    limits = (
        (jobs.succeeded, spec.get("successfulJobsHistoryLimit", 3)),
        (jobs.failed, spec.get("failedJobsHistoryLimit", 1)),
    )
    result: list[Object] = []
    for finished, limit in limits:
        if limit is not None:
            by_age = sorted(finished, key=_age)
            result += by_age[: max(0, len(by_age) - limit)]
    return [job for job in result if "deletionTimestamp" not in job["metadata"]]


def _age(job: Object) -> tuple[str, str]:
    started = get(job, "status", "startTime") or job["metadata"].get("creationTimestamp", "")
    return started, job["metadata"]["name"]


def status(cron_job: Object, jobs: CronJobHistory) -> Object:
    old = cron_job.get("status") or {}
    new = {**old, "active": [_reference(job) for job in sorted(jobs.active, key=_age)]}
    completion_times = [get(job, "status", "completionTime") or "" for job in jobs.succeeded]
    if last := max([old.get("lastSuccessfulTime") or "", *completion_times]):
        new["lastSuccessfulTime"] = last
    return {field: value for field, value in new.items() if value}


def _reference(job: Object) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }


def job_of(cron_job: Object, scheduled: float) -> Object:
    """The job for a scheduled time. The name is derived from the time, so that it is created only once."""
    template = cron_job["spec"]["jobTemplate"]
    metadata = template.get("metadata") or {}
    return {
        "metadata": {
            "name": f"{cron_job['metadata']['name']}-{int(scheduled) // 60}",
            "namespace": cron_job["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), SCHEDULED: meta.format_time(scheduled)},
            "ownerReferences": [reference(CRON_JOBS, cron_job)],
        },
        "spec": template["spec"],
    }
