"""The nodes as a tenant sees them: those its pods are on, without what concerns other tenants."""

from __future__ import annotations

from alcove.api import objects
from alcove.api.encode import encode
from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, Key
from alcove.api.objects import Object
from alcove.apiserver.cache.entries import Entry
from alcove.apiserver.call import Call
from alcove.apiserver.http.messages import Response
from alcove.apiserver.render import render, render_list
from alcove.apiserver.resolve import NODES
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.matching import nodes_of
from alcove.apiserver.resources.options import list_options
from alcove.apiserver.services import Services

_SHOWN_STATUS = ("capacity", "allocatable", "conditions", "nodeInfo")


def applies(call: Call) -> bool:
    return call.kind.group_resource == NODES and call.tenant != SYSTEM and call.list_tenant is not None


def get(services: Services, call: Call) -> Response:
    name = call.target.name
    entry = services.cache.entry(Key(NODES, SYSTEM, "", name))
    if entry is None or name not in nodes_of(services.cache, call.tenant):
        raise NotFound.of(NODES, name)
    return Response(200, render(call.view, _shown(entry)), call.view.content_type)


def list_nodes(services: Services, call: Call) -> Response:
    options = list_options(call)
    wanted = selected(call, options)
    visible = nodes_of(services.cache, call.tenant)
    entries = [
        _shown(entry)
        for entry in services.cache.entries(SYSTEM, NODES)
        if entry.key.name in visible and (wanted is None or wanted(entry))
    ]
    body = render_list(call.view, entries, services.cache.revision, {})
    return Response(200, body, call.view.content_type)


def _shown(entry: Entry) -> Entry:
    """The tenant's copy: no images, addresses, volumes or annotations, which tell of other tenants."""
    obj = entry.object
    metadata = obj["metadata"]
    kept = {
        field: metadata[field]
        for field in ("name", "uid", "labels", "creationTimestamp")
        if field in metadata
    }
    spec = objects.get(obj, "spec", default={})
    status = objects.get(obj, "status", default={})
    shown: Object = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": kept,
        "spec": {field: spec[field] for field in ("taints", "unschedulable") if field in spec},
        "status": {field: status[field] for field in _SHOWN_STATUS if field in status},
    }
    return Entry(entry.key, entry.revision, encode(shown))


VERBS = {"get": get, "list": list_nodes}
