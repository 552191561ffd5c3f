"""Following flows on a node: each once, bounded, and what is left out is told."""

import asyncio

import msgspec
import pytest

from alcove.agent.server import flow_stream
from alcove.agent.server.flow_stream import LINE_FLOWS_MAX, lines, send
from alcove.api.node_api import FlowEnd, FlowReport, NodeFlows


def flow(port: int) -> FlowReport:
    ends = FlowEnd("10.0.0.5", port), FlowEnd("10.0.0.9", 80)
    return FlowReport("red", "own", "egress", "forwarded", "TCP", *ends, start=0.0, end=float(port))


class Client:
    """Takes lines when it is let."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[NodeFlows] = asyncio.Queue()
        self.reads = asyncio.Event()

    async def write(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        await self.reads.wait()
        if line != b"\n":
            self.taken.put_nowait(msgspec.json.decode(line, type=NodeFlows))


class Table:
    """A follower of flows that are all there again at each reading, as those of a node's first one may be."""

    def __init__(self, *flows: FlowReport) -> None:
        self.flows = list(flows)
        self.reads: asyncio.Queue[int] = asyncio.Queue()

    def poll(self) -> float:
        return 0.0

    async def read(self) -> NodeFlows:
        self.reads.put_nowait(len(self.flows))
        return NodeFlows(tuple(self.flows), 0)


async def test_a_reader_that_is_too_slow_gets_the_newest_and_is_told_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_stream, "FOLLOW_SECONDS", 0.0)
    client, table = Client(), Table(flow(1), flow(2))
    sending = asyncio.create_task(send(client.write, table, 5))
    try:
        assert await table.reads.get() == 2
        table.flows += [flow(port) for port in range(3, 40)]  # While the client does not read.
        client.reads.set()
        first, second = await client.taken.get(), await client.taken.get()
        assert ([each.source.port for each in first.flows], first.left_out) == ([1, 2], 0)
        assert ([each.source.port for each in second.flows], second.left_out) == ([35, 36, 37, 38, 39], 32)
        for _ in range(3):
            await table.reads.get()
        assert client.taken.empty(), "each flow comes once"
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


def test_lines_are_bounded_and_the_first_says_what_is_missing() -> None:
    flows = tuple(flow(port) for port in range(LINE_FLOWS_MAX + 1))
    found = [msgspec.json.decode(line, type=NodeFlows) for line in lines(NodeFlows(flows, 7))]
    assert [(len(each.flows), each.left_out) for each in found] == [(LINE_FLOWS_MAX, 7), (1, 0)]
    assert lines(NodeFlows()) == [b"\n"]
