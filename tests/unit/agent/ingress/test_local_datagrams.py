"""UDP ports of the node for processes on it."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from alcove.agent.ingress import local_datagrams
from alcove.agent.ingress.local_datagrams import LocalDatagrams
from alcove.agent.ingress.local_node_ports import LocalService

SERVICE = LocalService(7, "10.0.0.5", 53, "10.0.0.1")


def udp(address: str = "") -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if address:
        sock.bind((address, 0))
    return sock


@contextmanager
def relaying(open_flow: Callable[[LocalService], socket.socket]) -> Iterator[tuple[LocalDatagrams, int]]:
    with udp("127.0.0.1") as free:
        port = free.getsockname()[1]
    ports = LocalDatagrams(open_flow)
    ports.set({("127.0.0.1", port): SERVICE})
    try:
        yield ports, port
    finally:
        ports.close()


async def ask(sock: socket.socket, port: int, word: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(60):
        await loop.sock_sendto(sock, word, ("127.0.0.1", port))
        return await loop.sock_recv(sock, 100)


async def test_each_client_gets_the_answers_to_its_own_datagrams() -> None:
    opened: list[LocalService] = []

    def open_flow(service: LocalService) -> socket.socket:
        opened.append(service)
        sock = udp()
        sock.connect(server.getsockname())
        return sock

    def reverse() -> None:
        data, client = server.recvfrom(100)
        server.sendto(data[::-1], client)

    with udp("127.0.0.1") as server, relaying(open_flow) as (ports, port), udp() as one, udp() as two:
        asyncio.get_running_loop().add_reader(server, reverse)
        assert ports.steps() == {("127.0.0.1", port)}
        assert await ask(one, port, b"abc") == b"cba"
        assert await ask(two, port, b"12") == b"21"
        assert await ask(one, port, b"de") == b"ed"
        assert opened == [SERVICE, SERVICE], "one flow for each client"
        ports.set({})
        assert ports.steps() == frozenset()
        asyncio.get_running_loop().remove_reader(server)


async def test_clients_beyond_the_bound_are_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_flow(_service: LocalService) -> socket.socket:
        sock = udp()
        sock.connect(silent.getsockname())
        return sock

    monkeypatch.setattr(local_datagrams, "FLOWS_MAX", 1)
    with udp("127.0.0.1") as silent, relaying(open_flow) as (_, port), udp() as one, udp() as two:
        loop = asyncio.get_running_loop()
        for client, word in ((one, b"1"), (two, b"2"), (one, b"3")):
            await loop.sock_sendto(client, word, ("127.0.0.1", port))
        async with asyncio.timeout(60):
            heard = [await loop.sock_recv(silent, 10), await loop.sock_recv(silent, 10)]
        assert heard == [b"1", b"3"]


async def test_a_port_in_use_is_left_to_its_owner() -> None:
    with udp("127.0.0.1") as taken:
        ports = LocalDatagrams(lambda _service: udp())
        ports.set({("127.0.0.1", taken.getsockname()[1]): SERVICE})
        assert ports.steps() == frozenset()
        ports.close()
