"""The transport to a stock kube-apiserver: what Alcove's API servers have and Kubernetes' lack is translated.

- Paths name no tenant there: the plane has one tenant. Requests for others are answered here, and not sent.
- Kinds that it does not serve, Tenants above all, are watched as if there were no objects of them.
- A watch that begins with all existing objects is made of a list, page by page, and a watch from its revision: whether the
  server has the former depends on its version, its feature gates and its etcd.

Objects come without `metadata.tenant`; mirrors fill it in (`plane_mirror`). The server ignores the header of fences.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from time import thread_time
from urllib.parse import parse_qsl, urlencode

import orjson
from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import NotFound, status
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.errors import MalformedResponse
from alcove.client.transport import Stream, Transport
from alcove.client.watch_events import INITIAL_END, check_values, refusal_of
from alcove.http.client import ReceivedResponse

ABSENT_SECONDS = 60.0
"""How long a kind that the server does not serve is taken as absent before it is asked again."""
_REVISION = "1"
"""Of a kind that is absent. If it is served later, this revision has expired, and the kind is listed."""
PAGE_OBJECTS = 128
"""Objects in a page of a list, unless they are too large."""
PAGE_VALUES_MAX = 120_000
"""Values of a page, as of one event; one that has more is read in smaller ones. Decoding holds up the whole process."""
REST_FACTOR = 3
"""How much longer than a page took to decode is waited before the next one: the server decides how many there are."""
PAGES_MAX = 10_000
"""Pages of a list; one with more is refused."""
_INITIAL = ("sendInitialEvents", "resourceVersionMatch")
_TENANT_SUBRESOURCES: tuple[list[str], ...] = ([], ["status"], ["finalize"])


class StockTarget(Struct, frozen=True):
    tenant: str
    """Whom the request is for: a name, `all`, or nothing."""
    path: str
    """As the server knows it; empty for a kind that it never has."""


def stock_target(path: str) -> StockTarget:
    """Takes the tenant out of a path, with its query."""
    resource_path, question_mark, query = path.partition("?")
    segments = resource_path.split("/")[1:]
    match segments:
        case ["tenants", tenant, *rest]:
            pass
        case ["api", "v1", "tenants", *name] if not name or name[1:] in _TENANT_SUBRESOURCES:
            return StockTarget(SYSTEM, "")
        case ["api" as root, version, "tenants", tenant, *after]:
            rest = [root, version, *after]
        case ["apis" as root, group, version, "tenants", tenant, *after]:
            rest = [root, group, version, *after]
        case _:
            return StockTarget("", path)
    return StockTarget(tenant, f"/{'/'.join(rest)}{question_mark}{query}")


class StockTransport:
    """Implements `transport.Transport` for the plane of `tenant`; closing it closes `inner`."""

    def __init__(self, inner: Transport, tenant: TenantId) -> None:
        self._inner = inner
        self._tenants = ("", tenant, ALL, SYSTEM)
        """Ring0 writes what is its own too: the plane's fence, and its nodes."""

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        target = stock_target(path)
        if not target.path or target.tenant not in self._tenants:
            return ReceivedResponse(NotFound.code, {}, orjson.dumps(status(NotFound.path())))
        return await self._inner.request(method, target.path, headers, body)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        target = stock_target(path)
        # What ring0 has on a plane is not read there.
        if not target.path or target.tenant not in self._tenants[:-1]:
            yield AbsentKind(path)
            return
        if "sendInitialEvents" in dict(parse_qsl(target.path.partition("?")[2])):
            async with AsyncExitStack() as stack:
                listed = ListedWatch(self._inner, stack, target.path, headers)
                await listed.begin()
                yield AbsentKind(path) if listed.status == NotFound.code else listed
            return
        async with self._inner.stream(target.path, headers) as stream:
            if stream.status != NotFound.code:
                yield stream
                return
        yield AbsentKind(path)

    async def close(self) -> None:
        await self._inner.close()


class AbsentKind:
    """The watch of a kind without objects. Implements `transport.Stream`."""

    status = 200
    headers: Mapping[str, str] = {}

    def __init__(self, path: str) -> None:
        self._is_list = "sendInitialEvents" in dict(parse_qsl(path.partition("?")[2]))

    async def chunks(self) -> AsyncIterator[bytes]:
        yield _bookmark(_REVISION, ends_initial=self._is_list)
        await asyncio.sleep(ABSENT_SECONDS)


class ListedWatch:
    """A watch that begins with all existing objects. Implements `transport.Stream`."""

    def __init__(
        self, inner: Transport, stack: AsyncExitStack, path: str, headers: Mapping[str, str]
    ) -> None:
        """The watch's connection is closed with the stack."""
        self._inner = inner
        self._stack = stack
        self._path, _, query = path.partition("?")
        self._query = {name: value for name, value in parse_qsl(query) if name not in _INITIAL}
        self._headers = headers
        self._limit = PAGE_OBJECTS
        self._first: ReceivedResponse | None = None

    async def begin(self) -> None:
        """Reads the first page. Raises ClientError."""
        self._first = await self._read_page("")

    @property
    def status(self) -> int:
        assert self._first is not None
        return self._first.status

    @property
    def headers(self) -> Mapping[str, str]:
        assert self._first is not None
        return self._first.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self._first is not None
        if self._first.status != 200:
            yield self._first.body
            return
        response: ReceivedResponse | None = self._first
        self._first = None
        revision = ""
        for _ in range(PAGES_MAX):
            if response is None or response.status != 200:
                break
            began = thread_time()
            page = _decoded(response)
            events = b"".join(_added(page))
            seconds = thread_time() - began
            yield events
            revision = str(objects.get(page, "metadata", "resourceVersion", default=""))
            next_page = str(objects.get(page, "metadata", "continue", default=""))
            if not next_page:
                response = None
                break
            await asyncio.sleep(REST_FACTOR * seconds)
            response = await self._read_page(next_page)
        if response is not None:
            yield _error(response.body)
            return
        yield _bookmark(revision, ends_initial=True)
        query = urlencode({**self._query, "resourceVersion": revision})
        stream = await self._stack.enter_async_context(
            self._inner.stream(f"{self._path}?{query}", self._headers)
        )
        if stream.status != 200:
            yield _error(await refusal_of(stream))
            return
        async for chunk in stream.chunks():
            yield chunk

    async def _read_page(self, continue_: str) -> ReceivedResponse:
        """A page that is too large is read again in smaller ones."""
        accept = self._headers.get("Accept", "").replace(
            "PartialObjectMetadata;", "PartialObjectMetadataList;"
        )
        headers = {**self._headers, "Accept": accept}
        selected = {name: value for name, value in self._query.items() if name.endswith("Selector")}
        while True:
            query = urlencode({**selected, "limit": self._limit, "continue": continue_})
            try:
                response = await self._inner.request("GET", f"{self._path}?{query}", headers)
                check_values(response.body, PAGE_VALUES_MAX)
                return response
            except MalformedResponse:
                if self._limit == 1:
                    raise
                self._limit = max(1, self._limit // 8)


def _decoded(response: ReceivedResponse) -> Object:
    """Raises MalformedResponse."""
    try:
        page = orjson.loads(response.body)
    except orjson.JSONDecodeError as error:
        raise MalformedResponse("the list is not JSON") from error
    if not isinstance(page, dict) or not isinstance(page.get("items") or [], list):
        raise MalformedResponse("the response is not a list")
    return page


def _added(page: Object) -> Iterator[bytes]:
    """The items as events. They get the kind that items of a list lack."""
    kind = {"apiVersion": page.get("apiVersion"), "kind": str(page.get("kind", "")).removesuffix("List")}
    for item in page.get("items") or ():
        if not isinstance(item, dict):
            raise MalformedResponse("the list has items that are no objects")
        yield orjson.dumps({"type": "ADDED", "object": {**kind, **item}}) + b"\n"


def _bookmark(revision: str, *, ends_initial: bool) -> bytes:
    metadata: Object = {"resourceVersion": revision}
    if ends_initial:
        metadata["annotations"] = {INITIAL_END: "true"}
    return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}) + b"\n"


def _error(body: bytes) -> bytes:
    """The event that says why a watch ends."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedResponse("the server refused a watch without saying why") from error
    return orjson.dumps({"type": "ERROR", "object": answer}) + b"\n"
