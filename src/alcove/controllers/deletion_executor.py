"""Carrying out a plan of emptying: deletions and releases, all at once, none stopping the others; and when
to tell of it."""

from __future__ import annotations

from collections import OrderedDict

from alcove.api import meta
from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.client.keys import ObjectKey
from alcove.controllers.concurrency import together
from alcove.controllers.content_deletion import OURS, ContentDeletionPlan
from alcove.controllers.metadata_cache import ObjectMetadata

REPORT_AFTER_SECONDS = 2.0
"""An emptying that takes less leaves no trace in the status: nobody would have time to read it."""
REPORT_EVERY_SECONDS = 5.0
REPORTED_MAX = 10_000


class DeletionReports:
    """Which spaces are due to tell what they wait for: after a while, then now and then."""

    def __init__(self) -> None:
        self._told: OrderedDict[ObjectKey, float] = OrderedDict()

    def wait_seconds(self, key: ObjectKey, space: Object, now: float) -> float:
        """How long until the next report; 0: it is due, and taken as told."""
        since = meta.parse_time(space["metadata"]["deletionTimestamp"])
        due = max(since + REPORT_AFTER_SECONDS, self._told.get(key, 0.0) + REPORT_EVERY_SECONDS)
        if due > now:
            return due - now
        self._told[key] = now
        self._told.move_to_end(key)
        if len(self._told) > REPORTED_MAX:
            self._told.popitem(last=False)
        return 0.0

    def forget(self, key: ObjectKey) -> None:
        self._told.pop(key, None)


async def carry_out(client: Client, plan: ContentDeletionPlan) -> list[str]:
    """What the server refused, in its words, each once. Raises only where it cannot be reached."""
    deletes = [_delete(client, known) for known in plan.deletes]
    releases = [_release(client, known) for known in plan.releases]
    return sorted({message for message in await together([*deletes, *releases]) if message})


async def _delete(client: Client, known: ObjectMetadata) -> str:
    key = known.key
    try:
        await client.delete(key.tenant, known.resource, key.name, namespace=key.namespace, uid=known.uid)
    except (NotFound, Conflict):
        pass  # Gone, or not as we knew it: the mirror will tell.
    except ApiError as error:
        return error.message
    return ""


async def _release(client: Client, known: ObjectMetadata) -> str:
    """Takes away finalizers that nobody is left to serve."""
    key = known.key
    kept = [each for each in known.finalizers if each in OURS]
    patch = {"metadata": {"finalizers": kept, "resourceVersion": known.metadata["resourceVersion"]}}
    try:
        await client.patch(
            key.tenant, known.resource, key.name, patch, namespace=key.namespace, kind=Patch.MERGE
        )
    except (NotFound, Conflict):
        pass
    except ApiError as error:
        return error.message
    return ""
