"""The ReplicaSet controller: claims, creates and deletes pods, and updates the status.

ReplicationControllers differ only in their resource and in the form of their selector.
"""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api.errors import ApiError, NotFound
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
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating
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
        self._limits = TenantRequestLimits()
        self.on(self._sets)
        self.on(self._pods, owner_or_selectors(self.resource, self._selectors))

    def selector_of(self, obj: Object) -> LabelSelector:
        return label_selector(obj)

    async def reconcile(self, key: ObjectKey) -> Result:
        replica_set = self._sets.get(key)
        if replica_set is None:
            return DONE
        client = self.client(key)
        owner = controller_refs.ControllerRefManager(
            client, key, self.resource, replica_set, self._selectors.get(key)
        )
        owned = await owner.claim(self._pods, pods.is_active)
        plan = plans.plan(replica_set, owned, self._neighbours(key, replica_set, owned), self.clock())
        created = await self._create(client, key, replica_set, plan.create)
        error, deleted = await self._delete(client, key, replica_set, plan.delete)
        remaining = [pod for pod in owned if pod["metadata"]["name"] not in deleted] + created.objects
        is_ending = is_terminating(created.error)
        failure = None if is_ending else _failure("FailedCreate", created.error)
        failure = failure or _failure("FailedDelete", error)
        await self._write(client, key, replica_set, remaining, failure)
        if is_ending:
            return (
                DONE  # The namespace is terminating, and the set with it: its finalizers may take any time.
            )
        if failure is not None:
            raise ServerRefusal(failure.message) from created.error or error
        if len(remaining) != plans.replicas(replica_set) and plan != plans.NOTHING:
            return Result(after_seconds=0)  # The next burst.
        min_ready = replica_set["spec"].get("minReadySeconds", 0)
        return Result(pods.next_available_seconds(remaining, min_ready, self.clock()))

    # Pods

    async def _create(
        self, client: Client, key: ObjectKey, replica_set: Object, number: int
    ) -> CreatedObjects:
        pod = pod_of(
            replica_set["spec"].get("template") or {}, controller_refs.reference(self.resource, replica_set)
        )
        pod["metadata"]["generateName"] = f"{key.name}-"

        async def create(_number: int) -> Object:
            created = await client.create(key.tenant, PODS, pod, namespace=key.namespace)
            message = f"Created pod: {created['metadata']['name']}"
            self.events.normal(key.plane, replica_set, "SuccessfulCreate", message)
            return created

        created = await slow_start(self._limits.of(key.tenant_key), range(number), create)
        if created.error is not None and not is_terminating(created.error):
            _raise_unless_refused(created.error)
            self.events.warning(
                key.plane, replica_set, "FailedCreate", f"Error creating: {_message(created.error)}"
            )
        return created

    async def _delete(
        self, client: Client, key: ObjectKey, replica_set: Object, surplus: Sequence[Object]
    ) -> tuple[Exception | None, set[str]]:
        """The first error, and the names of the pods whose deletion was accepted."""

        async def delete(pod: Object) -> Object:
            metadata = pod["metadata"]
            try:
                await client.delete(
                    key.tenant, PODS, metadata["name"], namespace=key.namespace, uid=metadata["uid"]
                )
            except NotFound:
                return pod
            message = f"Deleted pod: {metadata['name']}"
            self.events.normal(key.plane, replica_set, "SuccessfulDelete", message)
            return pod

        result = await slow_start(self._limits.of(key.tenant_key), surplus, delete)
        if result.error is not None:
            _raise_unless_refused(result.error)
            message = f"Error deleting: {_message(result.error)}"
            self.events.warning(key.plane, replica_set, "FailedDelete", message)
        return result.error, {pod["metadata"]["name"] for pod in result.objects}

    def _neighbours(self, key: ObjectKey, replica_set: Object, owned: list[Object]) -> list[Object]:
        """Pods of all sets with the same owner (a deployment), if pods have to be deleted; otherwise
        empty."""
        if len(owned) <= plans.replicas(replica_set):
            return []
        controller = controller_of(replica_set)
        if controller is None:
            return owned
        siblings = self._sets.find("controller", key.plane, key.tenant, controller["uid"])
        uids = {each["metadata"]["uid"] for each in siblings} - {replica_set["metadata"]["uid"]}
        others = [self._pods.find("controller", key.plane, key.tenant, uid) for uid in uids]
        return owned + [pod for each in others for pod in each]

    # Status

    async def _write(
        self,
        client: Client,
        key: ObjectKey,
        replica_set: Object,
        owned: Sequence[Object],
        failure: plans.ReplicaFailure | None,
    ) -> None:
        status = plans.status(replica_set, owned, failure, self.clock(), self._terminating(key, replica_set))
        if status != replica_set.get("status"):
            replica_set["status"] = status
            try:
                await client.update(key.tenant, self.resource, replica_set, subresource="status")
            except NotFound:
                pass

    def _terminating(self, key: ObjectKey, replica_set: Object) -> int | None:
        controlled = self._pods.find("controller", key.plane, key.tenant, replica_set["metadata"]["uid"])
        return sum(1 for pod in controlled if pods.is_terminating(pod) and not pods.is_finished(pod))


class ReplicationControllerController(ReplicaSetController):
    name = "replication"
    resource = REPLICATION_CONTROLLERS
    workers = 4

    def selector_of(self, obj: Object) -> LabelSelector:
        return plain_selector(obj)

    def _terminating(self, key: ObjectKey, replica_set: Object) -> int | None:
        return None


def _failure(reason: str, error: Exception | None) -> plans.ReplicaFailure | None:
    return None if error is None else plans.ReplicaFailure(reason, _message(error))


def _raise_unless_refused(error: Exception) -> None:
    """Re-raises errors that are not the server's rejection of the request; those are not shown to the
    tenant."""
    if not isinstance(error, ApiError) or is_namespace_or_tenant_missing(error):
        raise error


def _message(error: Exception) -> str:
    return error.message if isinstance(error, ApiError) else str(error)
