import asyncio
from typing import cast

import msgspec

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.node_api import NodeSummary, ResourceUsage
from alcove.api.resources import NODES
from alcove.apiserver.streams.agent_addresses import AgentAddress
from alcove.apiserver.streams.agents import AgentConnector
from alcove.apiserver.usage import usage_collector
from alcove.apiserver.usage.usage_collector import KEPT_SECONDS, UsageCollector
from alcove.http.client import HttpClientConnection
from alcove.testing.memory_reader import MemoryReader

SUMMARY = NodeSummary(1.0, 1.0, ResourceUsage(5, 6), ())


class Fleet:
    """Agents that answer at once, refuse, or never answer, by the name of their node."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.hangs: set[str] = set()
        self.dead: set[str] = set()
        self.now = 0.0
        self.reader = MemoryReader()
        self.collecting = UsageCollector(self.reader, cast(AgentConnector, self), lambda: self.now)

    def add(self, *names: str) -> None:
        for name in names:
            status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
            self.reader.put(SYSTEM, NODES, {"metadata": {"name": name}, "status": status})

    async def connect(self, _tenant: TenantId, address: AgentAddress) -> HttpClientConnection:
        self.requested.append(address.node)
        if address.node in self.hangs:
            await asyncio.sleep(1_000)
        if address.node in self.dead:
            raise ServiceUnavailable("dead")
        return cast(HttpClientConnection, Answering())


class Answering:
    status = 200

    def begin(self, method: str, path: str, headers: dict[str, str]) -> None:
        assert (method, path) == ("GET", "/usage")

    async def response(self) -> None:
        pass

    async def body(self, _bytes_max: int) -> bytes:
        return msgspec.json.encode(SUMMARY)

    def close(self) -> None:
        pass


async def test_nodes_are_asked_once_for_some_seconds() -> None:
    fleet = Fleet()
    fleet.add("a", "b")
    assert await fleet.collecting.of(["a", "b", "a"]) == {"a": SUMMARY, "b": SUMMARY}
    await fleet.collecting.of(["a"])
    assert sorted(fleet.requested) == ["a", "b"]
    fleet.now += KEPT_SECONDS
    await fleet.collecting.of(["a"])
    assert fleet.requested.count("a") == 2


async def test_concurrent_requests_share_one_fetch() -> None:
    fleet = Fleet()
    fleet.add("a")
    answers = await asyncio.gather(*(fleet.collecting.of(["a"]) for _ in range(20)))
    assert answers == [{"a": SUMMARY}] * 20
    assert fleet.requested == ["a"]


async def test_a_dead_or_unknown_node_is_missing_and_later_asked_again_without_waiting() -> None:
    fleet = Fleet()
    fleet.add("a", "dead")
    fleet.dead.add("dead")
    assert await fleet.collecting.of(["a", "dead", "unknown"]) == {"a": SUMMARY}
    fleet.now += KEPT_SECONDS
    fleet.dead.clear()
    fleet.hangs.add("dead")
    async with asyncio.timeout(60):
        assert await fleet.collecting.of(["a", "dead"]) == {"a": SUMMARY}
    await asyncio.sleep(0)
    assert fleet.requested.count("dead") == 2
    await fleet.collecting.close()
    fleet.hangs.clear()
    fleet.now += KEPT_SECONDS
    await fleet.collecting.of(["dead"])
    async with asyncio.timeout(60):
        while await fleet.collecting.of(["dead"]) != {"dead": SUMMARY}:  # noqa: ASYNC110 - asked in the background
            await asyncio.sleep(0.01)


async def test_a_node_that_hangs_is_not_waited_for_long() -> None:
    fleet = Fleet()
    fleet.add("a", "hangs")
    fleet.hangs.add("hangs")
    was, usage_collector.WAIT_SECONDS_MAX = usage_collector.WAIT_SECONDS_MAX, 0.5
    try:
        assert await fleet.collecting.of(["a", "hangs"]) == {"a": SUMMARY}
    finally:
        usage_collector.WAIT_SECONDS_MAX = was
    await fleet.collecting.close()
