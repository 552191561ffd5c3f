"""An upstream DNS server for tests: real sockets on loopback, scripted answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

from dnslib import QTYPE, RR, A, DNSRecord

from alcove.dns.server import DnsSockets, bind
from alcove.dns.upstream import Resolver

TRIES_MAX = 50

Script = Callable[[DNSRecord], list[bytes]]
"""Returns the datagrams to send for a query."""


def one_address(query: DNSRecord) -> list[bytes]:
    """The same address for every name."""
    reply = query.reply()
    reply.add_answer(RR(query.q.qname, QTYPE.A, ttl=60, rdata=A("198.51.100.7")))
    return [bytes(reply.pack())]


class ScriptedResolver(asyncio.DatagramProtocol):
    """Answers by script over UDP, and always with `one_address` over TCP."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[DNSRecord] = []
        self.asked_by_tcp: list[DNSRecord] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = DNSRecord.parse(data)
        self.asked.append(query)
        for reply in self.script(query):
            self._transport.sendto(reply, addr)

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(2), "big")
        query = DNSRecord.parse(await reader.readexactly(length))
        self.asked_by_tcp.append(query)
        [reply] = one_address(query)
        writer.write(len(reply).to_bytes(2, "big") + reply)
        writer.close()

    @property
    def resolver(self) -> Resolver:
        host, port = self._transport.get_extra_info("sockname")
        return Resolver(host, port)


def loopback() -> DnsSockets:
    """Sockets on loopback, UDP and TCP on the same free port."""
    for _ in range(TRIES_MAX):
        probe = bind(["127.0.0.1"], 0)
        port = probe.udp[0].getsockname()[1]
        for sock in (*probe.udp, *probe.tcp):
            sock.close()
        with suppress(OSError):
            return bind(["127.0.0.1"], port)
    raise OSError("no port is free for both UDP and TCP")


@asynccontextmanager
async def scripted(script: Script = one_address) -> AsyncIterator[ScriptedResolver]:
    loop = asyncio.get_running_loop()
    sockets = loopback()
    transport, protocol = await loop.create_datagram_endpoint(
        lambda: ScriptedResolver(script), sock=sockets.udp[0]
    )
    listener = await asyncio.start_server(protocol.stream, sock=sockets.tcp[0])
    try:
        yield protocol
    finally:
        transport.close()
        listener.close()
