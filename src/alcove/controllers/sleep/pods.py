"""Ends the pods of tenants that are asleep.

| pod                                  | is                                                                          |
|--------------------------------------|-----------------------------------------------------------------------------|
| not bound to a node, or finished     | left alone                                                                  |
| of a job                             | deleted by the job controller, which treats the job as suspended            |
| of another controller                | deleted; its controller creates another, which waits for the tenant to wake |
| without a controller                 | deleted, and created again as it was, which then waits too                  |

A pod without a controller is recorded in ring0 before it is deleted: whatever happens in between, it comes back.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from msgspec import structs

from alcove.api import objects
from alcove.api.errors import AlreadyExists, Forbidden, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.pods.copies import unscheduled
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import CONFIG_MAPS, JOBS, PODS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, controller_of
from alcove.controllers.network.tenancy import TenantLookup
from alcove.controllers.sleep.sleepers import Sleepers
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating
from alcove.controllers.workloads import pods

RECORD = "alcove.io/sleeping-pod"
"""Label of the records."""
NAMESPACE = "kube-system"
PLANE_SECONDS = 30.0
"""How often to look whether a dedicated plane that has left is back."""


def _recorded(record: Object) -> Iterable[str]:
    return (_name(_pod_key(record)),)


def _name(key: ObjectKey) -> str:
    """On whatever plane: the tenant may have moved since."""
    return f"{key.tenant}/{key.namespace}/{key.name}"


def _pod_key(record: Object) -> ObjectKey:
    data = record["data"]
    return ObjectKey(PlaneId(data["plane"]), TenantId(data["tenant"]), data["namespace"], data["name"])


class SleepingPods(Controller):
    name = "sleeping-pods"
    resource = PODS
    workers = 16

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.mirror(PODS)
        self._records = self.mirror(
            CONFIG_MAPS, {"pod": _recorded}, tenant=SYSTEM, labels=f"{RECORD}=true", only=HOME
        )
        self._sleepers = Sleepers(self, self._pods)
        self._tenancy = TenantLookup(self)
        self.on(self._pods, self._of_pod)
        self.on(self._records, lambda change: (_pod_key(change.obj),))

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        is_gone = change.kind is ChangeType.DELETED
        if change.key.tenant in self._sleepers or (is_gone and self._record_of(change.key)):
            yield change.key

    async def reconcile(self, key: ObjectKey) -> Result:
        plane = self._tenancy.plane_of(key.tenant)
        if plane is None:
            return Result(after_seconds=PLANE_SECONDS)
        key = structs.replace(key, plane=plane)
        pod, record = self._pods.get(key), self._record_of(key)
        if record is not None and (pod is None or pod["metadata"]["uid"] != record["data"]["uid"]):
            await self._bring_back(key, pod, record)
            return DONE
        if pod is None or not _runs(pod):
            return DONE
        if key.tenant not in self._sleepers:
            if record is not None:
                await self._forget(record)
            return DONE
        owner = controller_of(pod)
        if owner is not None and owner.get("kind") == JOBS.kind:
            return DONE
        if owner is None and record is None:
            await self._record(key, pod)
        try:
            await self.client(key).delete(
                key.tenant, PODS, key.name, namespace=key.namespace, uid=pod["metadata"]["uid"]
            )
        except NotFound:
            pass
        return DONE

    # Records

    def _record_of(self, key: ObjectKey) -> Object | None:
        return next(iter(self._records.find("pod", HOME, SYSTEM, _name(key))), None)

    async def _record(self, key: ObjectKey, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        data = {"plane": key.plane, "tenant": key.tenant, "namespace": key.namespace, "name": key.name}
        data |= {"uid": uid, "manifest": orjson.dumps(unscheduled(pod)).decode()}
        metadata = {"name": f"sleeping-pod-{uid}", "labels": {RECORD: "true"}}
        try:
            await self._home.create(
                SYSTEM, CONFIG_MAPS, {"metadata": metadata, "data": data}, namespace=NAMESPACE
            )
        except AlreadyExists:
            pass  # Recorded before an interruption.

    async def _bring_back(self, key: ObjectKey, pod: Object | None, record: Object) -> None:
        """Creates the recorded pod, unless another one has its name now, or its namespace is gone."""
        try:
            # The mirror may show a record that was removed: the pod would come back a second time.
            current = await self._home.get(SYSTEM, CONFIG_MAPS, objects.name(record), namespace=NAMESPACE)
        except NotFound:
            return
        if pod is None:
            try:
                manifest = orjson.loads(current["data"]["manifest"])
                await self.client(key).create(key.tenant, PODS, manifest, namespace=key.namespace)
            except AlreadyExists:
                pass
            except NotFound as error:
                if not is_namespace_or_tenant_missing(error):
                    raise
            except Forbidden as error:
                if not is_terminating(error):
                    raise
        await self._forget(current)

    async def _forget(self, record: Object) -> None:
        try:
            await self._home.delete(SYSTEM, CONFIG_MAPS, objects.name(record), namespace=NAMESPACE)
        except NotFound:
            pass

    @property
    def _home(self) -> Client:
        return self.context.planes.client(HOME)


def _runs(pod: Object) -> bool:
    return bool(objects.get(pod, "spec", "nodeName")) and pods.is_active(pod)
