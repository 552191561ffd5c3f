"""The shell around a cron job's plans: makes the job that is due, and clears away old ones."""

from __future__ import annotations

from alcove.api import meta
from alcove.api.cron import CronError
from alcove.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import controller_uid
from alcove.client.client import Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import CRON_JOBS, JOBS
from alcove.controllers.concurrency import together
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
from alcove.controllers.terminating import is_terminating

LOOK_SECONDS_MAX = 3600.0
"""The wall clock may be set meanwhile; no timer of ours would notice."""


class CronJobController(Controller):
    name = "cronjob"
    resource = CRON_JOBS
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = self.mirror(CRON_JOBS)
        self._jobs = self.mirror(JOBS, {"controller": controller_uid})
        self.on(self._cron_jobs)
        self.on(self._jobs, owner_of(CRON_JOBS))

    async def reconcile(self, key: ObjectKey) -> Result:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None or "deletionTimestamp" in cron_job["metadata"]:
            return DONE
        owned = self._jobs.find("controller", key.plane, key.tenant, cron_job["metadata"]["uid"])
        jobs = plan.sort_jobs([job for job in owned if job["metadata"]["namespace"] == key.namespace])
        self._tell_finished(key, cron_job, jobs)
        await together(self._delete(key, cron_job, job) for job in plan.outlived(cron_job, jobs))
        await self._write(key, cron_job, plan.status(cron_job, jobs))
        if cron_job["spec"].get("suspend"):
            return DONE
        try:
            found = due(cron_job, self.clock())
        except CronError as error:
            message = f"invalid schedule: {cron_job['spec']['schedule']} : {error}"
            self.events.warning(key.plane, cron_job, "UnparseableSchedule", message)
            return DONE
        if found.last is not None:
            await self._serve(key, cron_job, jobs, found, found.last)
        if found.next is None:
            return DONE
        return Result(min(max(found.next - self.clock(), 0.0) + 0.1, LOOK_SECONDS_MAX))

    async def _serve(
        self, key: ObjectKey, cron_job: Object, jobs: plan.CronJobHistory, found: DueRun, scheduled: float
    ) -> None:
        if found.missed >= MISSED_MAX:
            message = f"too many missed start times: {found.missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.events.warning(key.plane, cron_job, "TooManyMissedTimes", message)
        policy = cron_job["spec"].get("concurrencyPolicy", "Allow")
        if policy == "Forbid" and jobs.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.events.normal(key.plane, cron_job, "JobAlreadyActive", message)
            return
        if policy == "Replace":
            await together(self._delete(key, cron_job, job) for job in jobs.active)
            jobs = plan.CronJobHistory([], jobs.succeeded, jobs.failed)
        made = await self._create(key, cron_job, scheduled)
        if made is None:
            return
        status = plan.status(cron_job, plan.CronJobHistory([*jobs.active, made], jobs.succeeded, jobs.failed))
        await self._write(key, cron_job, {**status, "lastScheduleTime": meta.format_time(scheduled)})

    async def _create(self, key: ObjectKey, cron_job: Object, scheduled: float) -> Object | None:
        desired = plan.job_of(cron_job, scheduled)
        name = desired["metadata"]["name"]
        client = self.client(key)
        try:
            made = await client.create(key.tenant, JOBS, desired)
        except AlreadyExists as error:
            there = await client.get(key.tenant, JOBS, name, namespace=key.namespace)
            if (controller_of(there) or {}).get("uid") == cron_job["metadata"]["uid"]:
                return there
            raise ServerRefusal(error.message) from error
        except Forbidden as error:
            if is_terminating(error):
                return None
            self._tell_failed(key, cron_job, error)
            raise ServerRefusal(error.message) from error
        self.events.normal(key.plane, cron_job, "SuccessfulCreate", f"Created job {name}")
        return made

    def _tell_failed(self, key: ObjectKey, cron_job: Object, error: ApiError) -> None:
        self.events.warning(key.plane, cron_job, "FailedCreate", f"Error creating job: {error.message}")

    def _tell_finished(self, key: ObjectKey, cron_job: Object, jobs: plan.CronJobHistory) -> None:
        known = {each.get("uid") for each in get(cron_job, "status", "active", default=())}
        for finished, end in ((jobs.succeeded, "Complete"), (jobs.failed, "Failed")):
            for job in finished:
                if job["metadata"]["uid"] in known:
                    message = f"Saw completed job: {job['metadata']['name']}, condition: {end}"
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
        if _said(status) == _said(cron_job.get("status") or {}):
            return
        cron_job["status"] = status
        changed = await self.client(key).update(key.tenant, CRON_JOBS, cron_job, subresource="status")
        cron_job["metadata"] = changed["metadata"]


def _said(status: Object) -> Object:
    """Without the revisions of active jobs: each of their changes would be one of the cron job's."""
    active = [{**each, "resourceVersion": ""} for each in status.get("active") or ()]
    return {**status, "active": active}
