"""Lists and watches at a compacted revision get 410 Expired, and a token to continue with where possible."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.errors import Expired
from alcove.api.ids import SYSTEM, Key, Revision, TenantId
from alcove.apiserver.admission.chain import Chain
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.call import ApiCall
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import parse
from alcove.apiserver.resources.listing import list_objects
from alcove.apiserver.resources.watching import watch_objects
from alcove.apiserver.services import ApiServerServices
from alcove.apiserver.watch_hub import WatchHub
from alcove.http.messages import HttpRequest, HttpResponse, ResponseStream
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

MAPS = "/api/v1/namespaces/default/configmaps"
KINDS = registry.load()


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[ApiServerServices]:
    store = await SqliteStore.open(directory / "store.db")
    hub = WatchHub()
    try:
        async with Cache(store, hub.publish) as cache:
            kinds = CustomKinds(KINDS, cache, lambda: 0.0)
            yield ApiServerServices(store, cache, hub, KINDS, kinds, Chain(()), lambda: 0.0)
    finally:
        await store.close()


async def put(services: ApiServerServices, name: str, value: str = "") -> None:
    kind = KINDS.find("", "v1", "configmaps")
    assert kind is not None
    key = Key(kind.group_resource, SYSTEM, "default", name)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}
    await services.cache.reached(await services.store.write([WriteOp(key, encode(body))]))


def call(query: str, verb: str = "list") -> ApiCall:
    made = ApiCall(HttpRequest("GET", MAPS, query, {}), parse(MAPS), 0.0)
    kind = KINDS.find("", "v1", "configmaps")
    assert kind is not None
    made.tenant, made.kind, made.verb = SYSTEM, kind, verb
    made.identity = Identity(SYSTEM, "someone")
    return made


async def listed(services: ApiServerServices, query: str) -> Any:
    answer = list_objects(services, call(query))
    response = answer if isinstance(answer, HttpResponse) else await answer
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def names(listed: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


class Client:
    """The client's end of a watch."""

    paused = closed = False
    buffered_bytes = 0

    def __init__(self) -> None:
        self.received = b""
        self.finished = False

    def write(self, data: bytes) -> None:
        self.received += data

    def finish(self) -> None:
        self.finished = True

    def abort(self) -> None:
        raise AssertionError("a watch ends, or the client does")


def watching(services: ApiServerServices, watch_call: ApiCall) -> ResponseStream:
    response = watch_objects(services, watch_call)
    assert isinstance(response, HttpResponse)
    return cast(ResponseStream, response.body)


async def test_a_page_token_outlives_compaction_inconsistently(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        for name in "abcdef":
            await put(services, name)
        first = await listed(services, "limit=2")
        token = first["metadata"]["continue"]
        await put(services, "c", "changed")
        await services.store.compact(await services.store.revision())
        try:
            await listed(services, f"limit=2&continue={token}")
            raise AssertionError("a forgotten revision was listed")
        except Expired as error:
            assert "too old to display a consistent list" in error.message
            again = error.metadata["continue"]
        rest = await listed(services, f"limit=10&continue={again}")
        assert names(rest) == ["c", "d", "e", "f"]
        assert rest["items"][0]["data"] == {"v": "changed"}


async def test_a_page_token_expires_with_its_revision_though_nothing_of_the_list_changed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as services:
        for name in "abc":
            await put(services, name)
        first = await listed(services, "limit=1")
        token, oldest = first["metadata"]["continue"], services.cache.revision
        services.cache.forget(oldest)
        assert names(await listed(services, f"continue={token}")) == ["b", "c"]
        services.cache.forget(Revision(oldest + 1))
        try:
            await listed(services, f"limit=1&continue={token}")
            raise AssertionError("a forgotten revision was listed")
        except Expired as error:
            again = error.metadata["continue"]
        assert names(await listed(services, f"continue={again}")) == ["b", "c"]


async def test_an_exact_revision_that_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        await put(services, "a")
        old = services.cache.revision
        await put(services, "b")
        assert names(await listed(services, f"resourceVersion={old}&resourceVersionMatch=Exact")) == ["a"]
        await services.store.compact(await services.store.revision())
        try:
            await listed(services, f"resourceVersion={old}&resourceVersionMatch=Exact")
            raise AssertionError("a forgotten revision was listed")
        except Expired as error:
            assert error.code == 410 and error.reason == "Expired"


async def test_watch_from_a_compacted_revision_gets_410(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        await put(services, "a")
        old = services.cache.revision
        await put(services, "b")
        services.cache.forget(services.cache.revision)
        client = Client()
        watching(services, call(f"resourceVersion={old}&watch=1", "watch")).start(client)
        event = json.loads(client.received)
        assert client.finished and event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_a_watcher_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        client = Client()
        made = call("watch=1", "watch")
        made.identity = Identity(TenantId("acme"), "someone")  # Of ring0 more events are kept.
        watching(services, made).start(client)
        client.paused = True
        for number in range(1100):
            await put(services, "busy", str(number))
            if client.finished:
                break
        last = json.loads(client.received.splitlines()[-1])
        assert client.finished and last["object"]["reason"] == "Expired"
        assert services.hub.count == 0


async def test_bookmarks_and_time_out(tmp_path: Path) -> None:
    async with running(tmp_path) as services:
        await put(services, "a")
        query = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true"
        client = Client()
        watching(services, call(query, "watch")).start(client)
        async with asyncio.timeout(60):
            while not client.finished:  # noqa: ASYNC110 - the watch ends by its own timer
                await asyncio.sleep(0.05)
        assert [json.loads(line)["type"] for line in client.received.splitlines()] == ["ADDED", "BOOKMARK"]
        assert services.hub.count == 0
