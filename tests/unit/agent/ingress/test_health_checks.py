"""Health checks of load balancers, asked over real sockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from alcove.agent.ingress import health_checks
from alcove.agent.ingress.health_checks import HealthCheck, HealthCheckServer
from alcove.api.ids import TenantId
from alcove.testing.claims import free_port

HERE = "127.0.0.1"


def check(endpoints: int, port: int = 30123, tenant: str = "acme") -> HealthCheck:
    return HealthCheck(port, TenantId(tenant), "shop", "web", endpoints)


@asynccontextmanager
async def serving(*checks: HealthCheck, synced: bool = True) -> AsyncIterator[HealthCheckServer]:
    server = HealthCheckServer()
    server.is_synced = synced
    await server.set({(HERE, each.port): each for each in checks})
    try:
        yield server
    finally:
        server.close()


async def asked(
    port: int, request: bytes = b"GET /healthz HTTP/1.1\r\nHost: n\r\n\r\n"
) -> tuple[int, str, Any]:
    """Status, head and body of the answer."""
    reader, writer = await asyncio.open_connection(HERE, port)
    writer.write(request)
    async with asyncio.timeout(30):
        answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head.lower(), body


@pytest.mark.parametrize(
    ("endpoints", "synced", "status"), [(2, True, 200), (0, True, 503), (2, False, 503), (0, False, 503)]
)
async def test_the_answer_is_that_of_kube_proxy(endpoints: int, synced: bool, status: int) -> None:
    port = free_port()
    async with serving(check(endpoints, port), synced=synced):
        found, head, body = await asked(port)
    assert found == status
    assert "content-type: application/json" in head
    assert f"x-load-balancing-endpoint-weight: {endpoints}" in head
    assert json.loads(body) == {
        "service": {"namespace": "shop", "name": "web"},
        "localEndpoints": endpoints,
        "serviceProxyHealthy": synced,
    }


async def test_the_answer_follows_the_endpoints_and_ends_with_the_service() -> None:
    port = free_port()
    async with serving(check(1, port)) as server:
        assert (await asked(port))[0] == 200
        await server.set({(HERE, port): check(0, port)})
        assert (await asked(port))[0] == 503
        await server.set({})
        with pytest.raises(ConnectionRefusedError):
            await asked(port)


async def test_a_head_request_has_no_body_and_a_wrong_one_is_refused() -> None:
    port = free_port()
    async with serving(check(1, port)):
        status, _, body = await asked(port, b"HEAD / HTTP/1.1\r\nHost: n\r\n\r\n")
        assert (status, body) == (200, "")
        assert (await asked(port, b"nonsense\r\n\r\n"))[0] == 400
        assert (await asked(port, b"GET / HTTP/1.1\r\nHost: n\r\nA: " + b"a" * 9000 + b"\r\n\r\n"))[0] == 431
        status, _, _ = await asked(port, b"POST / HTTP/1.1\r\nHost: n\r\nContent-Length: 4\r\n\r\nbody")
        assert status == 200


async def test_idle_clients_of_one_tenants_port_do_not_keep_out_those_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health_checks, "CONNECTIONS_PER_TENANT_MAX", 3)
    ports = free_port(), free_port()
    checks = check(1, ports[0], "hostile"), check(1, ports[1], "quiet")
    async with serving(*checks):
        idle = [await asyncio.open_connection(HERE, ports[0]) for _ in range(3)]
        # The server has accepted them once it resets a fourth.
        async with asyncio.timeout(30):
            while True:
                reader, writer = await asyncio.open_connection(HERE, ports[0])
                try:
                    writer.write(b"GET / HTTP/1.1\r\nHost: n\r\n\r\n")
                    if not await reader.read():
                        break
                except ConnectionError:
                    break
                finally:
                    writer.close()
        assert (await asked(ports[1]))[0] == 200
        for _, writer in idle:
            writer.close()


async def test_a_port_in_use_is_left_to_its_owner() -> None:
    with socket.create_server((HERE, 0)) as taken:
        async with serving(check(1, taken.getsockname()[1]), check(1, other := free_port())):
            assert (await asked(other))[0] == 200
