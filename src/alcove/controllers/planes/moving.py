"""Moves a tenant between the home plane and an API server of its own. The steps are a list, `STEPS`:

    share    the other server gets the CRDs that ring0 shares with all tenants, whose objects it could not have otherwise
    close    the tenant is closed where it is served: its requests are answered with 503, its watches end with 410
    empty    what an earlier attempt has left at the other server is deleted
    copy     all objects are copied unchanged, with their uids, times, generations and managed fields
    verify   both servers have equally many objects of each resource
    switch   the Tenant's status says that the other server serves the tenant
    open     the tenant is opened there

Before the switch a failure opens the tenant again where it was; from the switch on the move goes on. Each step can be
repeated, and which are due follows from the Tenant's status and the closures, so whoever is killed meanwhile, the next
controller continues. A tenant is never open on both servers: the one is closed before anything is copied, and opened again only
if the status still names it.

What is left at home after a move to an own server is deleted afterwards (`PlaneController`). The home plane stays
closed for the tenant as long as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from alcove.api.errors import AlreadyExists, ApiError, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_closures import NAMESPACE, closure_name
from alcove.client.client import Client
from alcove.client.errors import ClientError, MalformedResponse
from alcove.client.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES
from alcove.controllers.planes import content, shared_definitions
from alcove.controllers.planes.content import ContentOverview


class MoveFailed(Exception):
    """The tenant is open again where it was."""


class TenantMove(Struct):
    tenant: TenantId
    owner: Object
    """The Tenant's owner reference, for the closure at home."""
    home: Client
    plane: Client
    is_to_plane: bool
    switch: Callable[[], Awaitable[None]]
    """Writes to the Tenant's status which server serves it from now on."""
    found: ContentOverview = ContentOverview(0, {})

    @property
    def source(self) -> Client:
        return self.home if self.is_to_plane else self.plane

    @property
    def target(self) -> Client:
        return self.plane if self.is_to_plane else self.home

    async def run(self) -> None:
        """Raises MoveFailed; ApiError and ClientError if the tenant may have switched, or could not be opened again."""
        may_have_switched = False
        try:
            for step in STEPS:
                may_have_switched = may_have_switched or step is TenantMove._switch
                await step(self)
        except (ApiError, ClientError) as error:
            if may_have_switched:
                raise
            await open_(self.source, self.tenant)
            reason = error.message if isinstance(error, ApiError) else str(error)
            raise MoveFailed(reason) from error

    async def _share(self) -> None:
        if not self.is_to_plane:
            return  # They come from there.
        labels = shared_definitions.SELECTOR
        for crd in await self.home.list(SYSTEM, CUSTOM_RESOURCE_DEFINITIONS, labels=labels):
            await shared_definitions.copy(self.plane, crd)

    async def _close(self) -> None:
        # The target first: a tenant that was dedicated from the beginning is not closed at home yet.
        await close(self.target, self.tenant, self.owner if not self.is_to_plane else None)
        await close(self.source, self.tenant, self.owner if self.is_to_plane else None)
        self.found = await content.overview(self.source, self.tenant)

    async def _empty(self) -> None:
        await content.empty(self.target, self.tenant)

    async def _copy(self) -> None:
        await content.copy(self.source, self.target, self.tenant, self.found)

    async def _verify(self) -> None:
        copied = await content.overview(self.target, self.tenant)
        if copied.objects != self.found.objects:
            raise MalformedResponse("the servers do not have the same objects after the copy")

    async def _switch(self) -> None:
        await self.switch()

    async def _open(self) -> None:
        await open_(self.target, self.tenant)


STEPS: tuple[Callable[[TenantMove], Awaitable[None]], ...] = (
    TenantMove._share,
    TenantMove._close,
    TenantMove._empty,
    TenantMove._copy,
    TenantMove._verify,
    TenantMove._switch,
    TenantMove._open,
)


async def close(client: Client, tenant: TenantId, owner: Object | None) -> None:
    metadata: Object = {"name": closure_name(tenant), "namespace": NAMESPACE}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    try:
        await client.create(SYSTEM, LEASES, {"metadata": metadata, "spec": {"holderIdentity": "move"}})
    except AlreadyExists:
        pass


async def open_(client: Client, tenant: TenantId) -> None:
    try:
        await client.delete(SYSTEM, LEASES, closure_name(tenant), namespace=NAMESPACE)
    except NotFound:
        pass


async def is_closed(client: Client, tenant: TenantId) -> bool:
    try:
        await client.get(SYSTEM, LEASES, closure_name(tenant), namespace=NAMESPACE)
    except NotFound:
        return False
    return True
