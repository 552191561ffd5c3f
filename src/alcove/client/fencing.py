"""The fence of a plane: from when it is taken, the plane refuses what anybody else writes under it.

A leader is elected on the home plane, by a Lease there. Every other plane has a Lease of the same name
that says who leads, and holds writes against it (the header `Alcove-Fence`, as on the home plane). Whoever
takes the fence and reads the plane afterwards sees all that leaders before it will ever have written.

    read the fence ──▶ confirm with the home plane that we lead ──▶ write it, if it is as it was read

A leader that was paused between any two of these cannot take the fence back: either the home plane tells
it, or the fence has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from alcove.api import objects
from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.resources import LEASES, NAMESPACES

NAMESPACE = "kube-system"

Confirm = Callable[[], Awaitable[None]]
"""Returns once the home plane has said, after the call, that we lead. Raises NotPermitted where we do not."""


async def take(client: Client, fence: str, confirm: Confirm) -> None:
    """`fence` is LEASE/HOLDER; `client` writes to the plane without a fence. Raises ApiError (a Conflict or
    AlreadyExists: somebody else wrote it meanwhile) and ClientError; then nothing is known."""
    name, _, holder = fence.partition("/")
    found = await _read(client, name)
    if found is not None and objects.get(found, "spec", "holderIdentity") == holder:
        return
    await confirm()
    if found is not None:
        await client.update(SYSTEM, LEASES, {**found, "spec": {"holderIdentity": holder}})
        return
    lease = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"holderIdentity": holder}}
    try:
        await client.create(SYSTEM, LEASES, lease)
    except NotFound:
        await _make_namespace(client)
        await client.create(SYSTEM, LEASES, lease)


def is_fenced_off(error: ApiError) -> bool:
    """Whether a plane refused a write because somebody else has the fence, or nobody."""
    return error.code == 409 and error.details is not None and error.details.kind == LEASES.resource


async def _read(client: Client, name: str) -> Object | None:
    try:
        return await client.get(SYSTEM, LEASES, name, namespace=NAMESPACE)
    except NotFound:
        return None


async def _make_namespace(client: Client) -> None:
    try:
        await client.create(SYSTEM, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        pass
