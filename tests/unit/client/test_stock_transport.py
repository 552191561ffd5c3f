"""A stock API server gets paths without tenants, is never asked for other tenants, and lacks kinds without harm."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import parse_qs

import orjson
import pytest

from alcove.api.errors import Expired, Gone, NotFound, status
from alcove.api.ids import ALL, SYSTEM, Revision, TenantId
from alcove.client.client import Client, ListSelection
from alcove.client.errors import MalformedResponse
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.plane_share import PlaneShare, SharePool
from alcove.client.resources import NETWORKS, NODES, PODS, TENANTS
from alcove.client.stock_transport import StockTarget, StockTransport, stock_target
from alcove.client.transport import Stream
from alcove.client.watch_events import WatchEvent
from alcove.http.client import ReceivedResponse

ACME = TenantId("acme")


@pytest.mark.parametrize(
    ("path", "tenant", "stock"),
    [
        (
            "/api/v1/tenants/acme/namespaces/ns/pods/web/status?x=1",
            "acme",
            "/api/v1/namespaces/ns/pods/web/status?x=1",
        ),
        ("/apis/apps/v1/tenants/all/deployments?watch=1", "all", "/apis/apps/v1/deployments?watch=1"),
        ("/api/v1/tenants/system/nodes/n1", "system", "/api/v1/nodes/n1"),
        ("/tenants/acme/apis", "acme", "/apis"),
        ("/version", "", "/version"),
        ("/api/v1/tenants", "system", ""),
        ("/api/v1/tenants/acme", "system", ""),
        ("/api/v1/tenants/acme/status", "system", ""),
        ("/api/v1/tenants/acme/finalize?x=1", "system", ""),
        ("/api/v1/tenants/acme/namespaces/tenants", "acme", "/api/v1/namespaces/tenants"),
    ],
)
def test_paths_lose_the_tenant(path: str, tenant: str, stock: str) -> None:
    assert stock_target(path) == StockTarget(tenant, stock)


class Lines:
    def __init__(self, status: int, *lines: bytes) -> None:
        self.status, self._lines = status, lines
        self.headers: Mapping[str, str] = {}

    async def chunks(self) -> AsyncIterator[bytes]:
        for line in self._lines:
            yield line


class StockServer:
    """A transport that records what reaches it, and serves pods."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.limit_max, self.expires_at = 1_000, 1_000
        self.labels: dict[str, str] = {}

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        self.asked.append(f"{method} {path}")
        if "limit=" in path:
            return self.page(path)
        found = {"metadata": {"name": path.rpartition("/")[2], "namespace": "ns", "uid": "u"}}
        return ReceivedResponse(200, {}, orjson.dumps(found))

    def page(self, path: str) -> ReceivedResponse:
        """Five pods, or what was said of them; other kinds are unknown."""
        if "/pods" not in path:
            return ReceivedResponse(404, {}, b"404 page not found")
        query = {name: value for name, [value] in parse_qs(path.partition("?")[2]).items()}
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        if limit > self.limit_max:
            raise MalformedResponse("too large")
        if start >= self.expires_at:
            return ReceivedResponse(410, {}, orjson.dumps(status(Expired("too old"))))
        items = [
            {"metadata": {"name": f"p{n}", "resourceVersion": "3", "labels": self.labels}}
            for n in range(start, min(5, start + limit))
        ]
        metadata = {"resourceVersion": "7"} | ({"continue": str(start + limit)} if start + limit < 5 else {})
        page = {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items}
        return ReceivedResponse(200, {}, orjson.dumps(page))

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        self.asked.append(f"WATCH {path}")
        event = {"type": "ADDED", "object": {"metadata": {"name": "web", "resourceVersion": "8"}}}
        yield (
            Lines(200, orjson.dumps(event) + b"\n") if "/pods" in path else Lines(404, b"404 page not found")
        )

    async def close(self) -> None:
        self.asked.append("closed")


async def first_of(
    client: Client, tenant: TenantId, selection: ListSelection, after: Revision | None
) -> WatchEvent:
    async with client.watch(tenant, selection, after=after, seconds_max=60) as watch:
        async for batch in watch.batches():
            return next(batch)
    raise AssertionError("the watch ended")


async def test_only_the_planes_own_tenant_and_ring0_reach_the_server() -> None:
    server = StockServer()
    client = Client(StockTransport(server, ACME))
    await client.get(ACME, PODS, "web", namespace="ns")
    await client.delete(SYSTEM, NODES, "n1")
    with pytest.raises(NotFound):
        await client.get(TenantId("globex"), PODS, "web", namespace="ns")
    with pytest.raises(NotFound):
        await client.create(SYSTEM, TENANTS, {"metadata": {"name": "acme"}})
    assert server.asked == ["GET /api/v1/namespaces/ns/pods/web", "DELETE /api/v1/nodes/n1"]


async def test_kinds_that_the_server_lacks_are_watched_as_empty() -> None:
    server = StockServer()
    client = Client(StockTransport(server, ACME))
    pods = await first_of(client, ALL, ListSelection(PODS), Revision(7))
    assert pods.obj["metadata"]["name"] == "web"
    for tenant, resource in ((ALL, NETWORKS), (ALL, TENANTS), (SYSTEM, PODS), (TenantId("globex"), PODS)):
        listed = await first_of(client, tenant, ListSelection(resource), None)
        assert listed.ends_initial and listed.revision == 1
        resumed = await first_of(client, tenant, ListSelection(resource), Revision(1))
        assert not resumed.ends_initial
    assert len([path for path in server.asked if "/pods" in path]) == 1


async def events_of(client: Client, selection: ListSelection) -> list[WatchEvent]:
    async with client.watch(ALL, selection, after=None, seconds_max=60) as watch:
        return [event async for batch in watch.batches() for event in batch]


@pytest.mark.parametrize(("limit_max", "pages"), [(1_000, 1), (16, 2), (2, 5)])
async def test_a_watch_begins_with_pages_of_a_list(limit_max: int, pages: int) -> None:
    """Pages that are too large are read again in smaller ones."""
    server = StockServer()
    server.limit_max = limit_max
    selection = ListSelection(PODS, fields="spec.nodeName=n1")
    *listed, end, new = await events_of(Client(StockTransport(server, ACME)), selection)
    assert [event.obj["metadata"]["name"] for event in listed] == [f"p{n}" for n in range(5)]
    assert listed[0].obj["kind"] == "Pod" and end.ends_initial and end.revision == 7
    assert new.obj["metadata"]["name"] == "web"
    asked = [parse_qs(path.partition("?")[2]) for path in server.asked]
    assert all(query["fieldSelector"] == ["spec.nodeName=n1"] for query in asked)
    assert "sendInitialEvents" not in asked[-1] and asked[-1]["resourceVersion"] == ["7"]
    assert pages <= len(asked) - 1 <= pages + 2


async def test_a_page_of_many_values_is_read_in_smaller_ones() -> None:
    """A page of 480,000 values, and the next, held up the controllers of all tenants for 0.15 s each."""
    server = StockServer()
    server.labels = {f"k{number}": "v" for number in range(30_000)}
    *listed, _, _ = await events_of(Client(StockTransport(server, ACME)), ListSelection(PODS))
    assert [event.obj["metadata"]["name"] for event in listed] == [f"p{n}" for n in range(5)]
    limits = [int(parse_qs(path.partition("?")[2])["limit"][0]) for path in server.asked[:-1]]
    assert limits == [128, 16, 2, 2, 2]


async def test_a_list_that_expires_between_pages_is_begun_anew() -> None:
    server = StockServer()
    server.limit_max, server.expires_at = 2, 2
    with pytest.raises(Gone):
        await events_of(Client(StockTransport(server, ACME)), ListSelection(PODS))


async def test_objects_without_a_tenant_are_of_the_tenant_with_the_planes_name() -> None:
    mirror = Mirror(ListSelection(PODS))
    part = mirror.add_plane(PlaneId("acme"), share=PlaneShare(SharePool()))
    metadata = {
        "name": "web",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": None,
    }
    pod = {"metadata": metadata, "spec": {"containers": []}}
    part.put(pod, Revision(7))
    key = ObjectKey(PlaneId("acme"), ACME, "ns", "web")
    found = mirror.get(key)
    assert found is not None and found["metadata"]["tenant"] == "acme"
    part.remove({**pod, "metadata": {**metadata, "resourceVersion": "8"}}, Revision(8))
    assert mirror.get(key) is None
