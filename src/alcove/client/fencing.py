"""The fence of a plane: once a leader has taken it, the plane rejects writes of earlier leaders.

A leader is elected on the home plane, by a Lease there. Every other plane has a Lease of the same name that
names the leader, and checks writes against it (the header `Alcove-Fence`, as on the home plane). A leader
that takes the fence and reads the plane afterwards sees everything that earlier leaders will ever have
written.

    read the fence ──▶ confirm with the home plane that we lead ──▶ write the fence, if it is unchanged

A former leader that was paused between any two of these steps cannot take the fence back: either the home
plane does not confirm it, or the fence has changed since it was read.
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
"""Returns once the home plane has confirmed, after the call, that this process leads. Raises NotPermitted if
not."""


async def take(client: Client, fence: str, confirm: Confirm) -> None:
    """Take the fence of a plane. `fence` is LEASE/HOLDER; `client` writes to the plane without a fence.

    Raises ApiError (Conflict or AlreadyExists if another writer changed the fence meanwhile) and ClientError;
    it is then unknown which process holds the fence.
    """
    name, _, holder = fence.partition("/")
    existing = await _read(client, name)
    if existing is not None and objects.get(existing, "spec", "holderIdentity") == holder:
        return
    await confirm()
    if existing is not None:
        await client.update(SYSTEM, LEASES, {**existing, "spec": {"holderIdentity": holder}})
        return
    lease = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"holderIdentity": holder}}
    try:
        await client.create(SYSTEM, LEASES, lease)
    except NotFound:
        await _create_namespace(client)
        await client.create(SYSTEM, LEASES, lease)


def is_fenced_off(error: ApiError) -> bool:
    """Whether a plane rejected a write because this process does not hold the fence."""
    return error.code == 409 and error.details is not None and error.details.kind == LEASES.resource


async def _read(client: Client, name: str) -> Object | None:
    try:
        return await client.get(SYSTEM, LEASES, name, namespace=NAMESPACE)
    except NotFound:
        return None


async def _create_namespace(client: Client) -> None:
    try:
        await client.create(SYSTEM, NAMESPACES, {"metadata": {"name": NAMESPACE}})
    except AlreadyExists:
        pass
