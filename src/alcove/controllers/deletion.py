"""Deletion of an object only if it has not changed since it was read."""

from __future__ import annotations

from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import Resource


async def delete_if_unchanged(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    metadata: Object,
    *,
    propagation: Propagation | None = None,
    grace_seconds: int | None = None,
) -> None:
    """Deletes the object if it still has the uid and resourceVersion of `metadata`. Does nothing if it was
    deleted or changed: the watch event of that change enqueues the key again."""
    try:
        await client.delete(
            key.tenant,
            resource,
            key.name,
            namespace=key.namespace,
            uid=metadata["uid"],
            revision=metadata["resourceVersion"],
            propagation=propagation,
            grace_seconds=grace_seconds,
        )
    except (NotFound, Conflict):
        pass
