"""The shell around a deployment's plans: makes, numbers, scales and clears away replica sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api.errors import AlreadyExists, ApiError, Forbidden, NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import Change, Kind
from alcove.client.client import Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import DEPLOYMENTS, PODS, REPLICA_SETS
from alcove.controllers.controller import DONE, Controller, Refused, Result, Setup, controller_of
from alcove.controllers.deployments import revisions, scaling, status
from alcove.controllers.deployments.revisions import Sets
from alcove.controllers.deployments.scaling import Scale
from alcove.controllers.terminating import is_terminating
from alcove.controllers.together import together
from alcove.controllers.workloads import owning, pods
from alcove.controllers.workloads.selecting import Selectors, owner_or_selectors


class Deployments(Controller):
    name = "deployment"
    resource = DEPLOYMENTS
    workers = 16

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._deployments = self.mirror(DEPLOYMENTS)
        self._sets = self.mirror(REPLICA_SETS, owning.OWNING)
        self._pods = self.mirror(PODS, owning.OWNING)
        self._selectors = Selectors(self._deployments)
        self.on(self._deployments)
        self.on(self._sets, owner_or_selectors(DEPLOYMENTS, self._selectors))
        self.on(self._pods, self._deployment_that_lost_it)

    def _deployment_that_lost_it(self, change: Change) -> Iterable[ObjectKey]:
        """One that is recreated waits for its old pods to be gone."""
        owner = controller_of(change.obj) if change.kind is Kind.DELETED else None
        if owner is None or owner.get("kind") != REPLICA_SETS.kind:
            return
        replica_set = self._sets.get(change.key.of(owner["name"]))
        above = controller_of(replica_set) if replica_set is not None else None
        if above is not None and above.get("kind") == DEPLOYMENTS.kind:
            yield change.key.of(above["name"])

    async def reconcile(self, key: ObjectKey) -> Result:
        deployment = self._deployments.get(key)
        if deployment is None:
            return DONE
        owner = owning.Owner(self.client(key), key, DEPLOYMENTS, deployment, self._selectors.get(key))
        sets = revisions.sort_sets(deployment, await owner.claim(self._sets))
        if "deletionTimestamp" in deployment["metadata"]:
            return await self._finish(key, deployment, sets, None)
        return await self._advance(key, deployment, sets)

    async def _advance(self, key: ObjectKey, deployment: Object, sets: Sets) -> Result:
        """The next step of whatever is under way, and the status after it."""
        created = None
        if deployment["spec"].get("paused") or scaling.is_resized(deployment, sets):
            sets = await self._scale(key, deployment, sets, scaling.resize(deployment, sets))
        elif scaling.is_rolling(deployment):
            sets, created = await self._with_new(key, deployment, sets)
            if created is None:
                sets = await self._scale(key, deployment, sets, scaling.roll(deployment, sets))
        elif retiring := scaling.retire(sets.old):
            sets = await self._number(key, deployment, sets)
            sets = await self._scale(key, deployment, sets, retiring)
        elif not self._has_pods(key, sets.old):
            sets, created = await self._with_new(key, deployment, sets)
            if created is None and sets.new is not None:
                wanted = scaling.replicas(deployment)
                sets = await self._scale(key, deployment, sets, [Scale(sets.new, wanted)])
        return await self._finish(key, deployment, sets, created)

    def _has_pods(self, key: ObjectKey, old: Sequence[Object]) -> bool:
        """Old pods that run, or have not yet stopped."""
        return any(
            not pods.is_finished(pod)
            for each in old
            for pod in self._pods.find("controller", key.plane, key.tenant, each["metadata"]["uid"])
        )

    # The new replica set

    async def _with_new(self, key: ObjectKey, deployment: Object, sets: Sets) -> tuple[Sets, str | None]:
        """With the new set in it, and its name if it was made just now."""
        if sets.new is not None:
            return await self._number(key, deployment, sets), None
        size = scaling.new_replicas(deployment, scaling.total(sets.all), 0)
        surge = scaling.bounds(deployment).surge
        wanted = revisions.new_set(deployment, revisions.next_number(sets.old), size, surge)
        new = await self._create(key, deployment, wanted)
        name = new["metadata"]["name"]
        if size:
            told = f"Scaled up replica set {name} from 0 to {size}"
            self.events.normal(key.plane, deployment, "ScalingReplicaSet", told)
        await self._say_number(key, deployment, revisions.number(new))
        return Sets(new, sets.old), name

    async def _create(self, key: ObjectKey, deployment: Object, wanted: Object) -> Object:
        try:
            return await self.client(key).create(key.tenant, REPLICA_SETS, wanted)
        except AlreadyExists as error:
            await self._count_collision(key, deployment, wanted, error)
            raise
        except Forbidden as error:
            if is_terminating(error):
                raise Refused(error.message) from error
            await self._tell_failure(key, deployment, wanted, error)
            raise Refused(error.message) from error

    async def _count_collision(
        self, key: ObjectKey, deployment: Object, wanted: Object, error: AlreadyExists
    ) -> None:
        """Another set has the name: the next attempt takes another one. Unless it is ours, made by a
        request whose answer was lost: then the mirror will show it."""
        name = wanted["metadata"]["name"]
        there = await self.client(key).get(key.tenant, REPLICA_SETS, name, namespace=key.namespace)
        owner = controller_of(there)
        is_ours = owner is not None and owner.get("uid") == deployment["metadata"]["uid"]
        if is_ours and revisions.sort_sets(deployment, [there]).new is not None:
            raise Refused(error.message) from error
        before = get(deployment, "status", "collisionCount", default=0)
        deployment["status"] = {**(deployment.get("status") or {}), "collisionCount": before + 1}
        await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")
        raise Refused(error.message) from error

    async def _tell_failure(
        self, key: ObjectKey, deployment: Object, wanted: Object, error: ApiError
    ) -> None:
        told = f'Failed to create new replica set "{wanted["metadata"]["name"]}": {error.message}'
        self.events.warning(key.plane, deployment, "ReplicaSetCreateError", told)
        old = deployment.get("status") or {}
        if status.deadline_seconds(deployment) is None:
            return
        failed = status.Told(status.PROGRESSING, "False", "ReplicaSetCreateError", told)
        conditions = status.put(old.get("conditions") or [], failed, self.clock())
        if conditions != old.get("conditions"):
            deployment["status"] = {**old, "conditions": conditions}
            await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")

    async def _number(self, key: ObjectKey, deployment: Object, sets: Sets) -> Sets:
        """The new set, if there is one, has the highest revision and what the deployment passes on."""
        if sets.new is None:
            return sets
        new, surge = sets.new, scaling.bounds(deployment).surge
        wanted = revisions.new_annotations(deployment, new, revisions.next_number(sets.old), surge)
        patch: Object = {}
        if wanted != get(new, "metadata", "annotations", default={}):
            patch["metadata"] = {"annotations": wanted}
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if new["spec"].get("minReadySeconds", 0) != min_ready:
            patch["spec"] = {"minReadySeconds": min_ready}
        if patch:
            new = await self._patch_set(key, new, patch)
        await self._say_number(key, deployment, revisions.number(new))
        return Sets(new, sets.old)

    async def _patch_set(self, key: ObjectKey, replica_set: Object, patch: Object) -> Object:
        """Only as it was seen: a patch of something else is a Conflict."""
        metadata = replica_set["metadata"]
        patch.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        return await self.client(key).patch(
            key.tenant, REPLICA_SETS, metadata["name"], patch, namespace=key.namespace, kind=Patch.MERGE
        )

    async def _say_number(self, key: ObjectKey, deployment: Object, number: int) -> None:
        """The deployment shows the revision that it is at."""
        if revisions.number(deployment) == number:
            return
        patch = {"metadata": {"annotations": {revisions.REVISION: str(number)}}}
        patch["metadata"]["uid"] = deployment["metadata"]["uid"]
        changed = await self.client(key).patch(
            key.tenant, DEPLOYMENTS, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
        )
        deployment["metadata"] = changed["metadata"]

    # Scaling

    async def _scale(self, key: ObjectKey, deployment: Object, sets: Sets, steps: Sequence[Scale]) -> Sets:
        sizes = revisions.sizes(scaling.replicas(deployment), scaling.bounds(deployment).surge)
        changed = await together(self._scale_one(key, deployment, step, sizes) for step in steps)
        by_name = {each["metadata"]["name"]: each for each in changed}
        new = sets.new and by_name.get(sets.new["metadata"]["name"], sets.new)
        return Sets(new, [by_name.get(each["metadata"]["name"], each) for each in sets.old])

    async def _scale_one(
        self, key: ObjectKey, deployment: Object, step: Scale, sizes: dict[str, str]
    ) -> Object:
        before, name = scaling.replicas(step.set), step.set["metadata"]["name"]
        told = get(step.set, "metadata", "annotations", default={})
        if before == step.replicas and sizes.items() <= told.items():
            return step.set
        patch = {"spec": {"replicas": step.replicas}, "metadata": {"annotations": dict(sizes)}}
        changed = await self._patch_set(key, step.set, patch)
        if before != step.replicas:
            way = "up" if before < step.replicas else "down"
            message = f"Scaled {way} replica set {name} from {before} to {step.replicas}"
            self.events.normal(key.plane, deployment, "ScalingReplicaSet", message)
        return changed

    # Status and history

    async def _finish(self, key: ObjectKey, deployment: Object, sets: Sets, created: str | None) -> Result:
        now = self.clock()
        wanted = status.status(deployment, sets, created, now)
        if wanted != deployment.get("status"):
            deployment["status"] = wanted
            await self.client(key).update(key.tenant, DEPLOYMENTS, deployment, subresource="status")
        if status.is_complete(deployment, wanted) and "deletionTimestamp" not in deployment["metadata"]:
            await together(self._clear(key, each) for each in revisions.outlived(deployment, sets.old))
        left = status.left_seconds(deployment, now)
        return Result(max(left, 0.0) + 1.0) if left is not None else DONE

    async def _clear(self, key: ObjectKey, old: Object) -> None:
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
