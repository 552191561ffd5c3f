"""Node ports at the address of the node itself."""

import asyncio
import socket

from alcove.agent.ingress.local_node_ports import LocalNodePorts, LocalService
from alcove.testing.claims import free_port


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    data = await reader.read()
    writer.write(data[::-1])
    writer.close()


async def ask(port: int, word: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(word)
    writer.write_eof()
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_port_leads_to_its_service_until_it_does_not() -> None:
    asked: list[LocalService] = []

    async def dial(service: LocalService) -> socket.socket:
        asked.append(service)
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, behind.sockets[0].getsockname())
        return sock

    behind = await asyncio.start_server(echo, "127.0.0.1", 0)
    steps, port = LocalNodePorts(dial), free_port()
    here = ("127.0.0.1", port)
    await steps.set({here: LocalService(7, "10.96.0.9", 80)})
    assert await ask(port, b"abc") == b"cba", "half closed, it is answered all the same"
    await steps.set({here: LocalService(8, "10.96.0.10", 81)})
    assert await ask(port, b"abc") == b"cba"
    assert asked == [LocalService(7, "10.96.0.9", 80), LocalService(8, "10.96.0.10", 81)]
    await steps.set({})
    assert steps.steps() == frozenset()
    try:
        await ask(port, b"abc")
    except OSError:
        pass
    else:
        raise AssertionError("it leads nowhere any more")
    behind.close()


async def test_a_port_in_use_is_left_to_its_owner() -> None:
    async def nobody(_service: LocalService) -> socket.socket:
        raise ConnectionRefusedError

    steps, other = LocalNodePorts(nobody), free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = {("127.0.0.1", taken.getsockname()[1]): LocalService(7, "10.96.0.9", 80)}
        wanted[("127.0.0.1", other)] = LocalService(7, "10.96.0.9", 81)
        await steps.set(wanted)
        assert steps.steps() == {("127.0.0.1", other)}
    try:
        assert await ask(other, b"x") == b""
    except ConnectionResetError:
        pass
    steps.close()
