"""Executes a content deletion plan, and decides when its progress is written to the status.

Deletions and finalizer removals run concurrently; an error of one does not stop the others.
"""

from __future__ import annotations

from collections import OrderedDict

from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.client.client import Client, Patch
from alcove.client.keys import ObjectKey
from alcove.controllers.concurrency import gather_all
from alcove.controllers.content_deletion import ContentDeletionPlan, is_ours
from alcove.controllers.metadata_cache import ObjectMetadata

REPORT_AFTER_SECONDS = 2.0
"""A deletion that finishes sooner writes no progress to the status."""
REPORT_EVERY_SECONDS = 5.0
REPORTED_MAX = 10_000


class DeletionReports:
    """When the namespace or tenant of each key is due for a progress report: first REPORT_AFTER_SECONDS after its deletion was
    begun here, however long that had to wait for its turn, then every REPORT_EVERY_SECONDS."""

    def __init__(self) -> None:
        self._due_at: OrderedDict[ObjectKey, float] = OrderedDict()

    def wait_seconds(self, key: ObjectKey, now: float) -> float:
        """Seconds until the next report. 0 if it is due; then it is recorded as reported at `now`."""
        due = self._due_at.get(key)
        if due is not None and due > now:
            return due - now
        self._due_at[key] = now + (REPORT_AFTER_SECONDS if due is None else REPORT_EVERY_SECONDS)
        self._due_at.move_to_end(key)
        if len(self._due_at) > REPORTED_MAX:
            self._due_at.popitem(last=False)
        return REPORT_AFTER_SECONDS if due is None else 0.0

    def forget(self, key: ObjectKey) -> None:
        self._due_at.pop(key, None)


async def carry_out(client: Client, plan: ContentDeletionPlan) -> list[str]:
    """Returns the server's error messages, without duplicates. Raises only if the server is unreachable."""
    deletes = [_delete(client, obj) for obj in plan.deletes]
    releases = [_release(client, obj) for obj in plan.releases]
    return sorted({message for message in await gather_all([*deletes, *releases]) if message})


async def _delete(client: Client, obj: ObjectMetadata) -> str:
    key = obj.key
    try:
        await client.delete(key.tenant, obj.resource, key.name, namespace=key.namespace, uid=obj.uid)
    except (NotFound, Conflict):
        pass  # Deleted or changed: the watch event enqueues the key again.
    except ApiError as error:
        return error.message
    return ""


async def _release(client: Client, obj: ObjectMetadata) -> str:
    """Removes foreign finalizers, whose controllers no longer exist."""
    key = obj.key
    retained = [each for each in obj.finalizers if is_ours(obj, each)]
    patch = {"metadata": {"finalizers": retained, "resourceVersion": obj.metadata["resourceVersion"]}}
    try:
        await client.patch(
            key.tenant, obj.resource, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
        )
    except (NotFound, Conflict):
        pass
    except ApiError as error:
        return error.message
    return ""
