"""What a process serves about itself."""

import asyncio

import pytest

from alcove.processes.probes import serve_probes
from alcove.testing.claims import free_port


async def ask(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize("ready", [True, False])
async def test_probes(ready: bool) -> None:
    port = free_port()
    async with serve_probes(port, lambda: b"a_metric 1\n", lambda: ready):
        assert (await ask(port, "/metrics")).endswith(b"a_metric 1\n")
        assert b" 200 OK" in await ask(port, "/healthz")
        assert (b" 200 OK" in await ask(port, "/readyz")) is ready
        assert b" 404 " in await ask(port, "/other")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        assert await reader.read() == b""


async def test_without_a_port_nothing_is_served() -> None:
    async with serve_probes(None, lambda: b"", lambda: True):
        pass
