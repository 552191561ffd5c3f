"""The Deployment controller: creates, numbers, scales and deletes replica sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from alcove.controllers.concurrency import gather_all
from alcove.controllers.controller import (
    DONE,
    Controller,
    ControllerContext,
    Result,
    ServerRefusal,
    controller_of,
)
from alcove.controllers.deployments import revisions, scaling, status
from alcove.controllers.deployments.revisions import DeploymentReplicaSets
from alcove.controllers.deployments.scaling import ReplicaSetScale
from alcove.controllers.terminating import is_terminating
from alcove.controllers.workloads import controller_refs, pods
from alcove.controllers.workloads.selector_index import SelectorIndex, owner_or_selectors


class DeploymentController(Controller):
    name = "deployment"
    resource = DEPLOYMENTS
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._deployments = self.mirror(DEPLOYMENTS)
        self._sets = self.mirror(REPLICA_SETS, controller_refs.OWNING)
        self._pods = self.mirror(PODS, controller_refs.OWNING)
        self._selectors = SelectorIndex(self._deployments)
        self.on(self._deployments)
        self.on(self._sets, owner_or_selectors(DEPLOYMENTS, self._selectors))
        self.on(self._pods, self._deployment_of_deleted_pod)

    def _deployment_of_deleted_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The deployment of a deleted pod: with strategy Recreate it waits until its old pods are deleted."""
        owner = controller_of(change.obj) if change.kind is ChangeType.DELETED else None
        if owner is None or owner.get("kind") != REPLICA_SETS.kind:
            return
        replica_set = self._sets.get(change.key.of(owner["name"]))
        parent = controller_of(replica_set) if replica_set is not None else None
        if parent is not None and parent.get("kind") == DEPLOYMENTS.kind:
            yield change.key.of(parent["name"])

    async def reconcile(self, key: ObjectKey) -> Result:
        deployment = self._deployments.get(key)
        if deployment is None:
            return DONE
        owner = controller_refs.ControllerRefManager(
            self.client(key), key, DEPLOYMENTS, deployment, self._selectors.get(key)
        )
        sets = revisions.sort_sets(deployment, await owner.claim(self._sets))
        if "deletionTimestamp" in deployment["metadata"]:
            return await self._finish(key, deployment, sets, None)
        return await self._advance(key, deployment, sets)

    async def _advance(self, key: ObjectKey, deployment: Object, sets: DeploymentReplicaSets) -> Result:
        """Executes the next step of a rollout or scaling, and updates the status."""
        created = None
        if deployment["spec"].get("paused") or scaling.is_resized(deployment, sets):
            sets = await self._scale(key, deployment, sets, scaling.resize(deployment, sets))
        elif scaling.is_rolling(deployment):
            sets, created = await self._ensure_new_set(key, deployment, sets)
            if created is None:
                sets = await self._scale(key, deployment, sets, scaling.roll(deployment, sets))
        elif retiring := scaling.retire(sets.old):
            sets = await self._sync_new_set(key, deployment, sets)
            sets = await self._scale(key, deployment, sets, retiring)
        elif not self._has_pods(key, sets.old):
            sets, created = await self._ensure_new_set(key, deployment, sets)
            if created is None and sets.new is not None:
                desired = scaling.replicas(deployment)
                sets = await self._scale(key, deployment, sets, [ReplicaSetScale(sets.new, desired)])
        return await self._finish(key, deployment, sets, created)

    def _has_pods(self, key: ObjectKey, old: Sequence[Object]) -> bool:
        """Whether pods of the old replica sets are running or have not stopped yet."""
        return any(
            not pods.is_finished(pod)
            for each in old
            for pod in self._pods.find("controller", key.plane, key.tenant, each["metadata"]["uid"])
        )

    # The new replica set

    async def _ensure_new_set(
        self, key: ObjectKey, deployment: Object, sets: DeploymentReplicaSets
    ) -> tuple[DeploymentReplicaSets, str | None]:
        """The replica sets including the new one, and the new one's name if it was created by this call."""
        if sets.new is not None:
            return await self._sync_new_set(key, deployment, sets), None
        size = scaling.new_replicas(deployment, scaling.total(sets.all), 0)
        surge = scaling.bounds(deployment).surge
        desired = revisions.new_set(deployment, revisions.next_number(sets.old), size, surge)
        new = await self._create(key, deployment, desired)
        name = new["metadata"]["name"]
        if size:
            message = f"Scaled up replica set {name} from 0 to {size}"
            self.events.normal(key.plane, deployment, "ScalingReplicaSet", message)
        await self._set_revision(key, deployment, revisions.number(new))
        return DeploymentReplicaSets(new, sets.old), name

    async def _create(self, key: ObjectKey, deployment: Object, desired: Object) -> Object:
        try:
            return await self.client(key).create(key.tenant, REPLICA_SETS, desired)
        except AlreadyExists as error:
            await self._count_collision(key, deployment, desired, error)
            raise
        except Forbidden as error:
            if is_terminating(error):
                raise ServerRefusal(error.message) from error
            await self._report_failure(key, deployment, desired, error)
            raise ServerRefusal(error.message) from error

    async def _count_collision(
        self, key: ObjectKey, deployment: Object, desired: Object, error: AlreadyExists
    ) -> None:
        """Handles AlreadyExists: increments `collisionCount`, so that the next attempt uses another name. If
        the existing set is this deployment's new one, created by a request whose response was lost, nothing
        is counted; the mirror will contain it. Always raises ServerRefusal."""
        name = desired["metadata"]["name"]
        existing = await self.client(key).get(key.tenant, REPLICA_SETS, name, namespace=key.namespace)
        owner = controller_of(existing)
        is_ours = owner is not None and owner.get("uid") == deployment["metadata"]["uid"]
        if is_ours and revisions.sort_sets(deployment, [existing]).new is not None:
            raise ServerRefusal(error.message) from error
        before = get(deployment, "status", "collisionCount", default=0)
        deployment["status"] = {**(deployment.get("status") or {}), "collisionCount": before + 1}
        await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")
        raise ServerRefusal(error.message) from error

    async def _report_failure(
        self, key: ObjectKey, deployment: Object, desired: Object, error: ApiError
    ) -> None:
        message = f'Failed to create new replica set "{desired["metadata"]["name"]}": {error.message}'
        self.events.warning(key.plane, deployment, "ReplicaSetCreateError", message)
        old = deployment.get("status") or {}
        if status.deadline_seconds(deployment) is None:
            return
        failed = status.DesiredCondition(status.PROGRESSING, "False", "ReplicaSetCreateError", message)
        conditions = status.put(old.get("conditions") or [], failed, self.clock())
        if conditions != old.get("conditions"):
            deployment["status"] = {**old, "conditions": conditions}
            await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")

    async def _sync_new_set(
        self, key: ObjectKey, deployment: Object, sets: DeploymentReplicaSets
    ) -> DeploymentReplicaSets:
        """Ensures that the new set, if any, has the highest revision and the deployment's annotations."""
        if sets.new is None:
            return sets
        new, surge = sets.new, scaling.bounds(deployment).surge
        desired = revisions.new_annotations(deployment, new, revisions.next_number(sets.old), surge)
        patch: Object = {}
        if desired != get(new, "metadata", "annotations", default={}):
            patch["metadata"] = {"annotations": desired}
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if new["spec"].get("minReadySeconds", 0) != min_ready:
            patch["spec"] = {"minReadySeconds": min_ready}
        if patch:
            new = await self._patch_set(key, new, patch)
        await self._set_revision(key, deployment, revisions.number(new))
        return DeploymentReplicaSets(new, sets.old)

    async def _patch_set(self, key: ObjectKey, replica_set: Object, patch: Object) -> Object:
        """Raises Conflict if the set has changed since it was read."""
        metadata = replica_set["metadata"]
        patch.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        return await self.client(key).patch(
            key.tenant, REPLICA_SETS, metadata["name"], patch, namespace=key.namespace, kind=Patch.MERGE
        )

    async def _set_revision(self, key: ObjectKey, deployment: Object, number: int) -> None:
        """Writes the current revision to the deployment's annotation."""
        if revisions.number(deployment) == number:
            return
        patch = {"metadata": {"annotations": {revisions.REVISION: str(number)}}}
        patch["metadata"]["uid"] = deployment["metadata"]["uid"]
        changed = await self.client(key).patch(
            key.tenant, DEPLOYMENTS, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
        )
        deployment["metadata"] = changed["metadata"]

    # Scaling

    async def _scale(
        self,
        key: ObjectKey,
        deployment: Object,
        sets: DeploymentReplicaSets,
        steps: Sequence[ReplicaSetScale],
    ) -> DeploymentReplicaSets:
        sizes = revisions.sizes(scaling.replicas(deployment), scaling.bounds(deployment).surge)
        changed = await gather_all(self._scale_one(key, deployment, step, sizes) for step in steps)
        by_name = {each["metadata"]["name"]: each for each in changed}
        new = sets.new and by_name.get(sets.new["metadata"]["name"], sets.new)
        return DeploymentReplicaSets(new, [by_name.get(each["metadata"]["name"], each) for each in sets.old])

    async def _scale_one(
        self, key: ObjectKey, deployment: Object, step: ReplicaSetScale, sizes: dict[str, str]
    ) -> Object:
        before, name = scaling.replicas(step.set), step.set["metadata"]["name"]
        annotations = get(step.set, "metadata", "annotations", default={})
        if before == step.replicas and sizes.items() <= annotations.items():
            return step.set
        patch = {"spec": {"replicas": step.replicas}, "metadata": {"annotations": dict(sizes)}}
        changed = await self._patch_set(key, step.set, patch)
        if before != step.replicas:
            direction = "up" if before < step.replicas else "down"
            message = f"Scaled {direction} replica set {name} from {before} to {step.replicas}"
            self.events.normal(key.plane, deployment, "ScalingReplicaSet", message)
        return changed

    # Status and history

    async def _finish(
        self, key: ObjectKey, deployment: Object, sets: DeploymentReplicaSets, created: str | None
    ) -> Result:
        now = self.clock()
        desired = status.status(deployment, sets, created, now)
        if desired != deployment.get("status"):
            deployment["status"] = desired
            await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")
        if status.is_complete(deployment, desired) and "deletionTimestamp" not in deployment["metadata"]:
            await gather_all(
                self._delete_set(key, each) for each in revisions.beyond_history_limit(deployment, sets.old)
            )
        remaining_seconds = status.left_seconds(deployment, now)
        return Result(max(remaining_seconds, 0.0) + 1.0) if remaining_seconds is not None else DONE

    async def _delete_set(self, key: ObjectKey, old: Object) -> None:
        metadata = old["metadata"]
        try:
            await self.client(key).delete(
                key.tenant,
                REPLICA_SETS,
                metadata["name"],
                namespace=key.namespace,
                uid=metadata["uid"],
                revision=metadata["resourceVersion"],
            )
        except NotFound:
            pass
