"""Deletes finished jobs, with their pods, `ttlSecondsAfterFinished` after they finished."""

from __future__ import annotations

from alcove.api import meta, objects
from alcove.api.objects import Object
from alcove.client.client import Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import JOBS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged


class TtlAfterFinished(Controller):
    name = "ttl-after-finished"
    resource = JOBS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = self.mirror(JOBS)
        self.on(self._jobs)

    async def reconcile(self, key: ObjectKey) -> Result:
        job = self._jobs.get(key)
        expiry = expiry_time(job) if job is not None else None
        if job is None or expiry is None or "deletionTimestamp" in job["metadata"]:
            return DONE
        remaining_seconds = expiry - self.clock()
        if remaining_seconds > 0:
            return Result(after_seconds=remaining_seconds)
        await delete_if_unchanged(
            self.client(key), JOBS, key, job["metadata"], propagation=Propagation.FOREGROUND
        )
        return DONE


def expiry_time(job: Object) -> float | None:
    """When the job is to be deleted, in epoch seconds. None if it has no TTL or is not finished."""
    seconds = objects.get(job, "spec", "ttlSecondsAfterFinished")
    if seconds is None:
        return None
    for condition in objects.get(job, "status", "conditions", default=()):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            finished = condition.get("lastTransitionTime")
            return meta.parse_time(finished) + seconds if finished else None
    return None
