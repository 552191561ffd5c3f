"""`/api/v1/tenants/T/content`: all objects of a closed tenant as they are stored, for ring0 to move them to another API server.

    GET                        the resources that the tenant has objects of, and the newest revision
    GET ?resource=R&after=P    a page of them: as stored, with uid, times, generation and managed fields
    PUT                        writes a page, compressed by zlib, unchanged; revisions are greater than `after`
    DELETE                     deletes some objects, as many as fit into a few transactions

Nothing of it is possible while the tenant is open here, and no other write while it is closed: each transaction keeps the
closure. Objects come and go without admission, finalizers and grace: they have been admitted where they come from, and go on
existing where they went. What a dedicated server sends is checked to be of its tenant and valid.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Iterator, Sequence
from itertools import islice

import msgspec
import orjson
from msgspec import Struct

from alcove.api import objects
from alcove.api.encode import encode
from alcove.api.errors import BadRequest, Conflict, Forbidden, Invalid, ServiceUnavailable, TooLarge
from alcove.api.ids import Key, Revision, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.kinds.metadata import validate_metadata
from alcove.api.moved_objects import marked_as_moved
from alcove.api.objects import Object
from alcove.api.resources import LEASES, TENANTS
from alcove.api.schema.body import check_values
from alcove.api.schema.decode import decode
from alcove.api.schema.prune import prune
from alcove.apiserver import fencing
from alcove.apiserver.admission.configuration_bounds import bounds_of
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources.writing import (
    RING0_PART,
    STATUS_BYTES_RESERVED,
    STORED_BYTES_MAX,
    STORED_VALUES_MAX,
)
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, StoreUnavailable, WriteOp
from alcove.store.closures import closure
from alcove.store.keys import resource_named, resource_text

PAGE_BYTES = 2 << 20
"""Size of a page's objects; one that is larger is a page of its own."""
PAGE_OBJECTS_MAX = 500
PAGE_BYTES_MAX = 16 << 20
"""Size of a page that is written, when it is no longer compressed."""
OPS_AT_ONCE = 64
"""Objects that are written in one transaction."""
SKIPPED_REVISIONS_MAX = 1 << 40
"""By how many revisions the newest one may grow at once. Another server's may be any number."""


class ContentPage(Struct, frozen=True):
    """What is written."""

    resource: str
    items: list[Object]
    after: int = 0


_PAGES = msgspec.json.Decoder(ContentPage)


class TenantContent:
    def __init__(self, services: ApiServerServices, *, is_home: bool) -> None:
        """`is_home`: what is written comes from a dedicated server, and is validated."""
        self._services = services
        self._is_home = is_home

    def answer(self, call: ApiCall) -> HttpResponse | Awaitable[HttpResponse]:
        """Raises Conflict if the tenant is not closed here."""
        tenant = TenantId(call.target.name)
        lock = self._lock(tenant)
        fence = fencing.check(self._services.cache, call)
        locks = [lock] if fence is None else [lock, fence]
        match call.verb:
            case "update":
                return self._write(call, tenant, locks)
            case "delete":
                return self._delete(tenant, locks)
        return self._page(call, tenant) if call.query.get("resource") else self._overview(tenant)

    def _lock(self, tenant: TenantId) -> WriteOp:
        """The operation by which a transaction keeps the closure."""
        entry = self._services.cache.entry(closure(tenant))
        if entry is None:
            raise Conflict.of(TENANTS, tenant, "it is not closed on this API server")
        return WriteOp(entry.key, None, entry.revision, keeps=True)

    # Reading

    def _overview(self, tenant: TenantId) -> HttpResponse:
        cache = self._services.cache
        counts = {resource_text(each): cache.count(tenant, each) for each in cache.resources(tenant)}
        return json_response(200, {"revision": cache.revision, "objects": counts})

    def _page(self, call: ApiCall, tenant: TenantId) -> HttpResponse:
        resource = resource_named(call.query["resource"])
        namespace, _, name = call.query.get("after", "").rpartition("/")
        entries = self._services.cache.entries(tenant, resource, None, (tenant, namespace, name))
        bodies: list[bytes] = []
        size, last = 0, ""
        for entry in entries:
            if bodies and (size + entry.size > PAGE_BYTES or len(bodies) == PAGE_OBJECTS_MAX):
                break
            bodies.append(entry.body)
            size += entry.size
            last = f"{entry.key.namespace}/{entry.key.name}"
        else:
            last = ""
        after = orjson.dumps(last)
        return HttpResponse(200, b'{"after":%b,"items":[%b]}' % (after, b",".join(bodies)))

    # Writing

    async def _write(self, call: ApiCall, tenant: TenantId, locks: Sequence[WriteOp]) -> HttpResponse:
        services = self._services
        page = await services.threads.for_size(
            call.identity.tenant, len(call.request.body), lambda: _decoded(call.request.body)
        )
        newest = services.cache.revision
        if page.after > newest + SKIPPED_REVISIONS_MAX:
            raise BadRequest(f"revision {page.after} is too far ahead of this server's, {newest}")
        kind = await self._kind(tenant, page.resource)
        ops = await services.threads.for_size(
            call.identity.tenant,
            PAGE_BYTES,
            lambda: [self._op(tenant, kind, obj, Revision(page.after)) for obj in page.items],
        )
        if self._is_home:
            self._check_room(tenant, kind, ops)
        await self._commit(ops, locks)
        return json_response(200, {"written": len(ops)})

    def _check_room(self, tenant: TenantId, kind: Kind, ops: Sequence[WriteOp]) -> None:
        """What a dedicated server sends takes no more of the store, and of the kinds that are read as a whole, than what a
        tenant stores here itself. Raises Forbidden."""
        services, resource = self._services, kind.storage_resource
        growth = sum(len(op.body or b"") for op in ops)
        most = services.stored_bytes_max + services.stored_bytes_max // RING0_PART
        if services.cache.stored_bytes(tenant) + growth > most:
            raise Forbidden(f"exceeded quota: the tenant's objects would take more than {most >> 20} MiB")
        bounds = bounds_of(resource)
        if bounds is not None:
            stored = services.cache.snapshot(tenant, (resource,)).entries(resource)
            if growth + sum(entry.size for entry in stored) > bounds.bytes_max:
                message = (
                    f"all {resource.resource} of a tenant can have at most {bounds.bytes_max} bytes together"
                )
                raise Forbidden(message)

    async def _kind(self, tenant: TenantId, resource: str) -> Kind:
        kind = self._services.kinds.stored(tenant, resource_named(resource))
        if kind is None or kind.scope is Scope.RING0:
            raise BadRequest(f"{resource} are not served to tenants by this API server")
        if kind.compilation is not None and not kind.compilation.is_done:
            await self._services.threads.run(tenant, kind.compilation.run)
        return kind

    def _op(self, tenant: TenantId, kind: Kind, obj: Object, after: Revision) -> WriteOp:
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or metadata.get("tenant") != tenant:
            raise BadRequest(f'the object is not of tenant "{tenant}"')
        if self._is_home:
            obj = _checked(kind, obj)
        namespace = objects.namespace(obj) if kind.scope is Scope.NAMESPACE else ""
        body = encode(obj)
        if len(body) > STORED_BYTES_MAX + STATUS_BYTES_RESERVED:
            raise TooLarge(f"{kind.resource} {objects.name(obj)} is too large to be stored")
        if self._is_home:
            check_values(body, STORED_VALUES_MAX, f"{kind.resource} {objects.name(obj)} has too many values")
        return WriteOp(Key(kind.storage_resource, tenant, namespace, objects.name(obj)), body, after=after)

    async def _delete(self, tenant: TenantId, locks: Sequence[WriteOp]) -> HttpResponse:
        entries = list(islice(self._entries(tenant), PAGE_OBJECTS_MAX))
        await self._commit([WriteOp(each.key, None, last=_last_state(each)) for each in entries], locks)
        return json_response(200, {"deleted": len(entries)})

    def _entries(self, tenant: TenantId) -> Iterator[CacheEntry]:
        cache = self._services.cache
        for resource in cache.resources(tenant):
            yield from cache.entries(tenant, resource)

    async def _commit(self, ops: Sequence[WriteOp], locks: Sequence[WriteOp]) -> None:
        for first in range(0, len(ops), OPS_AT_ONCE):
            try:
                revision = await self._services.store.write([*ops[first : first + OPS_AT_ONCE], *locks])
            except RevisionMismatch as error:
                message = "the lease was changed meanwhile"
                raise Conflict.of(LEASES, error.key.name, message) from error
            except StoreUnavailable as error:
                raise ServiceUnavailable(f"the store is unavailable for writes: {error}") from error
            await self._services.cache.reached(revision)


def _decoded(body: bytes) -> ContentPage:
    try:
        inflating = zlib.decompressobj()
        text = inflating.decompress(body, PAGE_BYTES_MAX)
        if inflating.unconsumed_tail or not inflating.eof:
            raise TooLarge(f"the page is incomplete, or larger than {PAGE_BYTES_MAX} bytes")
        return _PAGES.decode(text)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise BadRequest(f"the body is not a page of objects: {error}") from error


def _checked(kind: Kind, obj: Object) -> Object:
    """Raises Invalid and BadRequest."""
    api_version = f"{kind.group}/{kind.storage_version}" if kind.group else kind.storage_version
    if (obj.get("apiVersion"), obj.get("kind")) != (api_version, kind.kind):
        raise BadRequest(f"the object is not stored as {api_version}, Kind={kind.kind}")
    if kind.definition:
        obj = decode(kind.schema, obj)
    else:
        prune(kind.schema, obj, None)
    strategy = kind.strategy
    errors = validate_metadata(obj["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name)
    errors += strategy.validate(obj)
    if not obj["metadata"].get("uid") or not obj["metadata"].get("creationTimestamp"):
        raise BadRequest("the object has no uid or no creation time")
    if errors:
        raise Invalid.of(kind.group, kind.kind, objects.name(obj), errors)
    return obj


def _last_state(entry: CacheEntry) -> bytes:
    return encode(marked_as_moved(entry.decode()))
