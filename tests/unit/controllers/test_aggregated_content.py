"""Objects of a terminating namespace in aggregated APIs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import orjson
import pytest

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey
from alcove.client.transport import Stream
from alcove.controllers import aggregated_content
from alcove.http.client import ReceivedResponse

NAMESPACE = ObjectKey(HOME, TenantId("acme"), "", "old")
ROOT = "/tenants/acme/apis/x.io/v1"
THINGS = f"{ROOT}/namespaces/old/things"


def api_service(group: str = "x.io", status: str = "True", is_local: bool = False) -> Object:
    spec: Object = {"group": group, "version": "v1"}
    if not is_local:
        spec["service"] = {"namespace": "n", "name": "s"}
    return {"spec": spec, "status": {"conditions": [{"type": "Available", "status": status}]}}


class Server:
    """Implements `client.transport.Transport`: an extension server behind the API server."""

    def __init__(self, verbs: str = "list delete deletecollection", names: int = 2) -> None:
        self.verbs = verbs.split()
        self.names = [f"t{number}" for number in range(names)]
        self.keeps: set[str] = set()
        self.discovery: bytes | None = None
        self.hangs = ""
        self.asked: list[tuple[str, str]] = []

    async def request(
        self, method: str, path: str, _headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        self.asked.append((method, path))
        if self.hangs and self.hangs in path:
            await asyncio.sleep(60)
        if path == ROOT:
            resources = [
                {"name": "things", "namespaced": True, "verbs": self.verbs},
                {"name": "things/status", "namespaced": True, "verbs": self.verbs},
                {"name": "globals", "namespaced": False, "verbs": self.verbs},
                {"name": "reviews", "namespaced": True, "verbs": ["create"]},
            ]
            return ReceivedResponse(200, {}, self.discovery or orjson.dumps({"resources": resources}))
        if method == "DELETE":
            gone = self.names if path == THINGS else [path.rpartition("/")[2]]
            self.names = [each for each in self.names if each not in gone or each in self.keeps]
            return ReceivedResponse(200, {}, b"{}")
        assert path == THINGS
        items = [{"metadata": {"name": each}} for each in self.names]
        return ReceivedResponse(200, {}, orjson.dumps({"items": items}))

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError("nothing is streamed")

    async def close(self) -> None:
        pass


async def delete(server: Server, *services: Object) -> aggregated_content.AggregatedContent:
    return await aggregated_content.delete(Client(server), NAMESPACE, services or (api_service(),))


@pytest.mark.parametrize("verbs", ["list delete deletecollection", "list delete"])
async def test_objects_are_deleted_together_or_one_by_one(verbs: str) -> None:
    server = Server(verbs)
    assert (await delete(server)).is_empty and server.names == []
    deleted = [path for method, path in server.asked if method == "DELETE"]
    assert deleted == ([THINGS] if "collection" in verbs else [f"{THINGS}/t0", f"{THINGS}/t1"])


async def test_what_stays_is_counted() -> None:
    server = Server()
    server.keeps = {"t1"}
    content = await delete(server)
    assert content.remaining == Counter({"things.x.io": 1}) and not content.is_empty


async def test_what_cannot_be_deleted_is_not_looked_at() -> None:
    server = Server("get list")
    assert (await delete(server)).is_empty and server.asked == [("GET", ROOT)]


async def test_nothing_is_asked_of_what_is_not_available_or_local() -> None:
    server = Server()
    content = await delete(server, api_service(status="False"), api_service("apps", is_local=True))
    assert content.undiscovered == ["x.io/v1: stale GroupVersion discovery: x.io/v1"]
    assert not server.asked and not content.is_empty


@pytest.mark.parametrize("document", [b"<html>", b"[]", b'{"resources": [1]}', b'{"resources": 7}'])
async def test_a_malformed_discovery_is_a_failed_one(document: bytes) -> None:
    server = Server()
    server.discovery = document
    content = await delete(server)
    assert content.undiscovered == ["x.io/v1: the server's answer is not valid"]


@pytest.mark.parametrize(("where", "field"), [(ROOT, "undiscovered"), ("/things", "failures")])
async def test_a_server_that_hangs_is_not_waited_for(
    where: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregated_content, "GROUP_VERSION_SECONDS_MAX", 0.5)
    server = Server()
    server.hangs = where
    content = await delete(server)
    [message] = getattr(content, field)
    assert message.endswith("context deadline exceeded") and not content.is_empty
