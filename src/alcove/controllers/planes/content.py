"""Copies all objects of a closed tenant from one API server to another (`apiserver/planes/tenant_content.py`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import orjson
from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CRDS
from alcove.client import paths
from alcove.client.client import Client
from alcove.client.errors import MalformedResponse
from alcove.client.resources import TENANTS

_FIRST = (str(CRDS),)
"""Objects of custom kinds can be stored where their definitions are."""


class ContentOverview(Struct, frozen=True):
    revision: int
    objects: Mapping[str, int]
    """The number of objects of each resource."""


def _path(tenant: TenantId, query: Mapping[str, str] | None = None) -> str:
    return paths.with_query(paths.one(SYSTEM, TENANTS, "", tenant, "content"), query or {})


async def overview(client: Client, tenant: TenantId) -> ContentOverview:
    found = await client.request("GET", _path(tenant))
    revision, counts = found.get("revision"), found.get("objects")
    if not isinstance(revision, int) or not isinstance(counts, dict):
        raise MalformedResponse("the content of a tenant has no revision or no objects")
    return ContentOverview(revision, counts)


async def empty(client: Client, tenant: TenantId) -> None:
    """Deletes all objects of the tenant: they are, or stay, elsewhere."""
    while (await client.send("DELETE", _path(tenant))).get("deleted"):
        pass


async def copy(source: Client, target: Client, tenant: TenantId, found: ContentOverview) -> None:
    """Copies the objects unchanged. `found` is what the source has."""
    for resource in sorted(found.objects, key=lambda each: (each not in _FIRST, each)):
        after = ""
        while True:
            query = {"resource": resource, "after": after}
            page = await source.request("GET", _path(tenant, query))
            items = page.get("items")
            if not isinstance(items, list):
                raise MalformedResponse("a page of a tenant's content has no items")
            if items:
                await target.send("PUT", _path(tenant), _compressed(resource, items, found.revision))
            next_after = str(page.get("after") or "")
            # A page has objects, which have a bound, so a server that may send anything cannot go on without end.
            if not items or not next_after or next_after == after:
                break
            after = next_after


def _compressed(resource: str, items: list[Object], after: int) -> bytes:
    return zlib.compress(orjson.dumps({"resource": resource, "items": items, "after": after}), 1)
