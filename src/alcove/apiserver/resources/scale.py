"""The scale subresource: any kind with replicas, shown as an autoscaling/v1 Scale."""

from __future__ import annotations

from typing import Any

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest, Invalid, NotFound
from alcove.api.fields import invalid
from alcove.api.ids import GroupVersionKind
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.patch import json as json_patch
from alcove.api.patch import merge
from alcove.api.schema.decode import decode
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.resources import body, patching, updating, versions, writing
from alcove.apiserver.responses import json_response
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


def paths(kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The paths of the desired replicas, the actual replicas and the selector."""
    if kind.scale_paths is not None:
        return kind.scale_paths
    return ("spec", "replicas"), ("status", "replicas"), ("spec", "selector")


def of(kind: Kind, obj: Object) -> Object:
    """The object as a Scale."""
    desired, actual, selector = paths(kind)
    metadata = obj["metadata"]
    shown = ("name", "namespace", "tenant", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": objects.get(obj, *actual, default=0)}
    if selector and (text := _selector_text(objects.get(obj, *selector))):
        status["selector"] = text
    return {
        "kind": SCALE.kind,
        "apiVersion": SCALE.api_version,
        "metadata": {field: metadata[field] for field in shown if field in metadata},
        "spec": {"replicas": objects.get(obj, *desired, default=0)},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    if "matchLabels" in selector or "matchExpressions" in selector:
        return str(selectors.from_object(selector))
    return str(selectors.from_labels(selector))


async def get(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    entry = services.cache.entry(call.key)
    if entry is None:
        raise NotFound.of(call.kind.group_resource, call.target.name)
    return await _answer(call, entry)


async def update(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    node = services.registry.body(SCALE)
    assert node is not None
    scale = body.read_as(call, node, SCALE.api_version, SCALE.kind)
    return await _answer(call, await _set(services, call, lambda _current: scale))


async def patch(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    node = services.registry.body(SCALE)
    assert node is not None
    form = call.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if form not in (patching.JSON, patching.MERGE, patching.STRATEGIC):
        raise BadRequest("the scale subresource accepts JSON, merge and strategic merge patches only")
    document = body.parse_small_json(call)
    if form == patching.STRATEGIC:
        document = patching.without_names(document)

    def changed(current: Object) -> Object:
        apply = json_patch.apply if form == patching.JSON else merge.apply
        return decode(node, body.identified(apply(current, document), SCALE.api_version, SCALE.kind))

    return await _answer(call, await _set(services, call, changed))


async def _set(services: ApiServerServices, call: ApiCall, change: Any) -> CacheEntry:
    kind = versions.working_kind(services, call)
    path, _, _ = paths(kind)

    async def scaled(old: Object) -> Object:
        scale = change(of(kind, old))
        replicas = objects.get(scale, "spec", "replicas", default=0)
        if replicas < 0:
            error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
            raise Invalid.of(SCALE.group, SCALE.kind, call.target.name, [error])
        holder = old
        for step in path[:-1]:
            holder = holder.setdefault(step, {})
        holder[path[-1]] = replicas
        revision = objects.get(scale, "metadata", "resourceVersion")
        old["metadata"].pop("resourceVersion", None)
        if revision:
            old["metadata"]["resourceVersion"] = revision
        return old

    return await updating.change(services, call, kind, scaled, manager=writing.field_manager(call))


async def _answer(call: ApiCall, entry: CacheEntry) -> HttpResponse:
    obj = await versions.from_storage(call.kind, entry.decode())
    return json_response(200, of(call.kind, obj))
