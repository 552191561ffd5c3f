"""list: encoded items joined, at one revision, in pages if the client sets a limit."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from alcove.api.errors import BadRequest, Expired
from alcove.api.ids import Key, Revision
from alcove.api.objects import Object
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.call import ApiCall
from alcove.apiserver.render import render_list
from alcove.apiserver.resources import lookup, versions
from alcove.apiserver.resources.matching import Matches, exact_fields, matcher, needs_conversion
from alcove.apiserver.resources.options import ListOptions, list_options
from alcove.apiserver.resources.reading import check_reached
from alcove.apiserver.services import ApiServerServices
from alcove.http.messages import HttpResponse
from alcove.store.base import Compacted, RevisionInFuture, StoreRecord

QUICK_OBJECTS_MAX = 100
QUICK_BYTES_MAX = 256 << 10
"""Lists up to this size are selected and rendered on the event loop, larger ones in a thread."""
INCONSISTENT = -1
"""A token's revision that means: continue with the newest state."""

_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

Position = tuple[str, str, str]
"""(tenant, namespace, name) of the last item that was returned."""


class ContinueToken(Struct, frozen=True):
    rv: int
    start: Position

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> ContinueToken:
        try:
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return msgspec.json.decode(raw, type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise BadRequest("continue key is not valid: start the list again without it") from error


def list_objects(
    services: ApiServerServices, call: ApiCall
) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
    options = list_options(call)
    cache = services.cache
    if options.continue_:
        token = ContinueToken.decode(options.continue_)
        if options.revision:
            raise BadRequest("specifying resource version is not allowed when using continue")
        if token.rv == INCONSISTENT:
            entries = _current(services, call, options, token.start)
            return _page(services, call, options, entries, cache.revision)
        return _at(services, call, options, Revision(token.rv), token.start)
    if options.match == "Exact":
        assert options.revision is not None
        return _at(services, call, options, options.revision, ("", "", ""))
    check_reached(cache, options.revision)
    return _page(services, call, options, _current(services, call, options, ("", "", "")), cache.revision)


def _current(
    services: ApiServerServices, call: ApiCall, options: ListOptions, after: Position
) -> Iterable[CacheEntry]:
    resource, exact = call.kind.storage_resource, exact_fields(options.fields)
    return lookup.candidates(
        services, call.list_tenant, resource, call.list_namespace, exact, after, options.shard
    )


def _at(
    services: ApiServerServices, call: ApiCall, options: ListOptions, revision: Revision, after: Position
) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
    cache = services.cache
    check_reached(cache, revision)
    if not cache.has_history(call.list_tenant, revision):
        # Also if nothing changed since: how long a token is good for must not depend on who writes.
        raise _expired(options, after)
    resource = call.kind.storage_resource
    if all(cache.changed(each, resource) <= revision for each in lookup.sources(call.list_tenant, resource)):
        return _page(services, call, options, _current(services, call, options, after), revision)
    return _past(services, call, options, revision, after)


async def _past(
    services: ApiServerServices, call: ApiCall, options: ListOptions, revision: Revision, after: Position
) -> HttpResponse:
    """A list as of an earlier revision, from the store's history."""
    tenant, resource = call.list_tenant, call.kind.storage_resource
    try:
        snapshots = [
            await services.store.snapshot(
                revision, resource=resource, tenant=source, namespace=call.list_namespace
            )
            for source in lookup.sources(tenant, resource)
        ]
    except (Compacted, RevisionInFuture) as error:
        raise _expired(options, after) from error
    entries: Iterable[CacheEntry]
    if tenant is not None and lookup.is_overlaid(tenant, resource):
        stored = [_entries(services.cache, each.records, ("", "", "")) for each in snapshots]
        entries = lookup.overlaid(services, tenant, resource, stored, after[2])
    else:
        shard = options.shard
        records = (each for each in snapshots[0].records if shard is None or each.key.tenant in shard)
        entries = _entries(services.cache, records, after)
    page = _page(services, call, options, entries, revision)
    return page if isinstance(page, HttpResponse) else await page


def _entries(cache: Cache, records: Iterable[StoreRecord], after: Position) -> Iterator[CacheEntry]:
    for record in sorted(records, key=lambda record: _position(record.key)):
        if _position(record.key) > after:
            cached = cache.entry(record.key)
            same = cached is not None and cached.revision == record.revision
            yield cached if cached and same else CacheEntry(record.key, record.revision, record.body)


def _expired(options: ListOptions, after: Position) -> Expired:
    if not options.continue_:
        return Expired("The resourceVersion for the provided list is too old.")
    error = Expired(_TOO_OLD_TO_CONTINUE)
    error.metadata = {"continue": ContinueToken(INCONSISTENT, after).encode()}
    return error


def _position(key: Key) -> Position:
    return (key.tenant, key.namespace, key.name)


def _page(
    services: ApiServerServices,
    call: ApiCall,
    options: ListOptions,
    entries: Iterable[CacheEntry],
    revision: Revision,
) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
    matches = selected(call, options)
    view = call.view
    if needs_conversion(view.kind, options.fields):
        return _converted_first(services, call, options, matches, list(entries), revision)
    if view.kind.convert is not None:
        page, meta = _selected(options, matches, entries, revision)
        return _converted(services, call, page, revision, meta)
    if matches is None and view.is_verbatim and view.kind.completion is None:
        # The stored bytes are joined.
        return _rendered(call, options, matches, entries, revision)
    candidates = list(entries)
    if _is_quick(candidates):
        return _rendered(call, options, matches, candidates, revision)
    return services.threads.run(
        call.identity.tenant, partial(_rendered, call, options, matches, candidates, revision)
    )


def _is_quick(entries: list[CacheEntry]) -> bool:
    """Whether all entries can be decoded, tested and rendered on the event loop."""
    return len(entries) <= QUICK_OBJECTS_MAX and sum(entry.size for entry in entries) <= QUICK_BYTES_MAX


def _rendered(
    call: ApiCall,
    options: ListOptions,
    matches: Matches | None,
    entries: Iterable[CacheEntry],
    revision: Revision,
) -> HttpResponse:
    page, meta = _selected(options, matches, entries, revision)
    return HttpResponse(200, render_list(call.view, page, revision, meta), call.view.content_type)


def _selected(
    options: ListOptions, matches: Matches | None, entries: Iterable[CacheEntry], revision: Revision
) -> tuple[list[CacheEntry], Object]:
    """The entries of the page, and the list's metadata."""
    selected_entries = entries if matches is None else filter(matches, entries)
    meta: Object = {}
    if not options.limit:
        return list(selected_entries), meta
    iterator = iter(selected_entries)
    page = list(islice(iterator, options.limit))
    rest = sum(1 for _ in iterator) if matches is None else sum(1 for _ in islice(iterator, 1))
    if rest:
        meta["continue"] = ContinueToken(revision, _position(page[-1].key)).encode()
        if matches is None:
            meta["remainingItemCount"] = rest
    return page, meta


async def _converted(
    services: ApiServerServices, call: ApiCall, page: list[CacheEntry], revision: Revision, meta: Object
) -> HttpResponse:
    entries = await versions.entries_at(services, call, page)

    def rendered() -> HttpResponse:
        return HttpResponse(200, render_list(call.view, entries, revision, meta), call.view.content_type)

    return await _in_thread_if_long(services, call, entries, rendered)


async def _converted_first(
    services: ApiServerServices,
    call: ApiCall,
    options: ListOptions,
    matches: Matches | None,
    entries: list[CacheEntry],
    revision: Revision,
) -> HttpResponse:
    """Selects by fields that only the requested version has."""
    converted = await versions.entries_at(services, call, entries)
    rendered = partial(_rendered, call, options, matches, converted, revision)
    return await _in_thread_if_long(services, call, converted, rendered)


async def _in_thread_if_long(
    services: ApiServerServices,
    call: ApiCall,
    entries: list[CacheEntry],
    compute: Callable[[], HttpResponse],
) -> HttpResponse:
    if _is_quick(entries):
        return compute()
    response: HttpResponse = await services.threads.run(call.identity.tenant, compute)
    return response


def selected(call: ApiCall, options: ListOptions) -> Matches | None:
    return matcher(call.kind, options.labels, options.fields)
