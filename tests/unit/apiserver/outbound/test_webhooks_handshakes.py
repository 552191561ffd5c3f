"""Handshakes with webhooks of hostile tenants: costly certificates, endless messages, large CA bundles."""

import asyncio
import base64
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest

from alcove.api import destinations
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.outbound.authorities import CA_BUNDLE_BYTES_MAX
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.testing.hostile_tls import HostileTlsServer
from alcove.testing.webhook_calls import webhook_dialer
from alcove.testing.webhook_server import WebhookServer

ACME, OTHER = TenantId("acme"), TenantId("other")


@pytest.fixture(scope="module")
def hostile() -> Iterator[HostileTlsServer]:
    with HostileTlsServer(40) as server:
        yield server


def client_of(server: HostileTlsServer) -> Object:
    return {
        "url": f"https://127.0.0.1:{server.port}/",
        "caBundle": base64.b64encode(server.authority).decode(),
    }


@pytest.fixture
async def calls() -> AsyncIterator[Webhooks]:
    webhooks = Webhooks(webhook_dialer(destinations.networks(["127.0.0.0/8"])))
    yield webhooks
    webhooks.close()


async def post(calls: Webhooks, tenant: TenantId, client: Object, body: bytes = b"{}") -> bytes:
    async with calls.call(tenant, client, body, timeout_seconds=60) as response:
        return response


async def fails(calls: Webhooks, client: Object) -> str:
    with pytest.raises(WebhookError) as raised:
        await post(calls, ACME, client)
    return str(raised.value)


async def test_costly_certificates_are_not_verified_on_the_event_loop(
    calls: Webhooks, hostile: HostileTlsServer
) -> None:
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.load_verify_locations(cadata=hostile.authority.decode())
    handshakes, webhook_calls = [], []
    for _ in range(4):
        started = time.thread_time()
        with (
            socket.create_connection(("127.0.0.1", hostile.port)) as sock,
            client_context.wrap_socket(sock, server_hostname="127.0.0.1"),
        ):
            handshakes.append(time.thread_time() - started)
        started = time.thread_time()
        assert "EOF" in await fails(calls, client_of(hostile)), "the handshake itself succeeds"
        webhook_calls.append(time.thread_time() - started)
    # The cheapest of each, since whatever else runs on the machine makes both cost more.
    assert min(webhook_calls) < min(handshakes) / 2, (
        "a call costs the loop's thread less than half a handshake"
    )


async def test_costly_handshakes_of_a_tenant_do_not_delay_another(
    calls: Webhooks, hostile: HostileTlsServer
) -> None:
    costly = [asyncio.create_task(fails(calls, client_of(hostile))) for _ in range(4)]
    with WebhookServer(lambda _path, review: review) as server:
        assert await post(calls, OTHER, server.client()) == b"{}"
    assert not all(each.done() for each in costly)
    for each in costly:
        assert "EOF" in await each


async def test_a_handshake_without_end_fails(calls: Webhooks) -> None:
    """A client ignores requests to begin a handshake while it is in one."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write((b"\x16\x03\x03\x00\x04" + bytes(4)) * 1000)
                await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        message = await fails(calls, {"url": f"https://127.0.0.1:{port}/"})
        assert "handshake has too many messages" in message


async def test_a_large_ca_bundle_is_refused(calls: Webhooks) -> None:
    with WebhookServer(lambda _path, review: review) as server:
        pem = base64.b64decode(server.authority)
        bundle = pem * (CA_BUNDLE_BYTES_MAX // len(pem))
        client = server.client() | {"caBundle": base64.b64encode(bundle).decode()}
        assert await post(calls, ACME, client) == b"{}"
        client["caBundle"] = base64.b64encode(bundle + pem).decode()
        assert f"caBundle has more than {CA_BUNDLE_BYTES_MAX} bytes" in await fails(calls, client)


async def test_a_large_review_and_its_response_pass(calls: Webhooks) -> None:
    body = b'{"a":"' + b"x" * (2 << 20) + b'"}'
    with WebhookServer(lambda _path, review: review) as server:
        assert await post(calls, ACME, server.client(), body) == body
