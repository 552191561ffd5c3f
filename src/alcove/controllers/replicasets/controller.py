"""The shell around the plan: claims pods, makes and deletes them, writes the status.

ReplicationControllers differ in their name and in how their selector is written, in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import ApiError, Forbidden, NotFound
from alcove.api.objects import Object
from alcove.api.selectors import LabelSelector
from alcove.client.changes import controller_uid
from alcove.client.client import Client
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from alcove.controllers.controller import (
    DONE,
    Controller,
    ControllerContext,
    Result,
    ServerRefusal,
    controller_of,
)
from alcove.controllers.replicasets import plan as plans
from alcove.controllers.terminating import is_place_missing, is_terminating
from alcove.controllers.workloads import controller_refs, pods
from alcove.controllers.workloads.creation import CreatedObjects, TenantRequestLimits, slow_start
from alcove.controllers.workloads.selector_index import (
    SelectorIndex,
    label_selector,
    owner_or_selectors,
    plain_selector,
)
from alcove.controllers.workloads.templates import pod_of


class ReplicaSetController(Controller):
    name = "replicaset"
    resource = REPLICA_SETS
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets: Mirror = self.mirror(self.resource, {"controller": controller_uid})
        self._pods = self.mirror(PODS, controller_refs.OWNING)
        self._selectors = SelectorIndex(self._sets, self.selector_of)
        self._lanes = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(self.resource, self._selectors))

    def selector_of(self, obj: Object) -> LabelSelector:
        return label_selector(obj)

    async def reconcile(self, key: ObjectKey) -> Result:
        desired = self._sets.get(key)
        if desired is None:
            return DONE
        client = self.client(key)
        owner = controller_refs.ControllerRefManager(
            client, key, self.resource, desired, self._selectors.get(key)
        )
        owned = await owner.claim(self._pods, pods.is_active)
        plan = plans.plan(desired, owned, self._neighbours(key, desired, owned), self.clock())
        made = await self._create(client, key, desired, plan.create)
        error, gone = await self._delete(client, key, desired, plan.delete)
        there = [pod for pod in owned if pod["metadata"]["name"] not in gone] + made.objects
        failure = _failure("FailedCreate", made.error) or _failure("FailedDelete", error)
        await self._write(client, key, desired, there, failure)
        if failure is not None:
            raise ServerRefusal(failure.message) from made.error or error
        if len(there) != plans.replicas(desired) and plan != plans.NOTHING:
            return Result(after_seconds=0)  # The next burst.
        min_ready = desired["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(there, min_ready, self.clock()))

    # Pods

    async def _create(self, client: Client, key: ObjectKey, desired: Object, number: int) -> CreatedObjects:
        pod = pod_of(desired["spec"].get("template") or {}, controller_refs.reference(self.resource, desired))
        pod["metadata"]["generateName"] = f"{key.name}-"

        async def create(_number: int) -> Object:
            made = await client.create(key.tenant, PODS, pod, namespace=key.namespace)
            message = f"Created pod: {made['metadata']['name']}"
            self.events.normal(key.plane, desired, "SuccessfulCreate", message)
            return made

        made = await slow_start(self._lanes.of(key.tenant_key), range(number), create)
        if isinstance(made.error, Forbidden) and is_terminating(made.error):
            return CreatedObjects(made.objects)  # The namespace goes, and the set with it.
        if made.error is not None:
            _only_refusals(made.error)
            self.events.warning(key.plane, desired, "FailedCreate", f"Error creating: {_told(made.error)}")
        return made

    async def _delete(
        self, client: Client, key: ObjectKey, desired: Object, surplus: Sequence[Object]
    ) -> tuple[Exception | None, set[str]]:
        """What went wrong, and whose deletion was accepted."""

        async def delete(pod: Object) -> Object:
            metadata = pod["metadata"]
            try:
                await client.delete(
                    key.tenant, PODS, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
                )
            except NotFound:
                return pod
            message = f"Deleted pod: {metadata['name']}"
            self.events.normal(key.plane, desired, "SuccessfulDelete", message)
            return pod

        deleted = await slow_start(self._lanes.of(key.tenant_key), surplus, delete)
        if deleted.error is not None:
            _only_refusals(deleted.error)
            message = f"Error deleting: {_told(deleted.error)}"
            self.events.warning(key.plane, desired, "FailedDelete", message)
        return deleted.error, {pod["metadata"]["name"] for pod in deleted.objects}

    def _neighbours(self, key: ObjectKey, desired: Object, owned: list[Object]) -> list[Object]:
        """Pods of all sets with the same owner (a deployment's old and new), if some are to be deleted."""
        if len(owned) <= plans.replicas(desired):
            return []
        controller = controller_of(desired)
        if controller is None:
            return owned
        siblings = self._sets.find("controller", key.plane, key.tenant, controller["uid"])
        uids = {each["metadata"]["uid"] for each in siblings} - {desired["metadata"]["uid"]}
        others = [self._pods.find("controller", key.plane, key.tenant, uid) for uid in uids]
        return owned + [pod for each in others for pod in each]

    # Status

    async def _write(
        self,
        client: Client,
        key: ObjectKey,
        desired: Object,
        there: Sequence[Object],
        failure: plans.ReplicaFailure | None,
    ) -> None:
        status = plans.status(desired, there, failure, self.clock())
        if status != desired.get("status"):
            desired["status"] = status
            try:
                await client.update(key.tenant, self.resource, desired, subresource="status")
            except NotFound:
                pass


class ReplicationControllerController(ReplicaSetController):
    name = "replication"
    resource = REPLICATION_CONTROLLERS
    workers = 4

    def selector_of(self, obj: Object) -> LabelSelector:
        return plain_selector(obj)


def _failure(reason: str, error: Exception | None) -> plans.ReplicaFailure | None:
    return None if error is None else plans.ReplicaFailure(reason, _told(error))


def _only_refusals(error: Exception) -> None:
    """Anything but the server's own answer about the set is no news for the tenant."""
    if not isinstance(error, ApiError) or is_place_missing(error):
        raise error


def _told(error: Exception) -> str:
    return error.message if isinstance(error, ApiError) else str(error)
