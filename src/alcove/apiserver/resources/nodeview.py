"""get, list and watch of nodes by tenants: ring0's nodes, filtered and reduced (`nodes.py`)."""

from __future__ import annotations

from msgspec import structs

from alcove.api.errors import NotFound
from alcove.api.ids import SYSTEM, Key
from alcove.api.resources import NODES
from alcove.apiserver import nodes
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import render, render_list
from alcove.apiserver.resources import watching
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.matching import Matches
from alcove.apiserver.resources.options import ListOptions, list_options
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse


def applies(call: ApiCall) -> bool:
    kind = call.kind
    return (
        kind.resource == NODES.resource
        and kind.group_resource == NODES
        and call.tenant != SYSTEM
        and call.list_tenant is not None
    )


def get(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    name = call.target.name
    entry = services.cache.entry(Key(NODES, SYSTEM, "", name))
    if entry is None or not nodes.is_visible(services.cache, call.tenant, name):
        raise NotFound.of(NODES, name)
    shown = nodes.shown(entry, nodes.view_of(services.cache, call.tenant))
    return HttpResponse(200, render(call.view, shown), call.view.content_type)


def list_nodes(services: ApiServerServices, call: ApiCall) -> HttpResponse:
    matches = selected(call, list_options(call))
    keys = (Key(NODES, SYSTEM, "", name) for name in nodes.visible(services.cache, call.tenant))
    existing = (entry for key in keys if (entry := services.cache.entry(key)) is not None)
    view = nodes.view_of(services.cache, call.tenant)
    entries = [nodes.shown(entry, view) for entry in existing if matches is None or matches(entry)]
    body = render_list(call.view, entries, services.cache.revision, {})
    return HttpResponse(200, body, call.view.content_type)


def watch(services: ApiServerServices, call: ApiCall) -> watching.Answer:
    """Whether a node is visible is evaluated for each event."""
    matches = _matcher(services, call, list_options(call))
    view = structs.replace(call.view, narrowed=nodes.view_of(services.cache, call.tenant))
    return watching.watch_tenant(services, call, SYSTEM, view, matches)


def _matcher(services: ApiServerServices, call: ApiCall, options: ListOptions) -> Matches:
    by_selector = selected(call, options)

    def matches(entry: CacheEntry) -> bool:
        is_visible = nodes.is_visible(services.cache, call.tenant, entry.key.name)
        return is_visible and (by_selector is None or by_selector(entry))

    return matches


VERBS = {"get": get, "list": list_nodes, "watch": watch}
