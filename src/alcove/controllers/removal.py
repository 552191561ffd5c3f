"""Carrying out a plan of emptying: deletions and releases, all at once, none stopping the others."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.api import meta
from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.controllers.emptying import OURS, Plan
from alcove.controllers.everything import Known
from alcove.controllers.together import together

REPORT_SECONDS = 1.0
"""An emptying that takes less leaves no trace in the status: nobody would have time to read it."""


async def carry_out(client: Client, plan: Plan) -> list[str]:
    """What the server refused, in its words, each once. Raises only where it cannot be reached."""
    deletes = [_delete(client, known) for known in plan.deletes]
    releases = [_release(client, known) for known in plan.releases]
    return sorted({told for told in await together([*deletes, *releases]) if told})


async def _delete(client: Client, known: Known) -> str:
    key = known.key
    try:
        await client.delete(key.tenant, known.resource, key.name, namespace=key.namespace, uid=known.uid)
    except (NotFound, Conflict):
        pass  # Gone, or not as we knew it: the mirror will tell.
    except ApiError as error:
        return error.message
    return ""


async def _release(client: Client, known: Known) -> str:
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


def report_due(space: Object, now: float, failures: Sequence[str]) -> bool:
    """Whether emptying goes on long enough to be told of in the status."""
    since = meta.parse_time(space["metadata"]["deletionTimestamp"])
    return bool(failures) or now - since >= REPORT_SECONDS
