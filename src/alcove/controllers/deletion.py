"""Deleting one object just as it was known."""

from __future__ import annotations

from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Propagation
from alcove.client.keys import ObjectKey
from alcove.client.resources import Resource


async def delete_as_known(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    metadata: Object,
    *,
    propagation: Propagation | None = None,
    grace_seconds: int | None = None,
) -> None:
    """Deletes the object if it is still what `metadata` says. If it is gone or changed nothing happens:
    the mirror will tell, and the change brings the reconciler back."""
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
