"""get: returns the cached bytes of one object."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from alcove.api.errors import Details, NotFound, StatusCause, Timeout
from alcove.api.ids import Revision
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import render
from alcove.apiserver.resources import lookup, versions
from alcove.apiserver.resources.options import revision
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse

PLAIN_JSON = frozenset(("", "*/*", "application/json"))


def get(services: ApiServerServices, call: ApiCall) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
    if call.request.raw_query:
        check_reached(services.cache, revision(call.query.get("resourceVersion", "")))
    entry = lookup.find(services, call.key)
    if entry is None:
        raise NotFound.of(call.kind.group_resource, call.target.name)
    if is_verbatim(call):
        return HttpResponse(200, entry.body)
    view = call.view
    if view.kind.convert is not None:
        return _converted(services, call, entry)
    return HttpResponse(200, render(view, entry), view.content_type)


def is_verbatim(call: ApiCall) -> bool:
    """Whether the stored bytes are the response, whatever the view is: as most requests want them."""
    return call.request.headers.get("accept", "") in PLAIN_JSON and call.kind.is_served_as_stored


async def _converted(services: ApiServerServices, call: ApiCall, entry: CacheEntry) -> HttpResponse:
    entries = await versions.entries_at(services, call, [entry])
    return HttpResponse(200, render(call.view, entries[0]), call.view.content_type)


def check_reached(cache: Cache, requested: Revision | None) -> None:
    """Raises Timeout if the requested revision is newer than the cache."""
    if requested is not None and requested > cache.revision:
        cause = StatusCause("ResourceVersionTooLarge", "Too large resource version")
        message = f"Too large resource version: {requested}, current: {cache.revision}"
        raise Timeout(message, Details(causes=(cause,), retry_after_seconds=1))
