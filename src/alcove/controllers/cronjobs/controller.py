"""The CronJob controller: creates the job that is due and deletes old ones."""

from __future__ import annotations

from alcove.api import meta
from alcove.api.cron import CronError
from alcove.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import controller_uid
from alcove.client.client import Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import CRON_JOBS, JOBS
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import (
    DONE,
    Controller,
    ControllerContext,
    Result,
    ServerRefusal,
    controller_of,
    owner_of,
)
from alcove.controllers.cronjobs import plan
from alcove.controllers.cronjobs.due import MISSED_MAX, DueRun, due
from alcove.controllers.sleep.sleepers import Sleepers
from alcove.controllers.terminating import is_terminating

RESYNC_SECONDS_MAX = 3600.0
"""Timers do not notice when the wall clock is set, so the schedule is checked at least this often."""


class CronJobController(Controller):
    name = "cronjob"
    resource = CRON_JOBS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = self.mirror(CRON_JOBS)
        self._jobs = self.mirror(JOBS, {"controller": controller_uid})
        self._sleepers = Sleepers(self, self._cron_jobs)
        self.on(self._cron_jobs)
        self.on(self._jobs, owner_of(CRON_JOBS))

    async def reconcile(self, key: ObjectKey) -> Result:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None or "deletionTimestamp" in cron_job["metadata"]:
            return DONE
        owned = self._jobs.find("controller", key.plane, key.tenant, cron_job["metadata"]["uid"])
        jobs = plan.sort_jobs([job for job in owned if job["metadata"]["namespace"] == key.namespace])
        self._record_finished(key, cron_job, jobs)
        await gather_all(
            self._delete(key, cron_job, job) for job in plan.beyond_history_limit(cron_job, jobs)
        )
        await self._write(key, cron_job, plan.status(cron_job, jobs))
        if cron_job["spec"].get("suspend") or key.tenant in self._sleepers:
            return DONE
        try:
            due_run = due(cron_job, self.clock())
        except CronError as error:
            message = f"invalid schedule: {cron_job['spec']['schedule']} : {error}"
            self.events.warning(key.plane, cron_job, "UnparseableSchedule", message)
            return DONE
        if due_run.last is not None:
            await self._start_due(key, cron_job, jobs, due_run, due_run.last)
        if due_run.next is None:
            return DONE
        return Result(min(max(due_run.next - self.clock(), 0.0) + 0.1, RESYNC_SECONDS_MAX))

    async def _start_due(
        self, key: ObjectKey, cron_job: Object, jobs: plan.CronJobHistory, due_run: DueRun, scheduled: float
    ) -> None:
        if due_run.missed >= MISSED_MAX:
            message = f"too many missed start times: {due_run.missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.events.warning(key.plane, cron_job, "TooManyMissedTimes", message)
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and jobs.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.events.normal(key.plane, cron_job, "JobAlreadyActive", message)
            return
        if policy == "Replace":
            await gather_all(self._delete(key, cron_job, job) for job in jobs.active)
            jobs = plan.CronJobHistory([], jobs.succeeded, jobs.failed)
        created = await self._create(key, cron_job, scheduled)
        if created is None:
            return
        status = plan.status(
            cron_job, plan.CronJobHistory([*jobs.active, created], jobs.succeeded, jobs.failed)
        )
        await self._write(key, cron_job, {**status, "lastScheduleTime": meta.format_time(scheduled)})

    async def _create(self, key: ObjectKey, cron_job: Object, scheduled: float) -> Object | None:
        desired = plan.job_of(cron_job, scheduled)
        name = desired["metadata"]["name"]
        client = self.client(key)
        try:
            created = await client.create(key.tenant, JOBS, desired)
        except AlreadyExists as error:
            existing = await client.get(key.tenant, JOBS, name, namespace=key.namespace)
            if (controller_of(existing) or {}).get("uid") == cron_job["metadata"]["uid"]:
                return existing
            raise ServerRefusal(error.message) from error
        except Forbidden as error:
            if is_terminating(error):
                return None
            self._record_failed(key, cron_job, error)
            raise ServerRefusal(error.message) from error
        self.events.normal(key.plane, cron_job, "SuccessfulCreate", f"Created job {name}")
        return created

    def _record_failed(self, key: ObjectKey, cron_job: Object, error: ApiError) -> None:
        self.events.warning(key.plane, cron_job, "FailedCreate", f"Error creating job: {error.message}")

    def _record_finished(self, key: ObjectKey, cron_job: Object, jobs: plan.CronJobHistory) -> None:
        active_uids = {each.get("uid") for each in get(cron_job, "status", "active", default=())}
        for finished, condition in ((jobs.succeeded, "Complete"), (jobs.failed, "Failed")):
            for job in finished:
                if job["metadata"]["uid"] in active_uids:
                    message = f"Saw completed job: {job['metadata']['name']}, condition: {condition}"
                    self.events.normal(key.plane, cron_job, "SawCompletedJob", message)

    async def _delete(self, key: ObjectKey, cron_job: Object, job: Object) -> None:
        metadata = job["metadata"]
        try:
            await self.client(key).delete(
                key.tenant,
                JOBS,
                metadata["name"],
                namespace=key.namespace,
                uid=metadata["uid"],
                propagation=Propagation.BACKGROUND,
            )
        except NotFound:
            return
        self.events.normal(key.plane, cron_job, "SuccessfulDelete", f"Deleted job {metadata['name']}")

    async def _write(self, key: ObjectKey, cron_job: Object, status: Object) -> None:
        if _comparable(status) == _comparable(cron_job.get("status") or {}):
            return
        cron_job["status"] = status
        changed = await self.client(key).update(key.tenant, CRON_JOBS, cron_job, subresource="status")
        cron_job["metadata"] = changed["metadata"]


def _comparable(status: Object) -> Object:
    """The status without the resourceVersions of active jobs, whose changes alone are not worth an update."""
    active = [{**each, "resourceVersion": ""} for each in status.get("active") or ()]
    return {**status, "active": active}
