"""The steps that all writes share: system metadata, validation, the transaction, the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from alcove.api import meta, objects
from alcove.api.encode import encode
from alcove.api.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    ServiceUnavailable,
    Timeout,
    TooLarge,
    TooManyRequests,
)
from alcove.api.fields import FieldError
from alcove.api.ids import SYSTEM, Key, Revision
from alcove.api.kind import CLIENT_METADATA, Kind, Scope
from alcove.api.kinds.metadata import validate_metadata, validate_metadata_update
from alcove.api.objects import Object
from alcove.api.patch.apply import FieldSet, fieldmanager
from alcove.api.resources import CRDS
from alcove.api.schema.body import VALUES_MAX, check_values
from alcove.apiserver import fencing
from alcove.apiserver.admission.base import Attributes, Join, Operation
from alcove.apiserver.builtin import is_built_in
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.computing import LARGE_BYTES
from alcove.apiserver.planes.closed_tenants import moving
from alcove.apiserver.render import render
from alcove.apiserver.resources import versions
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import OPS_MAX, RevisionMismatch, StoreUnavailable, WriteOp, WriteOutcomeUnknown
from alcove.store.closures import TenantClosed

T = TypeVar("T")

ATTEMPTS_MAX = 30
"""Attempts of a write without a resourceVersion on newer states before it fails with a conflict."""

STORED_BYTES_MAX = 3 << 20
STORED_VALUES_MAX = 2 * VALUES_MAX
"""Size of a stored object, managedFields included."""
RING0_PART = 4
"""The part of a tenant's bytes that ring0 may create beyond them: controllers must be able to end what they have begun."""
STATUS_BYTES_RESERVED = 256 << 10
"""How much larger a write of its status may make it: nobody can fill an object so that its controller or node can no longer
tell its state."""

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"

STATUS_LIKE = frozenset({"status", "approval"})
"""Subresources that change the status and not the desired state."""

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


def computed(
    services: ApiServerServices, call: ApiCall, compute: Callable[[], T], entry: CacheEntry | None = None
) -> Awaitable[T]:
    """The result of one step of a write: computed in a thread if the body or the stored object is large.

    Steps of a write of a CRD or a large custom resource are always long: their schemas are compiled.
    """
    size = max(len(call.request.body), len(entry.body) if entry is not None else 0)
    if call.kind.group_resource == CRDS:
        size = max(size, LARGE_BYTES)
    return services.threads.for_size(call.identity.tenant, size, compute)


async def encoded(
    services: ApiServerServices, call: ApiCall, obj: Object, entry: CacheEntry | None = None
) -> bytes:
    """The object as it is stored. Raises TooLarge: managedFields may make it much larger than what was sent."""

    def compute() -> bytes:
        body = encode(obj)
        is_status = call.target.subresource in STATUS_LIKE
        bytes_max = STORED_BYTES_MAX + (STATUS_BYTES_RESERVED if is_status else 0)
        if len(body) > bytes_max:
            raise TooLarge(f"the object is too large to be stored: {len(body)} bytes of {bytes_max}")
        check_values(body, STORED_VALUES_MAX, "the object and its managedFields have too many values")
        return body

    body = await computed(services, call, compute, entry)
    _check_room(services, call, obj, body, entry)
    return body


def _check_room(
    services: ApiServerServices, call: ApiCall, obj: Object, body: bytes, entry: CacheEntry | None
) -> None:
    """Raises Forbidden if the tenant's objects would take too much together.

    What ring0 writes into objects, as their status, is never refused, and what it creates for a tenant, as its pods, has some
    room beyond the tenant's.
    """
    tenant, is_ring0, most = call.tenant, call.identity.is_system, services.stored_bytes_max
    growth = len(body) - (entry.length if entry is not None else 0)
    if tenant == SYSTEM or growth <= 0 or (is_ring0 and entry is not None):
        return
    if is_ring0:
        most += most // RING0_PART
    if services.cache.stored_bytes(tenant) + growth > most:
        message = f"exceeded quota: the tenant's objects would take more than {most >> 20} MiB; delete some"
        raise Forbidden.of(call.kind.group_resource, objects.name(obj), message)


def field_manager(call: ApiCall) -> str:
    configured = call.query.get("fieldManager", "") if call.request.raw_query else ""
    if configured and (errors := fieldmanager.validate(configured)):
        raise Invalid.of("meta.k8s.io", "CreateOptions", "", errors)
    return fieldmanager.name(configured, call.request.headers.get("user-agent", ""))


def set_identity(call: ApiCall, obj: Object) -> Object:
    """Sets tenant and namespace from the path and returns the metadata. Raises BadRequest if the two
    disagree."""
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise BadRequest("metadata must be an object")
    metadata = objects.metadata(obj)
    tenant = metadata.get("tenant")
    if tenant and tenant != call.tenant:
        raise BadRequest(
            f'the tenant from the provided object "{tenant}" does not match the tenant "{call.tenant}". '
            f"You must pass '--tenant={tenant}' to perform this operation."
        )
    metadata["tenant"] = call.tenant
    namespace = call.namespace
    provided = metadata.get("namespace") or ""
    if provided and provided != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if namespace:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    return metadata


def identify(kind: Kind, call: ApiCall, metadata: Object, now: str) -> None:
    """Sets the metadata of a new object that only the server sets."""
    metadata["uid"] = meta.new_uid()
    metadata["creationTimestamp"] = now
    for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
    if kind.strategy.counts_generation:
        metadata["generation"] = 1
    metadata["selfLink"] = meta.self_link(kind, call.tenant, call.namespace, metadata["name"])


def carry_over(kind: Kind, new: Object, old: Object) -> None:
    """Restores the metadata that an update cannot change."""
    metadata, stored = objects.metadata(new), old["metadata"]
    metadata.pop("resourceVersion", None)
    for field in _SYSTEM_FIELDS:
        if field in stored:
            metadata[field] = stored[field]
        else:
            metadata.pop(field, None)


def reset_fields(kind: Kind, subresource: str) -> FieldSet:
    """Fields that a write cannot set, and that its field manager therefore does not own."""
    return _STATUS if kind.strategy.has_status and subresource not in STATUS_LIKE else _NOTHING


def keep_status(new: Object, old: Object) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def only_status(kind: Kind, new: Object, old: Object) -> Object:
    """The stored object with the status of `new`, and the metadata that a write to /status may change."""
    requested, metadata = new["metadata"], dict(old["metadata"])
    metadata.pop("resourceVersion", None)
    for field in CLIENT_METADATA:
        if field not in kind.strategy.status_leaves:
            metadata.pop(field, None)
            if field in requested:
                metadata[field] = requested[field]
    if requested.get("managedFields") is not None:
        metadata["managedFields"] = requested["managedFields"]
    merged = {**old, "metadata": metadata}
    merged.pop("status", None)
    if "status" in new:
        merged["status"] = new["status"]
    return merged


def count_generation(kind: Kind, new: Object, old: Object) -> None:
    excluded = _EXCLUDED_FROM_GENERATION if kind.strategy.has_status else ("metadata",)
    if kind.strategy.counts_generation and _desired_state(new, excluded) != _desired_state(old, excluded):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


_EXCLUDED_FROM_GENERATION = ("metadata", "status")


def _desired_state(obj: Object, excluded: tuple[str, ...]) -> Object:
    return {field: value for field, value in obj.items() if field not in excluded}


def check_create(kind: Kind, obj: Object) -> None:
    strategy = kind.strategy
    errors: list[FieldError] = validate_metadata(
        obj["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name
    )
    errors += strategy.validate(obj)
    errors += strategy.validate_create(obj)
    refuse(kind, obj, errors)


def check_update(kind: Kind, new: Object, old: Object, subresource: str) -> None:
    strategy = kind.strategy
    errors: list[FieldError] = validate_metadata(
        new["metadata"], kind.scope is Scope.NAMESPACE, strategy.validate_name
    )
    errors += validate_metadata_update(new["metadata"], old["metadata"])
    validate = strategy.validate_subresource.get(subresource)
    if validate is not None:
        errors += validate(new, old)
    elif subresource == "status":
        errors += strategy.validate_status(new, old)
        if not _has_same_metadata(new, old):
            errors += strategy.validate(new)
            errors += strategy.validate_update(new, old)
    elif subresource in ("", "scale"):
        errors += strategy.validate(new)
        errors += strategy.validate_update(new, old)
    refuse(kind, new, errors)


def _has_same_metadata(new: Object, old: Object) -> bool:
    return all(new["metadata"].get(field) == old["metadata"].get(field) for field in CLIENT_METADATA)


def refuse(kind: Kind, obj: Object, errors: Sequence[FieldError]) -> None:
    if errors:
        raise Invalid.of(kind.group, kind.kind, objects.name(obj), errors)


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
    """Raises Conflict if the client's resourceVersion or uid is not that of the newest state."""
    metadata = new["metadata"]
    requested, uid = metadata.get("resourceVersion"), metadata.get("uid")
    current = entry.uid if uid else ""
    if uid and uid != current:
        message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        raise Conflict.of(kind.group_resource, entry.key.name, message)
    # A built-in object has no revision: it is shown with that of the change that made it visible.
    if requested and requested not in ("0", str(entry.revision)) and not is_built_in(entry):
        raise Conflict.of(kind.group_resource, entry.key.name, MODIFIED)


async def commit(
    services: ApiServerServices,
    call: ApiCall,
    op: WriteOp,
    also: Sequence[WriteOp],
    joins: Sequence[Join] = (),
) -> CacheEntry:
    """Writes `op` and `also`, waits until the cache has them, and returns the written entry.

    Raises RevisionMismatch, Timeout if the outcome is unknown, ServiceUnavailable.
    """
    fence = fencing.check(services.cache, call)
    if fence is not None and fence.key != op.key:
        also = [*also, fence]
    if len(also) >= OPS_MAX:
        raise TooLarge(f"the write changes {len(also) + 1} objects at once, at most {OPS_MAX} are possible")
    try:
        if not joins:
            revision = await services.store.write([op, *also])
        else:
            revision = await _write_joined(services, op, also, joins)
    except WriteOutcomeUnknown as error:
        message = "write outcome unknown: read the object before retrying"
        raise Timeout(f"{message}: {error}") from error
    except TenantClosed as error:
        raise moving(error.tenant) from error
    except StoreUnavailable as error:
        raise ServiceUnavailable(f"the store is unavailable for writes: {error}") from error
    cache = services.cache
    if cache.revision < revision:
        await cache.reached(revision)
    entry = cache.entry(op.key)
    if entry is not None and entry.revision == revision:
        return entry
    return CacheEntry(op.key, revision, op.body or op.last or b"")


async def _write_joined(
    services: ApiServerServices, op: WriteOp, also: Sequence[WriteOp], joins: Sequence[Join]
) -> Revision:
    """Writes `op` with the operations of `joins`, which are called again if another write changed their
    objects.

    Raises RevisionMismatch if the mismatch is in `op` or `also`, TooManyRequests after ATTEMPTS_MAX attempts.
    """
    for _ in range(ATTEMPTS_MAX):
        async with AsyncExitStack() as stack:
            joined = [each for join in joins for each in await stack.enter_async_context(join(op))]
            try:
                revision = await services.store.write([op, *_excluding_joined(also, joined), *joined])
            except RevisionMismatch as mismatch:
                if all(mismatch.key != each.key for each in joined):
                    raise
                await services.catch_up()
                continue
            # The next write that joins must see this one.
            await services.cache.reached(revision)
            return revision
    raise TooManyRequests.after(
        1, "too many concurrent changes of the objects written with this one; try again"
    )


def _excluding_joined(also: Sequence[WriteOp], joined: Sequence[WriteOp]) -> list[WriteOp]:
    """`also` without checks of objects that `joined` writes: those writes check the same revision."""
    changed = {each.key for each in joined}
    return [each for each in also if not (each.keeps and each.key in changed)]


def provisional(key: Key, obj: Object, entry: CacheEntry | None) -> CacheEntry:
    """The entry that a dry run would have written."""
    return CacheEntry(key, entry.revision if entry else Revision(0), encode(obj))


async def answer(services: ApiServerServices, call: ApiCall, code: int, entry: CacheEntry) -> HttpResponse:
    view = call.view
    if view.kind.convert is not None:
        [entry] = await versions.entries_at(services, call, [entry])
    return HttpResponse(code, render(view, entry), view.content_type)
