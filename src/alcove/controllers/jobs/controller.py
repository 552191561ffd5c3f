"""The Job controller: counts terminated pods, creates and deletes pods, updates the status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.errors import ApiError, NotFound
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey
from alcove.client.resources import JOBS, PODS
from alcove.controllers.controller import (
    DONE,
    Controller,
    ControllerContext,
    Result,
    ServerRefusal,
    controller_of,
)
from alcove.controllers.jobs import accounting, completion, plan, status
from alcove.controllers.jobs.finalizers import controlling_job, remove_finalizer
from alcove.controllers.sleep.sleepers import Sleepers
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating
from alcove.controllers.workloads import controller_refs
from alcove.controllers.workloads.creation import TenantRequestLimits, slow_start
from alcove.controllers.workloads.selector_index import SelectorIndex, owner_or_selectors

MANAGER = "kubernetes.io/job-controller"


def tracked_job(pod: Object) -> Iterable[str]:
    """An index: pods with the tracking finalizer by their job, as namespace/name."""
    owner = controlling_job(pod)
    if owner is not None and accounting.is_tracked(pod):
        yield f"{pod['metadata']['namespace']}/{owner['name']}"


class JobController(Controller):
    name = "job"
    resource = JOBS
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = self.mirror(JOBS)
        self._pods = self.mirror(PODS, {**controller_refs.OWNING, "tracked": tracked_job})
        self._selectors = SelectorIndex(self._jobs)
        self._limits = TenantRequestLimits()
        self._sleepers = Sleepers(self, self._jobs)
        self.on(self._jobs)
        self.on(self._pods, owner_or_selectors(JOBS, self._selectors))

    async def reconcile(self, key: ObjectKey) -> Result:
        job = self._jobs.get(key)
        await self._release_foreign(key, job)
        if job is None or job["spec"].get("managedBy", MANAGER) != MANAGER:
            return DONE
        owner = controller_refs.ControllerRefManager(
            self.client(key), key, JOBS, job, self._selectors.get(key)
        )
        owned = await owner.claim(self._pods)
        if completion.is_over(job) or "deletionTimestamp" in job["metadata"]:
            # All pods that the job controls, whatever their labels: its deletion may be waiting for theirs.
            await self._release(key, self._tracked(key))
            return DONE
        if key.tenant in self._sleepers:
            job["spec"]["suspend"] = True  # Only here: the object is not changed.
        return await self._advance(key, job, owned)

    async def _advance(self, key: ObjectKey, job: Object, owned: list[Object]) -> Result:
        now = self.clock()
        account = accounting.account(job, owned)
        active = plan.active_pods(job, owned)
        job_end = completion.end(job, account, active, now)
        if job_end is not None or job["spec"].get("suspend"):
            next_plan = plan.JobPlan(delete=tuple(active))
        else:
            next_plan = plan.plan(job, owned, account, now)
        # The status is written first: finalizers may be removed only after the pods are counted.
        await self._write(key, job, status.status(job, owned, account, job_end, now))
        await self._release(key, account.release)
        await self._delete(key, job, next_plan.delete)
        await self._create(key, job, next_plan.create)
        deadline_seconds = completion.deadline_seconds(job, now)
        waits = [
            each for each in (deadline_seconds, next_plan.after_seconds) if each is not None and each > 0
        ]
        return Result(min(waits)) if waits and job_end is None else DONE

    # Pods

    async def _create(self, key: ObjectKey, job: Object, desired: Sequence[plan.DesiredPod]) -> None:
        owner = controller_refs.reference(JOBS, job)

        async def create(each: plan.DesiredPod) -> Object:
            pod = plan.pod(job, owner, each, accounting.FINALIZER)
            created = await self.client(key).create(key.tenant, PODS, pod, namespace=key.namespace)
            message = f"Created pod: {created['metadata']['name']}"
            self.events.normal(key.plane, job, "SuccessfulCreate", message)
            return created

        created = await slow_start(self._limits.of(key.tenant_key), desired, create)
        error = created.error
        if error is None:
            return
        if not isinstance(error, ApiError) or is_namespace_or_tenant_missing(error) or is_terminating(error):
            raise error
        self.events.warning(key.plane, job, "FailedCreate", f"Error creating: {error.message}")
        raise ServerRefusal(error.message) from error

    async def _delete(self, key: ObjectKey, job: Object, surplus: Sequence[Object]) -> None:
        """A pod that the controller deletes is not a failure: its finalizer is removed first, so that it is
        never counted."""

        async def delete(pod: Object) -> Object:
            metadata = pod["metadata"]
            await remove_finalizer(self.client(key), key, pod)
            try:
                await self.client(key).delete(
                    key.tenant, PODS, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
                )
            except NotFound:
                return pod
            self.events.normal(key.plane, job, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
            return pod

        result = await slow_start(self._limits.of(key.tenant_key), surplus, delete)
        if result.error is not None:
            raise result.error

    # Finalizers

    async def _release_foreign(self, key: ObjectKey, job: Object | None) -> None:
        """Releases pods whose job was deleted, or replaced by another one with the same name."""
        uid = job["metadata"]["uid"] if job is not None else ""
        foreign = [pod for pod in self._tracked(key) if (controller_of(pod) or {}).get("uid") != uid]
        await self._release(key, foreign)

    def _tracked(self, key: ObjectKey) -> list[Object]:
        """Pods with the tracking finalizer that are controlled by a job of this name."""
        return list(self._pods.find("tracked", key.plane, key.tenant, f"{key.namespace}/{key.name}"))

    async def _release(self, key: ObjectKey, released: Sequence[Object]) -> None:
        async def release(pod: Object) -> Object:
            await remove_finalizer(self.client(key), key, pod)
            return pod

        result = await slow_start(self._limits.of(key.tenant_key), released, release)
        if result.error is not None:
            raise result.error

    # Status

    async def _write(self, key: ObjectKey, job: Object, desired: Object) -> None:
        old = job.get("status") or {}
        if desired == old:
            return
        before = {each["type"]: each["status"] for each in old.get("conditions") or ()}
        job["status"] = desired
        changed = await self.client(key).update(key.tenant, JOBS, job, subresource="status")
        job["metadata"] = changed["metadata"]
        for each in desired.get("conditions") or ():
            if before.get(each["type"]) != each["status"]:
                self._record_event(key, job, each)

    def _record_event(self, key: ObjectKey, job: Object, condition: Object) -> None:
        match condition["type"], condition["status"]:
            case completion.COMPLETE, _:
                self.events.normal(key.plane, job, "Completed", "Job completed")
            case completion.FAILED, _:
                self.events.warning(key.plane, job, condition["reason"], condition["message"])
            case status.SUSPENDED, "True":
                self.events.normal(key.plane, job, "Suspended", "Job suspended")
            case status.SUSPENDED, _:
                self.events.normal(key.plane, job, "Resumed", "Job resumed")
