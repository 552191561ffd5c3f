"""Webhook calls over real TLS to a real server: connections, certificate authorities, limits."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from alcove.api import destinations
from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.buffers import BufferLimits, TenantBuffers
from alcove.apiserver.outbound import webhooks
from alcove.apiserver.outbound.dialer import OUT_OF_BOUNDS
from alcove.apiserver.outbound.errors import TooManyCalls, WebhookError
from alcove.apiserver.outbound.webhooks import CALLS_PER_TENANT_MAX, Webhooks, read_client
from alcove.http.pool import PoolLimits
from alcove.testing.webhook_calls import webhook_dialer
from alcove.testing.webhook_server import WebhookServer

ACME, OTHER = TenantId("acme"), TenantId("other")
LOOPBACK = destinations.networks(["127.0.0.0/8"])
BODY = orjson.dumps({"hello": "world"})


@pytest.fixture
def echo() -> Iterator[WebhookServer]:
    with WebhookServer(lambda _path, review: review, "hook.example.com") as server:
        yield server


def caller(*networks: destinations.Network) -> Webhooks:
    return Webhooks(webhook_dialer(networks))


async def post(webhooks: Webhooks, client: Any, tenant: TenantId = ACME, seconds: float = 5) -> bytes:
    async with webhooks.call(tenant, client, BODY, timeout_seconds=seconds) as response:
        return response


async def test_one_connection_serves_many_calls_of_one_tenant(echo: WebhookServer) -> None:
    calls = caller(*LOOPBACK)
    for _ in range(5):
        assert await post(calls, echo.client("/x")) == BODY
    assert (echo.connections, echo.paths[0]) == (1, "/x?timeout=5s")
    assert await post(calls, echo.client(), OTHER) == BODY
    assert echo.connections == 2
    calls.close()


async def test_a_connection_closed_in_between_is_opened_anew(echo: WebhookServer) -> None:
    calls = caller(*LOOPBACK)
    await post(calls, echo.client())
    (idle,) = (each for waiting in calls._idle._idle.values() for each in waiting)
    idle.connection.transport.abort()
    await asyncio.sleep(0)
    assert await post(calls, echo.client()) == BODY
    assert echo.connections == 2
    calls.close()


async def test_idle_connections_are_bounded_and_end(
    echo: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = PoolLimits(per_target_max=4, total_max=256, idle_seconds_max=0.5)
    monkeypatch.setattr(webhooks, "POOL", pool)
    calls = caller(*LOOPBACK)
    async with asyncio.timeout(60):
        # The first may be closed before the last has its response.
        while len(calls._idle) < 4:
            await asyncio.gather(*(post(calls, echo.client()) for _ in range(12)))
    assert len(calls._idle) == 4
    async with asyncio.timeout(60):
        while len(calls._idle):  # noqa: ASYNC110 - closing sends no notification
            await asyncio.sleep(0.05)


async def test_a_certificate_for_another_name_is_refused(echo: WebhookServer) -> None:
    client = {"url": f"https://localhost:{echo.port}/", "caBundle": echo.authority}
    with pytest.raises(WebhookError, match="tls: failed to verify certificate"):
        await post(caller(*LOOPBACK), client)
    assert not echo.seen


@pytest.mark.parametrize("bundle", ["!!", "aGVsbG8=", ""])
async def test_an_invalid_certificate_authority_is_rejected(echo: WebhookServer, bundle: str) -> None:
    client = {**echo.client(), "caBundle": bundle}
    with pytest.raises(WebhookError, match=r"root certificates|failed to verify"):
        await post(caller(*LOOPBACK), client)


async def test_redirects_are_not_followed() -> None:
    with WebhookServer(lambda _path, _review: 302) as server:
        with pytest.raises(WebhookError, match="answered with status 302, not 200"):
            await post(caller(*LOOPBACK), server.client())
        assert len(server.seen) == 1


async def test_a_closed_port_raises_a_webhook_error() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # Nobody else gets the port meanwhile, and nobody listens.
        port = deaf.getsockname()[1]
        with pytest.raises(WebhookError, match=f'^Post "https://127.0.0.1:{port}/.timeout=5s": .*refused'):
            await post(caller(*LOOPBACK), {"url": f"https://127.0.0.1:{port}/"})


async def test_an_unfinished_handshake_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        calls = caller(*LOOPBACK)
        with pytest.raises(WebhookError, match="context deadline exceeded"):
            await post(calls, {"url": f"https://127.0.0.1:{port}/"}, seconds=0.2)
        assert not calls._calls


async def test_concurrent_calls_of_a_tenant_are_limited() -> None:
    hold = threading.Event()

    def respond(_path: str, review: Any) -> Any:
        hold.wait(60)
        return review

    with WebhookServer(respond) as server:
        calls = caller(*LOOPBACK)
        under_way = [
            asyncio.create_task(post(calls, server.client(), seconds=30)) for _ in range(CALLS_PER_TENANT_MAX)
        ]
        try:
            await asyncio.sleep(0)
            with pytest.raises(TooManyCalls):
                await post(calls, server.client())
            other = asyncio.create_task(post(calls, server.client(), OTHER))
        finally:
            hold.set()
        assert await other == BODY
        assert await asyncio.gather(*under_way) == [BODY] * CALLS_PER_TENANT_MAX
        assert not calls._calls
        calls.close()


async def test_what_webhooks_answer_counts_for_their_tenant() -> None:
    answer = orjson.dumps("x" * 100_000)
    buffers = TenantBuffers(BufferLimits(tenant_bytes_max=150_000))
    with WebhookServer(lambda _path, _review: answer) as server:
        calls = Webhooks(webhook_dialer(LOOPBACK), buffers=buffers)
        async with calls.call(ACME, server.client(), BODY, timeout_seconds=30) as response:
            assert response == answer
            assert buffers.of(ACME) == len(BODY) + len(answer)
            with pytest.raises(TooManyRequests, match='too many bytes for tenant "acme"'):
                await post(calls, server.client(), seconds=30)
            assert await post(calls, server.client(), OTHER, seconds=30) == answer
            assert buffers.of(ACME) == len(BODY) + len(answer)
        assert buffers.of(ACME) == buffers.of(OTHER) == 0
        assert not calls._calls
        calls.close()


async def test_where_nothing_is_allowed_only_ring0_gets_through(echo: WebhookServer) -> None:
    calls = caller()
    with pytest.raises(WebhookError, match=OUT_OF_BOUNDS):
        await post(calls, echo.client())
    assert not echo.connections
    assert await post(calls, echo.client(), SYSTEM) == BODY
    calls.close()


@pytest.mark.parametrize(
    ("client", "host", "path"),
    [
        ({"url": "https://example.com"}, "example.com", "/"),
        ({"url": "https://example.com:8443/a/b"}, "example.com:8443", "/a/b"),
        ({"url": "https://[2001:db8::1]:444/"}, "[2001:db8::1]:444", "/"),
        ({"url": "https://example.com/a b\u00e9?"}, "example.com", "/a%20b%C3%A9"),
        ({"service": {"namespace": "n", "name": "s"}}, "s.n.svc:443", "/"),
        ({"service": {"namespace": "n", "name": "s", "port": 8443, "path": "x"}}, "s.n.svc:8443", "/x"),
    ],
)
def test_client_configurations(client: dict[str, Any], host: str, path: str) -> None:
    endpoint = read_client(client)
    assert (endpoint.host, endpoint.path) == (host, path)


@pytest.mark.parametrize("url", ["", "http://example.com", "https://", "https://a:b/", "https://[::1"])
def test_urls_that_lead_nowhere(url: str) -> None:
    with pytest.raises(WebhookError):
        read_client({"url": url})
