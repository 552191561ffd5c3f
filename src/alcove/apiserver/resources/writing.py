"""What every write shares: system metadata, checks, the transaction, the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.errors import BadRequest, Conflict, Invalid, ServiceUnavailable, Timeout, TooManyRequests
from alcove.api.fields import FieldError
from alcove.api.ids import Key, Revision
from alcove.api.kind import CLIENT_METADATA, Kind, Scope
from alcove.api.kinds.metadata import validate_metadata, validate_metadata_update
from alcove.api.objects import Object
from alcove.api.patch.apply import FieldSet, fieldmanager
from alcove.apiserver import fencing
from alcove.apiserver.admission.base import Attributes, Join, Operation
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.rbac.builtin import is_built_in
from alcove.apiserver.render import render
from alcove.apiserver.resources import versions
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import RevisionMismatch, StoreUnavailable, WriteOp, WriteOutcomeUnknown

ATTEMPTS_MAX = 30
"""How often a write without a resourceVersion is tried on newer states before the client is told."""

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"

STATUS_LIKE = frozenset({"status", "approval"})
"""Subresources that change the status and not what is wanted."""

_STATUS = FieldSet.of(("status",))
_NOTHING = FieldSet()

_SYSTEM_FIELDS = (
    "name",
    "namespace",
    "tenant",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


def field_manager(call: ApiCall) -> str:
    given = call.query.get("fieldManager", "") if call.request.raw_query else ""
    if given and (faults := fieldmanager.validate(given)):
        raise Invalid.of("meta.k8s.io", "CreateOptions", "", faults)
    return fieldmanager.name(given, call.request.headers.get("user-agent", ""))


def set_identity(call: ApiCall, obj: Object) -> Object:
    """The object's metadata, put where the path says. Raises BadRequest where the two disagree."""
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise BadRequest("metadata must be an object")
    metadata = objects.metadata(obj)
    tenant = metadata.get("tenant")
    if tenant and tenant != call.tenant:
        raise BadRequest(
            f'metadata.tenant is "{tenant}" but the request is for the tenant "{call.tenant}": '
            "leave it out, or send the request to that tenant"
        )
    metadata["tenant"] = call.tenant
    namespace = call.namespace
    given = metadata.get("namespace") or ""
    if given and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    return metadata


def identify(kind: Kind, call: ApiCall, metadata: Object, now: str) -> None:
    """What only the server says about a new object."""
    metadata["uid"] = meta.new_uid()
    metadata["creationTimestamp"] = now
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
    if kind.strategy.counts_generation:
        metadata["generation"] = 1
    metadata["selfLink"] = meta.self_link(kind, call.tenant, call.namespace, metadata["name"])


def carry_over(kind: Kind, new: Object, old: Object) -> None:
    """What an update cannot change, whatever the client sent."""
    metadata, kept = objects.metadata(new), old["metadata"]
    metadata.pop("resourceVersion", None)
    for field in _SYSTEM_FIELDS:
        if field in kept:
            metadata[field] = kept[field]
        else:
            metadata.pop(field, None)


def reset_fields(kind: Kind, subresource: str) -> FieldSet:
    """What a write cannot set, and so does not come to own."""
    return _STATUS if kind.strategy.has_status and subresource not in STATUS_LIKE else _NOTHING


def keep_status(new: Object, old: Object) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def only_status(kind: Kind, new: Object, old: Object) -> Object:
    """A write through /status: everything but the status, and what it may change of the metadata, is the stored
    object's."""
    given, kept = new["metadata"], dict(old["metadata"])
    kept.pop("resourceVersion", None)
    for field in CLIENT_METADATA:
        if field not in kind.strategy.status_leaves:
            kept.pop(field, None)
            if field in given:
                kept[field] = given[field]
    if given.get("managedFields") is not None:
        kept["managedFields"] = given["managedFields"]
    merged = {**old, "metadata": kept}
    merged.pop("status", None)
    if "status" in new:
        merged["status"] = new["status"]
    return merged


def count_generation(kind: Kind, new: Object, old: Object) -> None:
    outside = _OUTSIDE_INTENT if kind.strategy.has_status else ("metadata",)
    if kind.strategy.counts_generation and _intent(new, outside) != _intent(old, outside):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


_OUTSIDE_INTENT = ("metadata", "status")


def _intent(obj: Object, outside: tuple[str, ...]) -> Object:
    return {field: value for field, value in obj.items() if field not in outside}


def check_create(kind: Kind, obj: Object) -> None:
    strategy = kind.strategy
    faults: list[FieldError] = validate_metadata(
        obj["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name
    )
    faults += strategy.validate(obj)
    faults += strategy.validate_create(obj)
    refuse(kind, obj, faults)


def check_update(kind: Kind, new: Object, old: Object, subresource: str) -> None:
    strategy = kind.strategy
    faults: list[FieldError] = validate_metadata(
        new["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name
    )
    faults += validate_metadata_update(new["metadata"], old["metadata"])
    own = strategy.validate_subresource.get(subresource)
    if own is not None:
        faults += own(new, old)
    elif subresource == "status":
        faults += strategy.validate_status(new, old)
        if not _has_same_metadata(new, old):
            faults += strategy.validate(new)
            faults += strategy.validate_update(new, old)
    elif subresource in ("", "scale"):
        faults += strategy.validate(new)
        faults += strategy.validate_update(new, old)
    refuse(kind, new, faults)


def _has_same_metadata(new: Object, old: Object) -> bool:
    return all(new["metadata"].get(field) == old["metadata"].get(field) for field in CLIENT_METADATA)


def refuse(kind: Kind, obj: Object, faults: Sequence[FieldError]) -> None:
    if faults:
        raise Invalid.of(kind.group, kind.kind, objects.name(obj), faults)


def attributes(
    call: ApiCall,
    kind: Kind,
    operation: Operation,
    obj: Object | None,
    old: Object | None,
    options: Any = None,
) -> Attributes:
    named = obj if obj is not None else old
    return Attributes(
        operation=operation,
        kind=kind,
        requested=call.kind,
        tenant=call.tenant,
        namespace=call.target.namespace,
        name=call.target.name or (objects.name(named) if named else ""),
        subresource=call.target.subresource,
        obj=obj,
        old=old,
        identity=call.identity,
        dry_run=call.dry_run,
        options=options or {},
        warnings=call.warnings,
        annotations=call.annotations,
    )


def check_revision(kind: Kind, new: Object, entry: CacheEntry) -> None:
    """Raises Conflict if the client named another state than the newest, or another object."""
    metadata = new["metadata"]
    given, uid = metadata.get("resourceVersion"), metadata.get("uid")
    current = entry.object["metadata"]["uid"] if uid else ""
    if uid and uid != current:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise Conflict.of(kind.group_resource, entry.key.name, why)
    # One that is built in has no revision of its own: it is told with that of whatever brought it back.
    if given and given not in ("0", str(entry.revision)) and not is_built_in(entry):
        raise Conflict.of(kind.group_resource, entry.key.name, MODIFIED)


async def commit(
    services: ApiServerServices, call: ApiCall, op: WriteOp, also: Sequence[WriteOp], join: Join | None = None
) -> CacheEntry:
    """Writes, waits until the cache has it, and returns what was written. Raises store.Mismatch."""
    fence = fencing.check(services.cache, call)
    if fence is not None and fence.key != op.key:
        also = [*also, fence]
    try:
        if join is None:
            revision = await services.store.write([op, *also])
        else:
            revision = await _write_joined(services, op, also, join)
    except WriteOutcomeUnknown as error:
        message = "the store does not say whether it took the write; look before you repeat it"
        raise Timeout(f"{message}: {error}") from error
    except StoreUnavailable as error:
        raise ServiceUnavailable(f"the store cannot take the write: {error}") from error
    cache = services.cache
    if cache.revision < revision:
        await cache.reached(revision)
    entry = cache.entry(op.key)
    if entry is not None and entry.revision == revision:
        return entry
    return CacheEntry(op.key, revision, op.body or op.last or b"")


async def _write_joined(
    services: ApiServerServices, op: WriteOp, also: Sequence[WriteOp], join: Join
) -> Revision:
    """Raises store.Mismatch for the write's own keys; what joins it is worked out again on newer states."""
    for _ in range(ATTEMPTS_MAX):
        async with join(op) as joined:
            try:
                revision = await services.store.write([op, *_beside(also, joined), *joined])
            except RevisionMismatch as mismatch:
                if all(mismatch.key != each.key for each in joined):
                    raise
                await services.catch_up()
                continue
            # Whoever joins next must see this.
            await services.cache.reached(revision)
            return revision
    raise TooManyRequests.after(1, "what this write is counted in is changing too fast; try again")


def _beside(also: Sequence[WriteOp], joined: Sequence[WriteOp]) -> list[WriteOp]:
    """What is to stay as it was, and is changed by what joins, which expects the same of it, is named once."""
    changed = {each.key for each in joined}
    return [each for each in also if not (each.keeps and each.key in changed)]


def provisional(key: Key, obj: Object, entry: CacheEntry | None) -> CacheEntry:
    """What a dry run would have written."""
    return CacheEntry(key, entry.revision if entry else Revision(0), encode(obj))


async def answer(call: ApiCall, code: int, entry: CacheEntry) -> HttpResponse:
    view = call.view
    if view.kind.convert is not None:
        [entry] = await versions.entries_at(view.kind, [entry])
    return HttpResponse(code, render(view, entry), view.content_type)
