"""kubectl port-forward, over SPDY in a WebSocket, SPDY alone, and a plain WebSocket."""

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest

from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import Caller, LocalServer

pytestmark = [pytest.mark.root]

SPDY = {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
SERVES = {
    "name": "main",
    "command": ["sh", "-c", "head -c 3000000 /dev/urandom >/tmp/big; httpd -f -p 8080 -h /tmp"],
}


@asynccontextmanager
async def forwarded(
    rig: NodeRig, caller: Caller, pod: str, port: int, env: dict[str, str]
) -> AsyncIterator[int]:
    """The local port that kubectl listens at, and forwards."""
    process = await rig.begin(caller, "port-forward", pod, f":{port}", env=env)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("Forwarding from 127.0.0.1:"), line
        yield int(line.split(":")[1].split()[0])
    finally:
        process.terminate()
        await process.communicate()


async def serves(rig: NodeRig, caller: Caller, pod: str) -> None:
    """Returns when somebody listens in the pod."""
    script = "until grep -q ' 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done"
    done = await rig.kubectl(caller, "exec", pod, "--", "sh", "-c", script)
    assert done.code == 0, done.errors


async def answered(port: int, request: bytes) -> bytes:
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        output = await reader.read()
        writer.close()
    return output


@pytest.mark.parametrize("env", [{}, SPDY], ids=["tunnelled", "spdy"])
async def test_many_connections_through_one_forwarding(
    rig: NodeRig, server: LocalServer, env: dict[str, str]
) -> None:
    await rig.pod("acme", "web", [SERVES])
    acme = server.as_tenant("acme")
    await serves(rig, acme, "web")
    wanted = await rig.kubectl(acme, "exec", "web", "--", "md5sum", "/tmp/big")
    async with forwarded(rig, acme, "web", 8080, env) as port:
        requests = [answered(port, b"GET /big HTTP/1.0\r\n\r\n") for _ in range(8)]
        answers = await asyncio.gather(*requests)
    bodies = {hashlib.md5(answer.partition(b"\r\n\r\n")[2]).hexdigest() for answer in answers}
    assert bodies == {wanted.out.split()[0]}


@pytest.mark.parametrize("env", [{}, SPDY], ids=["tunnelled", "spdy"])
async def test_a_port_that_nobody_listens_at(rig: NodeRig, server: LocalServer, env: dict[str, str]) -> None:
    await rig.pod("acme", "deaf", [{"name": "main"}])
    process = await rig.begin(server.as_tenant("acme"), "port-forward", "deaf", ":9999", env=env)
    assert process.stdout is not None
    async with asyncio.timeout(60):
        port = int((await process.stdout.readline()).decode().split(":")[1].split()[0])
        with suppress(ConnectionResetError):  # If kubectl closes it before it has read.
            assert await answered(port, b"hello") == b""
        if process.returncode is None:
            process.terminate()
        _, errors = await process.communicate()
    assert b"error forwarding port 9999 to pod deaf" in errors
    assert b"Connection refused" in errors


async def test_a_plain_websocket(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "plain", [SERVES])
    await serves(rig, server.as_tenant("acme"), "plain")
    acme = server.as_tenant("acme")
    context = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
    context.load_cert_chain(acme.kubeconfig.with_suffix(".pem"))
    host, port = server.address
    url = f"https://{host}:{port}/api/v1/namespaces/default/pods/plain/portforward?ports=8080"
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, ssl=context, protocols=["v4.channel.k8s.io"]) as socket,
    ):
        first = [await socket.receive_bytes() for _ in range(2)]
        assert first == [b"\x00" + (8080).to_bytes(2, "little"), b"\x01" + (8080).to_bytes(2, "little")]
        await socket.send_bytes(b"\x00GET /none HTTP/1.0\r\n\r\n")
        assert (await socket.receive_bytes()).startswith(b"\x00HTTP/1.1 404")
        # The pod's side has closed: who reads to the end gets there.
        async with asyncio.timeout(60):
            async for message in socket:
                assert message.data[:1] == b"\x00"
        assert socket.close_code == 1000
