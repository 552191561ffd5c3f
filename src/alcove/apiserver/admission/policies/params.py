"""Finds the objects that a binding passes to a policy as `params`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct

from alcove.api import selectors
from alcove.api.errors import BadRequest
from alcove.api.ids import GroupVersionKind, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.reader import CacheReader, ServedKinds

PARAMS_MAX = 5_000
"""More than a request's CEL budget is enough for: the evaluation has failed before, and the policy's
`failurePolicy` applies."""


class ParamsError(Exception):
    """The binding's configuration is invalid."""


class Param(Struct, frozen=True):
    """An object that is decoded when the policy is evaluated with it: all of them may be as large as what a tenant may store."""

    kind: Kind
    size_bytes: int
    decode: Callable[[], Object]

    def object(self) -> Object:
        return {**self.decode(), "apiVersion": self.kind.api_version, "kind": self.kind.kind}


async def collect(
    reader: CacheReader,
    kinds: ServedKinds,
    threads: ComputeThreads,
    tenant: TenantId,
    namespace: str,
    param_kind: Object | None,
    reference: Object | None,
) -> Sequence[Param | None]:
    """The parameter objects; the policy is evaluated with each. [None] for one evaluation without parameters.

    Raises ParamsError.
    """
    if param_kind is None:
        return [None]
    kind = _kind(kinds, tenant, param_kind)
    if reference is None:
        return [None]
    param_namespace = _namespace(kind, namespace, reference.get("namespace") or "")
    params = await _find(reader, threads, tenant, kind, param_namespace, reference)
    if not params and reference.get("parameterNotFoundAction") == "Deny":
        raise ParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return params


def _kind(kinds: ServedKinds, tenant: TenantId, param_kind: Object) -> Kind:
    gvk = GroupVersionKind.parse(param_kind.get("apiVersion", ""), param_kind.get("kind", ""))
    kind = kinds.find_kind(tenant, gvk.group, gvk.version, gvk.kind)
    if kind is None:
        message = f"{gvk.api_version}, Kind={gvk.kind}"
        raise ParamsError(f"failed to find resource referenced by paramKind: '{message}'")
    return kind


def _namespace(kind: Kind, default: str, configured: str) -> str:
    if kind.scope is not Scope.NAMESPACE:
        if configured:
            raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    if not configured and not default:
        raise ParamsError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return configured or default


async def _find(
    reader: CacheReader,
    threads: ComputeThreads,
    tenant: TenantId,
    kind: Kind,
    namespace: str,
    reference: Object,
) -> list[Param]:
    resource = kind.storage_resource
    if reference.get("name"):
        obj = reader.get(tenant, resource, namespace, reference["name"])
        return [Param(kind, 0, lambda: obj)] if obj is not None else []
    try:
        selector = selectors.from_object(reference.get("selector") or {})
    except BadRequest as error:
        raise ParamsError(error.message) from error
    snapshot = reader.snapshot(tenant, (resource,))

    def matching() -> list[Param]:
        entries = islice(snapshot.labelled(resource, namespace, selector.matches), PARAMS_MAX)
        return [Param(kind, entry.size, partial(getattr, entry, "object")) for entry in entries]

    found: list[Param] = await threads.for_size(tenant, snapshot.size_bytes(resource, namespace), matching)
    return found
