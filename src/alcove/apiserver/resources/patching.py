"""patch: JSON, merge, strategic merge, and server-side apply."""

from __future__ import annotations

from functools import partial
from typing import Any

from alcove.api import meta, objects
from alcove.api.errors import BadRequest, Invalid, NotFound, UnsupportedMediaType
from alcove.api.fields import forbidden, required
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch import json as json_patch
from alcove.api.patch import merge, strategic
from alcove.api.patch.apply import apply_configuration
from alcove.api.schema.body import parse_json, parse_yaml
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body, lookup, updating, versions, writing
from alcove.apiserver.resources.creating import create_object
from alcove.apiserver.resources.options import check_dry_run, field_validation
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_UNDECLARED = ".{}: field not declared in schema"
"""Message for an unknown field in server-side apply; Kubernetes words it differently from other requests."""
_APPLY_JSON = "application/apply-patch+json"


async def patch(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    check_dry_run(call)
    kind = versions.working_kind(services, call)
    form = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if form in (APPLY, _APPLY_JSON):
        return await _apply(services, call, kind)
    if lookup.find(services, call.key) is None:
        raise NotFound.of(call.kind.group_resource, call.target.name)
    entry = await updating.change(
        services, call, kind, await change_of(services, call, kind), manager=writing.field_manager(call)
    )
    return await writing.answer(services, call, 200, entry)


async def change_of(services: ApiServerServices, call: ApiCall, kind: Kind) -> updating.Change:
    """The change that the request's patch (not an apply) makes to an object at `kind`'s version."""
    form = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    apply_to = await writing.computed(services, call, partial(_patcher, call, form))
    if "force" in call.query:
        error = forbidden("force", "may not be specified for non-apply patch")
        raise Invalid.of("meta.k8s.io", "PatchOptions", "", [error])
    mode = field_validation(call)

    async def patched(old: Object) -> Object:
        requested = await _at_version(call.kind, kind, old)

        def compute() -> Object:
            new = body.identified(apply_to(requested), call.kind.api_version, call.kind.kind)
            call.warnings.clear()
            return body.checked(call, call.kind, new, mode, [])

        new = await writing.computed(services, call, compute, lookup.find(services, call.key))
        return await _to_working_version(call, kind, new)

    return patched


def _patcher(call: ApiCall, form: str) -> Any:
    node = call.kind.schema
    supported = (JSON, MERGE, STRATEGIC) if call.kind.definition else (JSON, MERGE)
    if form not in supported:
        accepted = ", ".join((*supported, APPLY))
        raise UnsupportedMediaType(
            f'the body of the request was in an unknown format "{form}" - accepted media types include: {accepted}'
        )
    document = parse_json(call.request.body)
    match form:
        case "application/json-patch+json":
            return lambda old: _json_patched(call.kind, old, document)
        case "application/merge-patch+json":
            return lambda old: merge.apply(old, document)
    unnamed = without_names(document)
    return lambda old: strategic.apply(old, unnamed, node)


def _json_patched(kind: Kind, old: Object, document: Any) -> Any:
    """Applies the patch as if spec and status always existed, as they do in Go: a patch may add to a missing
    one."""
    has = kind.schema.properties if kind.definition else ()
    missing = [field for field in ("spec", "status") if field in has and field not in old]
    new = json_patch.apply({**old, **{field: {} for field in missing}}, document)
    if isinstance(new, dict):
        for field in missing:
            if new.get(field) == {}:
                del new[field]
    return new


def without_names(document: Any) -> Any:
    """A strategic merge patch without apiVersion and kind, which are ignored there, unlike in merge patches.

    Clients rely on this: Ansible scales with a patch of kind Deployment.
    """
    if not isinstance(document, dict):
        return document
    return {field: value for field, value in document.items() if field not in ("apiVersion", "kind")}


async def _at_version(requested: Kind, kind: Kind, old: Object) -> Object:
    return old if requested is kind else await versions.from_storage(requested, old)


async def _to_working_version(call: ApiCall, kind: Kind, new: Object) -> Object:
    name = objects.name(new)
    if name != call.target.name:
        raise BadRequest(
            f"the name of the object ({name}) does not match the name on the URL ({call.target.name})"
        )
    new = await versions.to_storage(call.kind, kind, new)
    writing.set_identity(call, new)
    return new


async def _apply(services: ApiServerServices, call: ApiCall, kind: Kind) -> HttpResponse:
    manager = call.query.get("fieldManager", "")
    if not manager:
        error = required("fieldManager", "is required for apply patch")
        raise Invalid.of("meta.k8s.io", "PatchOptions", "", [error])
    writing.field_manager(call)
    mode = field_validation(call)
    duplicates: list[str] | None = None if mode == "Ignore" else []

    def read() -> Object:
        parsed = parse_yaml(call.request.body, duplicates)
        named = body.identified(parsed, call.kind.api_version, call.kind.kind)
        return body.checked(call, call.kind, named, mode, duplicates or [], _UNDECLARED)

    config = await writing.computed(services, call, read)
    metadata = objects.metadata(config)
    metadata.setdefault("name", call.target.name)
    now = meta.format_time(services.clock())
    subresource = call.target.subresource

    async def merged(live: Object | None) -> Object:
        compute = partial(
            apply_configuration,
            live,
            config,
            node=call.kind.schema,
            manager=manager,
            api_version=call.kind.api_version,
            now=now,
            subresource=subresource,
            force=call.flag("force"),
            reset=writing.reset_fields(kind, subresource),
        )
        return await writing.computed(services, call, compute, lookup.find(services, call.key))

    if lookup.find(services, call.key) is None:
        if subresource:
            raise NotFound.of(call.kind.group_resource, call.target.name)
        if metadata.get("uid"):
            raise NotFound.of(call.kind.group_resource, call.target.name)
        new = await merged(None)
        entry = await create_object(services, call, new, manager=None)
        return await writing.answer(services, call, 201, entry)

    async def applied(old: Object) -> Object:
        new = await merged(await _at_version(call.kind, kind, old))
        return await _to_working_version(call, kind, new)

    entry = await updating.change(services, call, kind, applied, manager=None)
    return await writing.answer(services, call, 200, entry)
