"""create: defaulting, admission, validation and the write of a new object."""

from __future__ import annotations

from functools import partial

from alcove.api import meta, warnings
from alcove.api.errors import AlreadyExists, Invalid, TooManyRequests
from alcove.api.fields import required
from alcove.api.ids import Key
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch.apply import update_managed_fields
from alcove.api.resources import CRDS
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body, versions, writing
from alcove.apiserver.resources.options import check_dry_run
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import ABSENT, RevisionMismatch, WriteOp

GENERATED_NAMES_MAX = 8


async def create(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    check_dry_run(call)
    obj = await body.read(services, call)
    entry = await create_object(services, call, obj, manager=writing.field_manager(call))
    return await writing.answer(services, call, 201, entry)


async def create_object(
    services: ApiServerServices, call: ApiCall, obj: Object, *, manager: str | None
) -> CacheEntry:
    """Creates a decoded object at the request's version. If `manager` is None, managedFields are set already.

    Raises AlreadyExists, Invalid, and what admission raises.
    """
    kind = versions.working_kind(services, call)
    now = meta.format_time(services.clock())
    if kind.strategy.has_status and not kind.strategy.keeps_new_status:
        obj.pop("status", None)
    obj = await versions.to_storage(call.kind, kind, obj)
    metadata = writing.set_identity(call, obj)
    prefix = metadata.get("generateName") or ""
    generated = bool(prefix) and not metadata.get("name")
    if generated:
        metadata["name"] = meta.generate_name(prefix)
    if not metadata.get("name"):
        error = required("metadata.name", "name or generateName is required")
        raise Invalid.of(kind.group, kind.kind, "", [error])
    writing.identify(kind, call, metadata, now)

    def complete() -> None:
        kind.strategy.default(obj)
        if manager is not None:
            update_managed_fields(
                None,
                obj,
                node=kind.schema,
                manager=manager,
                api_version=kind.api_version,
                now=now,
                reset=writing.reset_fields(kind, ""),
            )

    await writing.computed(services, call, complete)
    attributes = writing.attributes(call, kind, Operation.CREATE, obj, None, dict(call.query))
    await services.admission.admit(attributes)
    assert attributes.obj is not None
    is_definition = kind.group_resource == CRDS
    if is_definition:
        # The status of a CRD is computed from the cache, which only the event loop may read.
        kind.strategy.prepare_create(attributes.obj)
    check = partial(_check, call, kind, attributes.obj, is_prepared=is_definition)
    await writing.computed(services, call, check)
    return await _store(services, call, kind, attributes, prefix if generated else "")


def _check(call: ApiCall, kind: Kind, obj: Object, *, is_prepared: bool) -> None:
    if not is_prepared:
        kind.strategy.prepare_create(obj)
    writing.check_create(kind, obj)
    call.warn(warnings.of(kind, obj, None))


async def _store(
    services: ApiServerServices, call: ApiCall, kind: Kind, attributes: Attributes, prefix: str
) -> CacheEntry:
    obj = attributes.obj
    assert obj is not None
    for attempt in range(writing.ATTEMPTS_MAX):
        attributes.begin_attempt()
        # A conversion webhook may be slow: it is called before the last validation of what may have changed.
        stored = await versions.as_stored(services, call, kind, obj) if kind.convert is not None else None
        await services.admission.validate(attributes)
        name = obj["metadata"]["name"]
        key = Key(kind.storage_resource, call.tenant, call.namespace, name)
        if services.cache.entry(key) is not None and not prefix:
            raise AlreadyExists.of(call.kind.group_resource, name)
        if stored is None:
            stored = await versions.as_stored(services, call, kind, obj)
        if call.dry_run:
            return writing.provisional(key, stored, None)
        try:
            op = WriteOp(key, await writing.encoded(services, call, stored), ABSENT)
            return await writing.commit(services, call, op, attributes.also, attributes.joins)
        except RevisionMismatch as mismatch:
            if mismatch.key != key:
                # The next attempt must see the newer state.
                await services.catch_up()
                continue
            if not prefix or attempt >= GENERATED_NAMES_MAX:
                raise AlreadyExists.of(call.kind.group_resource, name) from mismatch
            _rename(kind, call, obj, prefix)
    raise TooManyRequests.after(
        1, "too many concurrent changes of the objects this create depends on; try again"
    )


def _rename(kind: Kind, call: ApiCall, obj: Object, prefix: str) -> None:
    metadata = obj["metadata"]
    metadata["name"] = meta.generate_name(prefix)
    metadata["selfLink"] = meta.self_link(kind, call.tenant, call.namespace, metadata["name"])
