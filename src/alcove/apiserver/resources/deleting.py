"""delete and deletecollection: a pure function (`plan`) decides whether the object is marked or removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.errors import Conflict, Forbidden, MethodNotAllowed, NotFound
from alcove.api.ids import GroupResource, GroupVersionKind, Key, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES, CRDS, NAMESPACES, TENANTS
from alcove.api.schema.decode import decode
from alcove.apiserver.admission.base import Operation
from alcove.apiserver.builtin import is_built_in
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds import removal
from alcove.apiserver.render import render_list
from alcove.apiserver.resources import body, lookup, versions, writing
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.matching import needs_conversion
from alcove.apiserver.resources.options import DeleteOptions, delete_options, list_options
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, WriteOp

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_EMPTIED_FIRST = frozenset({NAMESPACES, TENANTS})
"""Kinds whose contents are deleted first: they wait for `spec.finalizers`."""

_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")
_REPLACEABLE = "it is built in; write an object of this name to replace it"
_BUILT_IN = {API_SERVICES: "the API server itself serves this group version"}
"""Why a built-in object is not deleted, by resource."""


class DeletionPlan(Struct, frozen=True):
    """`marked` is the object with its deletionTimestamp; None if it is removed immediately."""

    marked: Object | None


def plan(kind: Kind, obj: Object, options: DeleteOptions, now: float) -> DeletionPlan:
    """The outcome of a delete request for `obj`, which is changed in place. Pure: no I/O."""
    metadata = objects.metadata(obj)
    before = (metadata.get("deletionTimestamp"), list(metadata.get("finalizers") or ()))
    _set_finalizers(metadata, options.propagation)
    grace = _grace(kind, obj, options)
    if kind.group_resource in _EMPTIED_FIRST and "deletionTimestamp" not in metadata:
        obj.setdefault("status", {})["phase"] = "Terminating"
    waits = bool(metadata.get("finalizers")) or _is_unfinished(kind, obj) or grace > 0
    if not waits:
        return DeletionPlan(None)
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = meta.format_time(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
    elif grace < metadata.get("deletionGracePeriodSeconds", 0):
        # A second request may only shorten the grace period.
        started = meta.parse_time(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = meta.format_time(max(started + grace, now) if grace else now)
        metadata["deletionGracePeriodSeconds"] = grace
    after = (metadata.get("deletionTimestamp"), list(metadata.get("finalizers") or ()))
    if kind.strategy.counts_generation and before != after:
        metadata["generation"] = metadata.get("generation", 0) + 1
    return DeletionPlan(obj)


def _set_finalizers(metadata: Object, propagation: str) -> None:
    if not propagation:
        return
    finalizers = [name for name in metadata.get("finalizers") or () if name not in (ORPHAN, FOREGROUND)]
    if propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif propagation == "Foreground":
        finalizers.append(FOREGROUND)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)


def _grace(kind: Kind, obj: Object, options: DeleteOptions) -> int:
    if kind.strategy.grace_seconds is None:
        return 0
    return kind.strategy.grace_seconds(obj, options.grace_seconds)


def _is_unfinished(kind: Kind, obj: Object) -> bool:
    return kind.group_resource in _EMPTIED_FIRST and bool(objects.get(obj, "spec", "finalizers"))


def is_deletion_complete(kind: Kind, obj: Object) -> bool:
    """Whether an update removed the last thing that an object under deletion waited for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not _is_unfinished(kind, obj)
    )


async def check_empty(services: ApiServerServices, kind: Kind, key: Key) -> None:
    """Raises Conflict if a tenant or namespace still has objects.

    The controller that removes the last finalizer may be wrong: it watches each kind separately, and may not
    have received the event of a new object yet.
    """
    resource, cache = kind.group_resource, services.cache
    if resource not in _EMPTIED_FIRST:
        return
    # Creates are rejected by now, and those admitted before are committed before this write, which changes
    # nothing.
    last = await services.store.write([WriteOp(Key(resource, key.tenant, key.name, ""), None)])
    await cache.reached(last)
    if resource == TENANTS:
        remaining = cache.resources(TenantId(key.name))
    else:
        remaining = [each for each in cache.resources(key.tenant) if cache.count(key.tenant, each, key.name)]
    if remaining:
        message = ", ".join(sorted(map(str, remaining)))
        raise Conflict.of(resource, key.name, f"the {kind.singular} is not empty, it still has {message}")


async def delete(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    options = _options(services, call)
    entry, deleted = await delete_object(services, call, call.key, options)
    if not deleted:
        return await writing.answer(services, call, 200, entry)
    return json_response(200, _success(call, entry))


async def delete_object(
    services: ApiServerServices,
    call: ApiCall,
    key: Key,
    options: DeleteOptions,
    *,
    also: Sequence[WriteOp] = (),
    change: Callable[[Object], None] | None = None,
) -> tuple[CacheEntry, bool]:
    """Returns the object's last state, and whether it is deleted (and not only marked). `change` is made to that state.

    `also` is part of the transaction; raises RevisionMismatch if an object in it has changed.
    """
    kind = versions.stored_kind(services, call)
    resource = call.kind.group_resource
    for _ in range(writing.ATTEMPTS_MAX):
        entry = lookup.find(services, key)
        if entry is None:
            raise NotFound.of(resource, key.name)
        if is_built_in(entry):
            raise Forbidden.of(resource, key.name, _BUILT_IN.get(resource, _REPLACEABLE))
        obj, old = await services.threads.for_size(
            call.identity.tenant, entry.size, partial(_two_copies, entry)
        )
        _check_preconditions(resource, entry, obj, options)
        attributes = writing.attributes(call, kind, Operation.DELETE, None, old, options.raw)
        attributes.name = key.name
        attributes.dry_run = options.dry_run
        await services.admission.admit(attributes)
        await services.admission.validate(attributes)
        if kind.group_resource == CRDS:
            removal.begin(obj, meta.format_time(services.clock()))
        if change is not None:
            change(obj)
        planned = plan(kind, obj, options, services.clock())
        joined = [*attributes.also, *also]
        is_same = planned.marked == old and not joined
        # A repeated request does not change an object that is marked already: there is no event.
        if options.dry_run:
            return entry, planned.marked is None
        try:
            if is_same:
                await lookup.confirm(services, call, entry)
                return entry, False
            if planned.marked is None:
                await check_empty(services, kind, key)
                op = WriteOp(key, None, entry.revision, encode(obj))
                joined += attributes.on_removal
            else:
                op = WriteOp(key, encode(planned.marked), entry.revision)
            return await writing.commit(services, call, op, joined, attributes.joins), planned.marked is None
        except RevisionMismatch as mismatch:
            if any(mismatch.key == each.key for each in also):
                raise
            await services.catch_up()
    raise Conflict.of(resource, key.name, writing.MODIFIED)


def _two_copies(entry: CacheEntry) -> tuple[Object, Object]:
    return entry.decode(), entry.decode()


def _check_preconditions(
    resource: GroupResource, entry: CacheEntry, obj: Object, options: DeleteOptions
) -> None:
    uid = obj["metadata"]["uid"]
    if options.uid and options.uid != uid:
        message = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
        raise Conflict.of(resource, entry.key.name, message)
    if options.revision and options.revision != str(entry.revision):
        message = (
            f"Precondition failed: ResourceVersion in precondition: {options.revision}, "
            f"ResourceVersion in object meta: {entry.revision}"
        )
        raise Conflict.of(resource, entry.key.name, message)


def _options(services: ApiServerServices, call: ApiCall) -> DeleteOptions:
    options: Object = {}
    if call.request.body:
        node = services.registry.body(_OPTIONS)
        assert node is not None
        value = body.parse_small(call)
        if isinstance(value, dict):
            value["apiVersion"] = "v1"
        options = decode(node, body.identified(value, "v1", "DeleteOptions"))
    return delete_options(call, options)


def _success(call: ApiCall, entry: CacheEntry) -> Object:
    details = {
        "name": entry.key.name,
        "group": call.kind.group,
        "kind": call.kind.resource,
        "uid": entry.uid,
    }
    details = {field: value for field, value in details.items() if value}
    # The revision of the deletion: a client with a cache knows up to where its watch must have come.
    list_meta = {"resourceVersion": str(entry.revision)}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": list_meta,
        "status": "Success",
        "details": details,
    }


async def delete_collection(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    if call.list_tenant is None:
        raise MethodNotAllowed("deletecollection over all tenants is not allowed; name one tenant")
    options = _options(services, call)
    selection = list_options(call)
    matches = selected(call, selection)
    resource = call.kind.storage_resource
    revision = services.cache.revision
    deleted: list[CacheEntry] = []
    entries = list(services.cache.entries(call.list_tenant, resource, call.list_namespace))
    if needs_conversion(call.kind, selection.fields):
        entries = await versions.entries_at(services, call, entries)
    for entry in entries:
        if matches is not None and not matches(entry):
            continue
        try:
            last_state, _ = await delete_object(services, call, entry.key, options)
        except NotFound:
            continue
        deleted.append(last_state)
        # Nothing waits in a dry run: let other requests run between two objects.
        await asyncio.sleep(0)
    if call.kind.convert is not None:
        deleted = await versions.entries_at(services, call, deleted)
    return HttpResponse(200, render_list(call.view, deleted, revision, {}), call.view.content_type)
