"""watch: the start revision, the initial events, and the watcher's scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from typing import Any

from alcove.api.errors import Expired
from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.api.tenant_shards import TenantShard
from alcove.apiserver import watch
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, indexed_value
from alcove.apiserver.call import ApiCall
from alcove.apiserver.converting_watch import ConvertingWatcher
from alcove.apiserver.render import ObjectView
from alcove.apiserver.resources import lookup, overlays, versions
from alcove.apiserver.resources.listing import selected
from alcove.apiserver.resources.matching import Matches, exact_fields, needs_conversion
from alcove.apiserver.resources.options import ListOptions, list_options
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.watch_events import bookmark, error_event
from alcove.apiserver.watch_hub import WatchScope
from alcove.http.messages import HttpResponse, ResponseWriter

DEFAULT_SECONDS = (1800, 3600)
"""Without timeoutSeconds a watch lasts a random time in this range, so that clients do not all reconnect
together."""


Answer = HttpResponse | Coroutine[Any, Any, HttpResponse]


def watch_objects(services: ApiServerServices, call: ApiCall) -> Answer:
    matches = selected(call, list_options(call))
    return watch_tenant(services, call, call.list_tenant, call.view, matches)


def watch_tenant(
    services: ApiServerServices,
    call: ApiCall,
    tenant: TenantId | None,
    view: ObjectView,
    matches: Matches | None,
) -> Answer:
    """Watches one tenant's objects, or those of all tenants if `tenant` is None."""
    options = list_options(call)
    if options.revision and options.revision > services.cache.revision:
        return _watch_ahead(services, call, tenant, view, matches, options.revision)
    return _watch(services, call, options, tenant, view, matches)


async def _watch_ahead(
    services: ApiServerServices,
    call: ApiCall,
    tenant: TenantId | None,
    view: ObjectView,
    matches: Matches | None,
    after: Revision,
) -> HttpResponse:
    """A watch from a revision that this server's cache does not have yet, or that does not exist.

    After a restore from a backup, a client may know revisions that the store has not reached: such a watch
    would be silent and would miss all events up to that revision. It is rejected as expired.
    """
    newest = await services.store.revision()
    if after > newest:
        return _rejected(
            f"resource version {after} is in the future (current: {newest}): the store was restored"
        )
    await services.cache.reached(after)
    return _watch(services, call, list_options(call), tenant, view, matches)


def _watch(
    services: ApiServerServices,
    call: ApiCall,
    options: ListOptions,
    tenant: TenantId | None,
    view: ObjectView,
    matches: Matches | None,
) -> HttpResponse:
    cache, resource = services.cache, call.kind.storage_resource
    services.hub.check(call.identity.tenant)
    sources = lookup.sources(tenant, resource)
    is_fresh = options.initial_events or (options.initial_events is None and not options.revision)
    after = cache.revision if is_fresh else options.revision or cache.revision
    history = [] if is_fresh else _history(cache, sources, resource, after, options.shard)
    if history is None:
        return _rejected(f"too old resource version: {after} ({cache.revision})")
    exact = exact_fields(options.fields)
    namespace = call.list_namespace or exact.get("metadata.namespace") or None
    name = call.target.name or exact.get("metadata.name")
    overlay = overlays.for_watch(cache, tenant, resource, history)
    create_watcher: Callable[..., watch.Watcher] = watch.Watcher
    if call.kind.convert is not None:
        is_late = needs_conversion(call.kind, options.fields)
        create_watcher = partial(
            ConvertingWatcher,
            convert=partial(versions.entries_at, services, call),
            matches_converted=matches if is_late else None,
        )
        matches = None if is_late else matches
    elif overlay is not None:
        # A change of one object may change how another is shown, so the watch is not limited to the name.
        create_watcher, name = partial(overlays.OverlaidWatcher, overlay=overlay, name=name), None
    initial: Iterable[CacheEvent | CacheEntry | bytes] = history
    if is_fresh:
        initial = _initial(services, call, options, tenant, view)
    elif overlay is None:
        initial = (event for event in history if _in_scope(event, call))
    indexed = indexed_value(resource, exact)
    watcher = create_watcher(
        services.hub,
        [WatchScope(resource, source, namespace, name, indexed, options.shard) for source in sources],
        view,
        matches,
        tenant=call.identity.tenant,
        initial=initial,
        after=after,
        revision=lambda: cache.revision,
        seconds_max=options.timeout_seconds or random.uniform(*DEFAULT_SECONDS),
        bookmarks=options.bookmarks,
        is_still_allowed=call.is_still_allowed,
    )
    response = HttpResponse(200, watcher)
    response.done = watcher.sent
    return response


def _history(
    cache: Cache,
    sources: Sequence[TenantId | None],
    resource: GroupResource,
    after: Revision,
    shard: TenantShard | None,
) -> list[CacheEvent] | None:
    """Events after a revision, in order; None if some were dropped."""
    histories = [cache.history(source, resource, after, shard) for source in sources]
    if len(histories) == 1:
        return histories[0]
    complete = [events for events in histories if events is not None]
    if len(complete) < len(histories):
        return None
    return list(merge(*complete, key=lambda event: event.revision))


def _initial(
    services: ApiServerServices,
    call: ApiCall,
    options: ListOptions,
    tenant: TenantId | None,
    view: ObjectView,
) -> Iterator[CacheEntry | bytes]:
    """The existing objects, of which those that match are sent as ADDED, and the bookmark that ends them."""
    name, exact = call.target.name, exact_fields(options.fields)
    resource = call.kind.storage_resource
    for entry in lookup.candidates(
        services, tenant, resource, call.list_namespace, exact, shard=options.shard
    ):
        if not name or entry.key.name == name:
            yield entry
    if options.initial_events:
        yield bookmark(view, services.cache.revision, initial_end=True)


def _in_scope(event: CacheEvent, call: ApiCall) -> bool:
    key = event.entry.key
    namespace, name = call.list_namespace, call.target.name
    return (namespace is None or key.namespace == namespace) and (not name or key.name == name)


def _rejected(message: str) -> HttpResponse:
    return HttpResponse(200, _RejectedWatch(error_event(Expired(message))))


class _RejectedWatch:
    """A watch that ends with its first event."""

    def __init__(self, event: bytes) -> None:
        self._event = event

    def start(self, writer: ResponseWriter) -> None:
        writer.write(self._event)
        writer.finish()

    def resume(self) -> None:
        pass

    def stop(self) -> None:
        pass
