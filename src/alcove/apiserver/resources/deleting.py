"""delete and deletecollection: what becomes of an object is decided by a pure function, then done."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.errors import Conflict, Forbidden, MethodNotAllowed, NotFound
from alcove.api.ids import GroupResource, GroupVersionKind, Key, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.schema.decode import decode
from alcove.apiserver.admission.base import Operation
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds import removal
from alcove.apiserver.crds.sharing import CRDS
from alcove.apiserver.rbac.builtin import is_built_in
from alcove.apiserver.render import render_list
from alcove.apiserver.resources import body, lookup, versions, writing
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.options import DeleteOptions, delete_options, list_options
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, WriteOp

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_TENANTS = GroupResource("", "tenants")
_EMPTIED_FIRST = frozenset({GroupResource("", "namespaces"), _TENANTS})
"""Kinds whose contents go first: they wait for `spec.finalizers`."""

_OPTIONS = GroupVersionKind("", "v1", "DeleteOptions")


class DeletionPlan(Struct, frozen=True):
    """`marked` is the object as it waits for its end; None: it goes at once."""

    marked: Object | None


def plan(kind: Kind, obj: Object, options: DeleteOptions, now: float) -> DeletionPlan:
    """What a delete request makes of the object (its own copy; changed in place)."""
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
        # A second request may only shorten the time.
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
    kept = [name for name in metadata.get("finalizers") or () if name not in (ORPHAN, FOREGROUND)]
    if propagation == "Orphan":
        kept.append(ORPHAN)
    elif propagation == "Foreground":
        kept.append(FOREGROUND)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _grace(kind: Kind, obj: Object, options: DeleteOptions) -> int:
    if kind.strategy.grace_seconds is None:
        return 0
    return kind.strategy.grace_seconds(obj, options.grace_seconds)


def _is_unfinished(kind: Kind, obj: Object) -> bool:
    return kind.group_resource in _EMPTIED_FIRST and bool(objects.get(obj, "spec", "finalizers"))


def is_over(kind: Kind, obj: Object) -> bool:
    """An update took away the last thing that a deleted object waited for."""
    metadata = obj["metadata"]
    return (
        "deletionTimestamp" in metadata
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not _is_unfinished(kind, obj)
    )


async def check_empty(services: ApiServerServices, kind: Kind, key: Key) -> None:
    """A tenant or namespace goes when nothing is left in it, whoever thinks so: who watches several kinds
    hears of each in its own time, and may take what is still to come for nothing. Raises Conflict."""
    resource, cache = kind.group_resource, services.cache
    if resource not in _EMPTIED_FIRST:
        return
    # Nothing new is let in any more. What was let in before is written before this, which writes nothing.
    last = await services.store.write([WriteOp(Key(resource, key.tenant, key.name, ""), None)])
    await cache.reached(last)
    if resource == _TENANTS:
        left = cache.resources(TenantId(key.name))
    else:
        left = [each for each in cache.resources(key.tenant) if cache.count(key.tenant, each, key.name)]
    if left:
        message = ", ".join(sorted(map(str, left)))
        raise Conflict.of(resource, key.name, f"the {kind.singular} is not empty, it still has {message}")


async def delete(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    options = _options(services, call)
    entry, gone = await delete_object(services, call, call.key, options)
    if not gone:
        return await writing.answer(call, 200, entry)
    return json_response(200, _success(call, entry))


async def delete_object(
    services: ApiServerServices,
    call: ApiCall,
    key: Key,
    options: DeleteOptions,
    *,
    also: Sequence[WriteOp] = (),
) -> tuple[CacheEntry, bool]:
    """The object as it is now, and whether it is gone.

    `also` joins the transaction; what it expects no longer holding raises store.Mismatch.
    """
    kind = versions.stored_kind(services, call)
    resource = call.kind.group_resource
    for _ in range(writing.ATTEMPTS_MAX):
        entry = lookup.find(services, key)
        if entry is None:
            raise NotFound.of(resource, key.name)
        if is_built_in(entry):
            raise Forbidden.of(
                resource, key.name, "it is built in; write an object of this name to replace it"
            )
        obj = entry.decode()
        _check_preconditions(resource, entry, obj, options)
        attributes = writing.attributes(call, kind, Operation.DELETE, None, entry.decode(), options.raw)
        attributes.name = key.name
        attributes.dry_run = options.dry_run
        await services.admission.admit(attributes)
        await services.admission.validate(attributes)
        if kind.group_resource == CRDS:
            removal.begin(obj, meta.format_time(services.clock()))
        planned = plan(kind, obj, options, services.clock())
        joined = [*attributes.also, *also]
        is_same = planned.marked == entry.object and not joined
        # Asked again, an object that waits for its end stays as it is: whoever follows it hears nothing new.
        if options.dry_run:
            return entry, planned.marked is None
        try:
            if is_same:
                await lookup.confirm(services, call, entry)
                return entry, False
            if planned.marked is None:
                await check_empty(services, kind, key)
                op = WriteOp(key, None, entry.revision, encode(obj))
            else:
                op = WriteOp(key, encode(planned.marked), entry.revision)
            return await writing.commit(services, call, op, joined, attributes.join), planned.marked is None
        except RevisionMismatch as mismatch:
            if any(mismatch.key == each.key for each in also):
                raise
            await services.catch_up()
    raise Conflict.of(resource, key.name, writing.MODIFIED)


def _check_preconditions(
    resource: GroupResource, entry: CacheEntry, obj: Object, options: DeleteOptions
) -> None:
    uid = obj["metadata"]["uid"]
    if options.uid and options.uid != uid:
        why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {uid}"
        raise Conflict.of(resource, entry.key.name, why)
    if options.revision and options.revision != str(entry.revision):
        why = (
            f"Precondition failed: ResourceVersion in precondition: {options.revision}, "
            f"ResourceVersion in object meta: {entry.revision}"
        )
        raise Conflict.of(resource, entry.key.name, why)


def _options(services: ApiServerServices, call: ApiCall) -> DeleteOptions:
    given: Object = {}
    if call.request.body:
        node = services.registry.body(_OPTIONS)
        assert node is not None
        value = body.parse(call, None)
        if isinstance(value, dict):
            value["apiVersion"] = "v1"
        given = decode(node, body.identified(value, "v1", "DeleteOptions"))
    return delete_options(call, given)


def _success(call: ApiCall, entry: CacheEntry) -> Object:
    details = {
        "name": entry.key.name,
        "group": call.kind.group,
        "kind": call.kind.resource,
        "uid": entry.object["metadata"]["uid"],
    }
    details = {field: value for field, value in details.items() if value}
    # The revision of the deletion: who keeps a copy by watching knows how far it must have come.
    about = {"resourceVersion": str(entry.revision)}
    return {"kind": "Status", "apiVersion": "v1", "metadata": about, "status": "Success", "details": details}


async def delete_collection(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    if call.list_tenant is None:
        raise MethodNotAllowed("deletecollection over all tenants is not allowed; name one tenant")
    options = _options(services, call)
    chosen = list_options(call)
    wanted = selected(call, chosen)
    resource = call.kind.storage_resource
    revision = services.cache.revision
    deleted: list[CacheEntry] = []
    for entry in list(services.cache.entries(call.list_tenant, resource, call.list_namespace)):
        if wanted is not None and not wanted(entry):
            continue
        try:
            found, _ = await delete_object(services, call, entry.key, options)
        except NotFound:
            continue
        deleted.append(found)
    if call.kind.convert is not None:
        deleted = await versions.entries_at(call.kind, deleted)
    return HttpResponse(200, render_list(call.view, deleted, revision, {}), call.view.content_type)
