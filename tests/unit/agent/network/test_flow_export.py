"""Export of flows as JSON lines: each change once, in a bounded file."""

from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from alcove.agent.network import flow_export
from alcove.agent.network.flow_export import FlowExporter, JsonLinesFile, append
from alcove.api.node_api import FlowEnd, FlowReport, NodeFlows
from alcove.api.objects import Object

FLOW = FlowReport(
    tenant="red",
    network="own",
    direction="egress",
    verdict="forwarded",
    protocol="TCP",
    source=FlowEnd("10.0.0.5", 4000, "Pod", "default", "web"),
    destination=FlowEnd("10.0.0.9", 5432),
    start=1_700_000_000.0,
    end=1_700_000_100.0,
    packets_sent=3,
)


DROP = replace(FLOW, verdict="dropped", reason="NoRoute", message="line\nbreak")
NOW = 1_700_000_200.0


class ScriptedNode:
    """A node whose flows the test decides."""

    def __init__(self) -> None:
        self.opened, self.table = NodeFlows(), NodeFlows()
        self.asked: list[float] = []

    def poll(self) -> float:
        return 1.0

    async def read(self) -> NodeFlows:
        found, self.opened = self.opened, NodeFlows()
        return found

    async def totals(self, since: float) -> NodeFlows:
        self.asked.append(since)
        return self.table


def lines_of(path: Path) -> list[Object]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def test_a_flow_is_written_when_it_is_new_and_when_it_had_more_packets_whatever_happens_to_other_exports(
    tmp_path: Path,
) -> None:
    node, path = ScriptedNode(), tmp_path / "flows.jsonl"
    full, file = JsonLinesFile("n1", tmp_path / "missing" / "flows"), JsonLinesFile("n1", path)
    exporter = FlowExporter(node, node.totals, [full, file], lambda: NOW)
    node.opened = NodeFlows((FLOW,))
    await exporter.export_new()
    node.table = NodeFlows((FLOW,))
    await exporter.export_totals()
    node.table = NodeFlows((replace(FLOW, packets_sent=4), DROP))
    await exporter.export_totals()
    # More packets of known drops are left to the next totals: otherwise there would be a line a second.
    node.opened = NodeFlows((replace(DROP, packets_sent=9),))
    await exporter.export_new()
    lines = lines_of(path)
    assert [each.get("packetsSent") for each in lines] == [3, 4, 3]
    assert lines[2]["message"] == "line\nbreak", "one line for each, whatever is in it"
    assert (lines[0]["node"], lines[0]["start"]) == ("n1", "2023-11-14T22:13:20Z")
    assert path.stat().st_mode & 0o777 == 0o600
    assert max(node.asked) < NOW, "readings overlap"
    assert (file.sent, file.dropped, full.sent, full.dropped) == (3, 0, 0, 3)


async def test_the_next_flow_says_how_many_were_left_out(tmp_path: Path) -> None:
    node, path = ScriptedNode(), tmp_path / "flows.jsonl"
    exporter = FlowExporter(node, node.totals, [JsonLinesFile("n1", path)], lambda: NOW)
    node.opened = NodeFlows(left_out=7)
    await exporter.export_new()
    assert not path.exists()
    node.opened = NodeFlows((FLOW, replace(FLOW, source=FlowEnd("10.0.0.5", 4001))), left_out=5)
    await exporter.export_new()
    node.table = NodeFlows((replace(FLOW, packets_sent=4),))
    await exporter.export_totals()
    assert [each.get("lost", 0) for each in lines_of(path)] == [12, 0, 0]
    assert exporter.left_out == 12


def test_a_full_file_takes_the_place_of_the_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_export, "FILE_BYTES_MAX", 10)
    path = tmp_path / "flows.jsonl"
    for line in (b"one111\n", b"two222\n", b"three\n"):
        append(path, line)
    assert path.read_bytes() == b"three\n"
    assert (tmp_path / "flows.jsonl.1").read_bytes() == b"two222\n"
    assert len(list(tmp_path.iterdir())) == 2
