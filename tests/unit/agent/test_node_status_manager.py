"""When a node updates its status and its lease, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from alcove.agent.hardware import Hardware
from alcove.agent.node import NodeDescription, NodePressures, NodeStatusManager
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.retry import RetryPolicy
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse
from alcove.testing.clock import VirtualClock

FACTS = NodeDescription(
    "n1", ("10.0.0.1",), 10250, Hardware(4_000, 1 << 33, 1 << 36, "amd64", "", "", "", ""), [], "x"
)


class Api:
    """Keeps a node and a lease, and counts what is asked."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.asked: list[str] = []
        self.is_away = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if self.is_away:
            raise Unreachable("away", sent=False)
        kind = "lease" if "leases" in path else "status" if path.endswith("/status") else "node"
        self.asked.append(f"{method} {kind}")
        if method == "GET" and kind not in self.objects:
            return ReceivedResponse(
                404, {}, orjson.dumps({"kind": "Status", "code": 404, "reason": "NotFound"})
            )
        if method in ("POST", "PUT"):
            self.objects[kind] = {**orjson.loads(body)}
            self.objects[kind]["metadata"] |= {"uid": "u", "resourceVersion": "1"}
        return ReceivedResponse(200, {}, orjson.dumps(self.objects.get(kind, {})))

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        raise AssertionError("nobody watches")
        yield

    async def close(self) -> None:
        return


class Wall:
    """The wall clock can jump."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.ahead = 0.0

    def __call__(self) -> float:
        return self._clock() + self.ahead


def play(seconds: float, api: Api, pressures: NodePressures | None = None, jump: float = 0.0) -> None:
    clock = VirtualClock()
    wall = Wall(clock)

    async def scene() -> None:
        client = Client(api, policy=RetryPolicy(attempts_max=1))
        manager = NodeStatusManager(FACTS, client, wall, lambda: pressures or NodePressures())
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(seconds)
        if jump:
            wall.ahead = jump
            await asyncio.sleep(15)
        task.cancel()

    clock.run(scene())


def test_a_new_node_registers_and_then_only_renews_its_lease() -> None:
    api = Api()
    play(125, api)
    assert api.asked.count("POST node") == 1 and api.asked.count("POST lease") == 1
    assert api.asked.count("PUT lease") == 13
    assert api.asked.count("PATCH status") == 1


def test_an_unchanged_status_is_updated_every_few_minutes() -> None:
    api = Api()
    play(601, api)
    assert api.asked.count("PATCH status") == 3


def test_an_existing_node_is_not_created_again() -> None:
    api = Api()
    play(1, api)
    api.asked.clear()
    play(1, api)
    assert "POST node" not in api.asked and "GET node" in api.asked


def test_after_a_pause_status_and_lease_are_updated() -> None:
    api = Api()
    play(65, api, jump=3_600.0)
    assert api.asked.count("PATCH status") == 2
    assert api.asked.count("GET node") == 2


def test_an_unreachable_api_server_is_retried() -> None:
    api = Api()
    clock = VirtualClock()

    async def scene() -> None:
        api.is_away = True
        client = Client(api, policy=RetryPolicy(attempts_max=1))
        manager = NodeStatusManager(FACTS, client, clock)
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(180)
        assert not manager.registered.is_set()
        api.is_away = False
        await asyncio.sleep(2)
        assert manager.registered.is_set()
        task.cancel()

    clock.run(scene())
