"""Export of flows as JSON lines: each change once, in a bounded file."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from alcove.agent.network import flow_export
from alcove.agent.network.flow_export import FlowExporter, JsonLinesFile, append
from alcove.api.node_api import FlowEnd, FlowReport

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


async def test_a_flow_is_written_again_when_it_had_more_packets_whatever_happens_to_other_exports(
    tmp_path: Path,
) -> None:
    flows, asked, path = [FLOW], [], tmp_path / "flows.jsonl"

    async def read(since: float) -> Sequence[FlowReport]:
        asked.append(since)
        return flows

    async def fail(_flows: Sequence[FlowReport]) -> None:
        raise OSError("no space left on device")

    exporter = FlowExporter(read, [fail, JsonLinesFile("n1", path).write], lambda: 1_700_000_200.0)
    for _ in range(2):
        await exporter.export()
    flows[0] = replace(FLOW, packets_sent=4)
    flows.append(replace(FLOW, verdict="dropped", reason="NoRoute", message="line\nbreak"))
    await exporter.export()
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert [each.get("packetsSent") for each in lines] == [3, 4, 3]
    assert lines[2]["message"] == "line\nbreak", "one line for each, whatever is in it"
    assert (lines[0]["node"], lines[0]["start"]) == ("n1", "2023-11-14T22:13:20Z")
    assert path.stat().st_mode & 0o777 == 0o600
    assert max(asked) < 1_700_000_200.0, "readings overlap"


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
