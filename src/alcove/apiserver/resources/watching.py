"""watch: where to start, what to send first, and whom to tell."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial

from alcove.api.errors import Expired
from alcove.api.ids import TenantId
from alcove.apiserver import watch
from alcove.apiserver.cache.entries import Entry, Event
from alcove.apiserver.call import Call
from alcove.apiserver.http.messages import Response, Writer
from alcove.apiserver.render import View
from alcove.apiserver.resources import lookup, versions
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.matching import Matches, exact_fields
from alcove.apiserver.resources.options import ListOptions, list_options
from alcove.apiserver.services import Services

DEFAULT_SECONDS = (1800, 3600)
"""Without timeoutSeconds a watch lasts a random time in between, so that clients do not return at once."""


def watch_objects(services: Services, call: Call) -> Response:
    wanted = selected(call, list_options(call))
    return watch_space(services, call, call.list_tenant, call.view, wanted)


def watch_space(
    services: Services, call: Call, tenant: TenantId | None, view: View, wanted: Matches | None
) -> Response:
    """Watches one tenant's objects, or (None) all tenants'."""
    options = list_options(call)
    cache, resource = services.cache, call.kind.storage_resource
    initial: Iterator[Event | Entry | bytes]
    if options.initial_events or (options.initial_events is None and not options.revision):
        after = cache.revision
        initial = _first(services, call, options, tenant, view, wanted)
    else:
        after = options.revision or cache.revision
        history = cache.history(tenant, resource, after)
        if history is None:
            told = f"too old resource version: {after} ({cache.revision})"
            return Response(200, _Refused(watch.error_event(Expired(told))))
        initial = (event for event in history if _in_scope(event, call))
    exact = exact_fields(options.fields)
    scope = watch.Scope(
        resource,
        tenant,
        call.list_namespace or exact.get("metadata.namespace") or None,
        call.target.name or exact.get("metadata.name"),
        watch.indexed_value(resource, exact),
    )
    made: Callable[..., watch.Watcher] = watch.Watcher
    if call.kind.convert is not None:
        made = partial(watch.ConvertingWatcher, convert=partial(versions.entries_at, call.kind))
    watcher = made(
        services.hub,
        scope,
        view,
        wanted,
        initial=initial,
        after=after,
        revision=lambda: cache.revision,
        seconds_max=options.timeout_seconds or random.uniform(*DEFAULT_SECONDS),
        bookmarks=options.bookmarks,
        is_still_allowed=call.is_still_allowed,
    )
    return Response(200, watcher)


def _first(
    services: Services,
    call: Call,
    options: ListOptions,
    tenant: TenantId | None,
    view: View,
    wanted: Matches | None,
) -> Iterator[Entry | bytes]:
    """The objects that are there, as if they had just been added."""
    name = call.target.name
    for entry in lookup.every(services, tenant, call.kind.storage_resource, call.list_namespace):
        if (wanted is None or wanted(entry)) and (not name or entry.key.name == name):
            yield entry
    if options.initial_events:
        yield watch.bookmark(view, services.cache.revision, initial_end=True)


def _in_scope(event: Event, call: Call) -> bool:
    key = event.entry.key
    namespace, name = call.list_namespace, call.target.name
    return (namespace is None or key.namespace == namespace) and (not name or key.name == name)


class _Refused:
    """A watch that ends with its first event."""

    def __init__(self, event: bytes) -> None:
        self._event = event

    def start(self, writer: Writer) -> None:
        writer.write(self._event)
        writer.finish()

    def resume(self) -> None:
        pass

    def stop(self) -> None:
        pass
