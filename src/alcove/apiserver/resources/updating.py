"""update (PUT), and the read-modify-write loop that it shares with patch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from alcove.api import meta, objects, warnings
from alcove.api.encode import encode
from alcove.api.errors import BadRequest, Conflict, Invalid, NotFound
from alcove.api.fields import invalid
from alcove.api.kind import Kind
from alcove.api.kinds.certificates.signingrequests import prepare_approval
from alcove.api.objects import Object
from alcove.api.patch.apply import restore_times, update_managed_fields
from alcove.api.resources import CRDS
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body, deleting, lookup, versions, writing
from alcove.apiserver.resources.creating import create_object
from alcove.apiserver.resources.options import check_dry_run
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, WriteOp

Change = Callable[[Object], Awaitable[Object]]
"""Takes a copy of the stored object at the working version and returns the desired object at the same
version. If the result has `metadata.resourceVersion`, the write succeeds only on that state."""


async def update(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    check_dry_run(call)
    kind = versions.working_kind(services, call)
    obj = await body.read(services, call)
    _check_name(call, obj)
    writing.set_identity(call, obj)
    obj["metadata"]["name"] = call.target.name
    manager = writing.field_manager(call)
    if lookup.find(services, call.key) is None:
        if not kind.strategy.create_on_update or call.target.subresource:
            raise NotFound.of(call.kind.group_resource, call.target.name)
        entry = await create_object(services, call, obj, manager=manager)
        return await writing.answer(services, call, 201, entry)
    if not obj["metadata"].get("resourceVersion") and not kind.strategy.unconditional_update:
        error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise Invalid.of(kind.group, kind.kind, call.target.name, [error])
    revision = obj["metadata"].get("resourceVersion")
    stored = await versions.to_storage(call.kind, kind, obj)
    encoded = await writing.computed(services, call, partial(encode, stored))

    async def replaced(_old: Object) -> Object:
        return await writing.computed(services, call, partial(_fresh, encoded, revision))

    entry = await change(services, call, kind, replaced, manager=manager)
    return await writing.answer(services, call, 200, entry)


def _fresh(encoded: bytes, revision: str | None) -> Object:
    """A copy for each attempt: defaults and admission change it in place."""
    obj: Object = orjson.loads(encoded)
    if revision:
        obj["metadata"]["resourceVersion"] = revision
    return obj


def _check_name(call: ApiCall, obj: Object) -> None:
    name = objects.name(obj)
    if name and name != call.target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.target.name})"
        )


async def change(
    services: ApiServerServices,
    call: ApiCall,
    kind: Kind,
    desired: Change,
    *,
    manager: str | None,
    operation: Operation = Operation.UPDATE,
) -> CacheEntry:
    """Writes the result of `desired` on the stored object; calls it again on the newer state if another
    writer won.

    If `manager` is None, `desired` has set managedFields. Raises NotFound, Conflict, Invalid.
    """
    key, name = call.key, call.target.name
    for _ in range(writing.ATTEMPTS_MAX):
        entry = lookup.find(services, key)
        if entry is None:
            raise NotFound.of(call.kind.group_resource, name)
        old, base = await versions.two_copies(services, call, kind, entry)
        new = await desired(base)
        writing.check_revision(kind, new, entry)
        try:
            return await _replace(services, call, kind, new, old, entry, manager, operation)
        except RevisionMismatch:
            # The next attempt must see the newer state; if the client set a resourceVersion, it raises
            # Conflict.
            await services.catch_up()
    raise Conflict.of(call.kind.group_resource, name, writing.MODIFIED)


async def _replace(
    services: ApiServerServices,
    call: ApiCall,
    kind: Kind,
    new: Object,
    old: Object,
    entry: CacheEntry,
    manager: str | None,
    operation: Operation,
) -> CacheEntry:
    subresource = call.target.subresource
    now = meta.format_time(services.clock())
    # The status of a CRD is computed from the cache, which only the event loop may read.
    prepared = prepare(kind, new, old, subresource, now) if kind.group_resource == CRDS else None

    def complete() -> Object:
        completed = prepared if prepared is not None else prepare(kind, new, old, subresource, now)
        if manager is not None:
            update_managed_fields(
                old,
                completed,
                node=kind.schema,
                manager=manager,
                api_version=kind.api_version,
                now=now,
                subresource=subresource,
                reset=writing.reset_fields(kind, subresource),
            )
        return completed

    obj = await writing.computed(services, call, complete, entry)
    attributes = writing.attributes(call, kind, operation, obj, old, dict(call.query))
    await services.admission.admit(attributes)
    assert attributes.obj is not None
    await writing.computed(services, call, partial(_check, call, kind, attributes.obj, old), entry)
    await services.admission.validate(attributes)
    return await _store(services, call, kind, attributes, entry)


def _check(call: ApiCall, kind: Kind, new: Object, old: Object) -> None:
    subresource = call.target.subresource
    if subresource != "binding":
        # Binding does not change the desired state, so the generation that agents observe must not change.
        writing.count_generation(kind, new, old)
    writing.check_update(kind, new, old, subresource)
    if not subresource:
        call.warn(warnings.of(kind, new, old))


async def _store(
    services: ApiServerServices, call: ApiCall, kind: Kind, attributes: Attributes, entry: CacheEntry
) -> CacheEntry:
    new, old = attributes.obj, attributes.old
    assert new is not None and old is not None
    is_same = await writing.computed(services, call, partial(_settle, new, old), entry)
    if is_same and not attributes.also and versions.is_at_storage_version(kind, entry):
        await lookup.confirm(services, call, entry)
        return entry
    stored = await versions.as_stored(services, call, kind, new)
    if call.dry_run:
        return writing.provisional(entry.key, stored, entry)
    encoded = await writing.encoded(services, call, stored, entry)
    if deleting.is_deletion_complete(kind, new):
        await deleting.check_empty(services, kind, entry.key)
        op = WriteOp(entry.key, None, entry.revision, encoded)
        attributes.also += attributes.on_removal
    else:
        op = WriteOp(entry.key, encoded, entry.revision)
    return await writing.commit(services, call, op, attributes.also, attributes.joins)


def _settle(new: Object, old: Object) -> bool:
    """Restore the times of field managers that changed nothing; return whether nothing has changed at all."""
    restore_times(old, new)
    return _is_same(new, old)


def _is_same(new: Object, old: Object) -> bool:
    """Compared as JSON too, because in Python 1 == True."""
    stored = {**old, "metadata": {**old["metadata"]}}
    stored["metadata"].pop("resourceVersion", None)
    return new == stored and orjson.dumps(new, option=_SORTED) == orjson.dumps(stored, option=_SORTED)


_SORTED = orjson.OPT_SORT_KEYS


def prepare(kind: Kind, new: Object, old: Object, subresource: str, now: str) -> Object:
    """The new object with everything that this write cannot change taken from the old one."""
    writing.carry_over(kind, new, old)
    if subresource == "approval":
        prepare_approval(new, old, now)
    if subresource in writing.STATUS_LIKE:
        merged = writing.only_status(kind, new, old)
        kind.strategy.default(merged)
        kind.strategy.prepare_status(merged, old)
        return merged
    if subresource not in ("", "scale"):
        # The handlers of other subresources limit the change themselves.
        return new
    if kind.strategy.has_status:
        writing.keep_status(new, old)
    kind.strategy.default(new)
    kind.strategy.prepare_update(new, old)
    return new
