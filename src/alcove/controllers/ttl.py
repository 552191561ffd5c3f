"""Finished jobs go `ttlSecondsAfterFinished` after they finished, with their pods."""

from __future__ import annotations

from alcove.api import meta, objects
from alcove.api.objects import Object
from alcove.client.client import Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import JOBS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_as_known


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
        ends = expires(job) if job is not None else None
        if job is None or ends is None or "deletionTimestamp" in job["metadata"]:
            return DONE
        left = ends - self.clock()
        if left > 0:
            return Result(after_seconds=left)
        await delete_as_known(
            self.client(key), JOBS, key, job["metadata"], propagation=Propagation.FOREGROUND
        )
        return DONE


def expires(job: Object) -> float | None:
    """When the job may go, in epoch seconds; None: it is not finished, or stays."""
    seconds = objects.get(job, "spec", "ttlSecondsAfterFinished")
    if seconds is None:
        return None
    for condition in objects.get(job, "status", "conditions", default=()):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            finished = condition.get("lastTransitionTime")
            return meta.parse_time(finished) + seconds if finished else None
    return None
