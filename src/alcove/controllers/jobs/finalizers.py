"""Removal of the tracking finalizer that keeps a pod until its Job has counted it, also from orphaned pods.

A pod can lose its Job in many ways: its labels change and the Job releases it, the garbage collector orphans
it, a user edits its owner references. A pod with the finalizer that no Job controls will never be counted;
the finalizer would block its deletion, and that of its namespace, forever.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, Patch
from alcove.client.keys import ObjectKey
from alcove.client.resources import JOBS, PODS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result, controller_of
from alcove.controllers.jobs.accounting import FINALIZER, is_tracked


async def remove_finalizer(client: Client, key: ObjectKey, pod: Object) -> None:
    """Remove the tracking finalizer from a pod in the key's namespace. Raises Conflict if the pod has
    changed."""
    if not is_tracked(pod):
        return
    metadata = pod["metadata"]
    remaining = [each for each in metadata["finalizers"] if each != FINALIZER]
    changed = {
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "finalizers": remaining or None,
    }
    try:
        await client.patch(
            key.tenant,
            PODS,
            metadata["name"],
            {"metadata": changed},
            namespace=key.namespace,
            kind=Patch.MERGE,
        )
    except NotFound:
        pass


def controlling_job(pod: Object) -> Object | None:
    """The reference to the Job that controls the pod. Kinds called Job in other API groups do not count."""
    owner = controller_of(pod)
    if owner is None or owner.get("kind") != JOBS.kind:
        return None
    group, _, _ = str(owner.get("apiVersion", "")).rpartition("/")
    return owner if group == JOBS.group else None


def is_orphan(pod: Object) -> bool:
    """Whether the pod has the tracking finalizer and is not controlled by a Job."""
    return is_tracked(pod) and controlling_job(pod) is None


def _orphans(change: ObjectChange) -> Iterable[ObjectKey]:
    return (change.key,) if change.kind is not ChangeType.DELETED and is_orphan(change.obj) else ()


class OrphanedJobPods(Controller):
    """Pods that refer to a deleted Job are not included: the Job controller releases them."""

    name = "orphaned-job-pods"
    resource = PODS

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = self.mirror(PODS)
        self.on(self._pods, _orphans)

    async def reconcile(self, key: ObjectKey) -> Result:
        pod = self._pods.get(key)
        if pod is not None and is_orphan(pod):
            try:
                await remove_finalizer(self.client(key), key, pod)
            except Conflict:
                return DONE  # The conflicting change enqueues the pod again if it is still an orphan.
        return DONE
