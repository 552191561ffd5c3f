"""Flows sent to a receiver of OTLP over real HTTP: one that takes them, one that is slow, refuses, or is gone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from alcove.agent.network import otlp_sender
from alcove.agent.network.otlp_sender import OtlpCollector, OtlpSender
from alcove.api.node_api import FlowEnd, FlowReport
from alcove.testing.server import wait_until

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
FLOWS = [replace(FLOW, source=FlowEnd("10.0.0.5", port)) for port in range(1, 1001)]


class Receiver:
    """Decodes requests as a collector does; `statuses` are those of the next responses, then 200."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.tokens: set[str] = set()
        self.statuses: list[int] = []
        self.rejected = 0
        self.url = ""
        self.open = asyncio.Event()
        self.open.set()

    async def take(self, request: web.Request) -> web.Response:
        await self.open.wait()
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return web.Response(status=status)
        self.tokens.add(request.headers.get("Authorization", ""))
        assert request.content_type == "application/x-protobuf"
        found = ExportLogsServiceRequest.FromString(await request.read())
        for record in found.resource_logs[0].scope_logs[0].log_records:
            [port] = [each.value.int_value for each in record.attributes if each.key == "source.port"]
            self.ports.append(port)
        partial = ExportLogsPartialSuccess(rejected_log_records=self.rejected)
        return web.Response(body=ExportLogsServiceResponse(partial_success=partial).SerializeToString())


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/v1/logs", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        receiver.open.set()
        await runner.cleanup()


async def run_until_settled(sender: OtlpSender, count: int) -> None:
    running = asyncio.create_task(sender.run())
    try:
        await asyncio.to_thread(wait_until, lambda: sender.sent + sender.dropped >= count)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_every_flow_arrives_once_with_the_configured_headers(
    receiver: Receiver, tmp_path: Path
) -> None:
    headers = tmp_path / "headers"
    headers.write_text("Authorization: Bearer x\n\n")
    sender = OtlpSender(OtlpCollector.parse(receiver.url, headers=headers), "n1")
    await sender.offer(FLOWS)
    await run_until_settled(sender, len(FLOWS))
    assert receiver.ports == [each.source.port for each in FLOWS]
    assert (sender.sent, sender.dropped, receiver.tokens) == (len(FLOWS), 0, {"Bearer x"})


async def test_what_a_collector_cannot_take_now_is_sent_again_and_what_it_refuses_is_counted(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_sender, "RETRY_SECONDS", 0.01)
    receiver.statuses, receiver.rejected = [503, 429, 200, 400, 200], 1
    sender = OtlpSender(OtlpCollector.parse(receiver.url), "n1")
    await sender.offer(FLOWS)
    await run_until_settled(sender, len(FLOWS))
    # Four batches: the first at its third attempt, the second refused, and of each that was taken one record.
    assert (sender.sent, sender.dropped) == (747, 253)
    assert receiver.ports == [*range(1, 251), *range(501, 1001)]


async def test_a_collector_that_hangs_or_is_gone_costs_nothing_but_the_oldest_flows(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("QUEUE_MAX", 300), ("RETRY_SECONDS", 0.01), ("SEND_SECONDS_MAX", 0.2)):
        monkeypatch.setattr(otlp_sender, name, value)
    receiver.open.clear()
    for url in (receiver.url, "http://127.0.0.1:1"):
        sender = OtlpSender(OtlpCollector.parse(url), "n1")
        running = asyncio.create_task(sender.run())
        await sender.offer(FLOWS)
        assert (sender.sent, sender.dropped) == (0, 700), "without waiting for anybody"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    sender = OtlpSender(OtlpCollector.parse(receiver.url), "n1")
    await sender.offer(FLOWS[:10])
    running = asyncio.create_task(sender.run())
    try:
        await asyncio.sleep(0)
        receiver.open.set()
        await asyncio.to_thread(wait_until, lambda: sender.sent)
        assert (sender.sent, sender.dropped) == (10, 0)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    "url", ["collector:4318", "ftp://c", "http://", "http://u@c:1", "http://c:1/?q=1", ""]
)
def test_urls_that_are_none_of_a_collector_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="must be http"):
        OtlpCollector.parse(url)


def test_a_collector_is_named_by_its_host_or_by_a_whole_url(tmp_path: Path) -> None:
    plain, whole = OtlpCollector.parse("http://c"), OtlpCollector.parse("https://c:9/otel/v1/logs")
    assert (plain.host, plain.port, plain.path, plain.tls) == ("c", 4318, "/v1/logs", None)
    assert (whole.port, whole.path) == (9, "/otel/v1/logs") and whole.tls is not None
    bad = tmp_path / "headers"
    bad.write_text("Authorization Bearer\n")
    with pytest.raises(ValueError, match="Name: value"):
        OtlpCollector.parse("http://c", headers=bad)
