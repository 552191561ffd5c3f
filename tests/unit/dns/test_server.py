"""The server on real sockets, over UDP and TCP, for several networks at once."""

import asyncio
import fcntl
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address

import pytest
import uvloop
from dnslib import QTYPE, DNSHeader, DNSQuestion, DNSRecord

from alcove.api.ids import TenantId
from alcove.dataplane import namespaces
from alcove.dns.model import DnsEndpoint, DnsService, EndpointSlice, NetworkId, ObjectId
from alcove.dns.server import DnsServer, bind
from alcove.dns.tcp import CONNECTIONS_MAX
from alcove.dns.upstream import Upstream
from alcove.dns.zone import DnsZone
from alcove.testing import needs
from alcove.testing.loop_holds import LoopHolds
from alcove.testing.resolver import loopback, scripted

NAME = "web.default.svc.cluster.local"
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
Peer = tuple[str, int]


def make_zone(tenant: str, address: str) -> DnsZone:
    zone = DnsZone(NetworkId(TenantId(tenant), "default"))
    zone.put_service(DnsService(ObjectId("default", "web"), (ip_address(address),)))
    endpoints = tuple(DnsEndpoint((ip_address("10.1.0.0") + number,)) for number in range(300))
    zone.put_service(DnsService(ObjectId("default", "big")))
    zone.put_slice(EndpointSlice(ObjectId("default", "big-x"), "big", (), endpoints))
    return zone


@asynccontextmanager
async def serving(zone: DnsZone, upstream: Upstream | None = None) -> AsyncIterator[tuple[DnsServer, Peer]]:
    async with DnsServer(upstream) as server:
        sockets = loopback()
        peer = sockets.udp[0].getsockname()
        await server.serve(zone, sockets, way_out=upstream is not None)
        yield server, peer


def question(text: str = NAME, number: int = 1) -> bytes:
    return bytes(DNSRecord(DNSHeader(id=number), questions=[DNSQuestion(text, QTYPE.A)]).pack())


async def ask(peer: Peer, packet: bytes) -> DNSRecord:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
        sock.connect(peer)
        sock.send(packet)
        async with asyncio.timeout(60):
            return DNSRecord.parse(await loop.sock_recv(sock, 4_096))


def framed(packet: bytes) -> bytes:
    return len(packet).to_bytes(2, "big") + packet


async def read_framed(reader: asyncio.StreamReader) -> DNSRecord:
    async with asyncio.timeout(60):
        length = int.from_bytes(await reader.readexactly(2), "big")
        return DNSRecord.parse(await reader.readexactly(length))


def addresses(response: DNSRecord) -> list[str]:
    return [str(rr.rdata) for rr in response.rr]


async def test_each_network_gets_its_own_answer_to_the_same_question() -> None:
    async with DnsServer() as server:
        peers = []
        for number, tenant in enumerate(("acme", "bolt")):
            sockets = loopback()
            peers.append(sockets.udp[0].getsockname())
            await server.serve(make_zone(tenant, f"10.96.0.{number}"), sockets, way_out=False)
        for _ in range(3):
            assert [addresses(await ask(peer, question())) for peer in peers] == [
                ["10.96.0.0"],
                ["10.96.0.1"],
            ]


async def test_many_datagrams_at_once_are_all_answered() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (server, peer):
        responses = await asyncio.gather(*(ask(peer, question(number=number)) for number in range(200)))
        assert [each.header.id for each in responses] == list(range(200))
        assert server.counters(server.networks()[0]).answered == 200


async def test_rubbish_does_not_stop_the_server() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (_, peer):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for rubbish in (b"", b"\0", b"\xff" * 50, question()[:20], b"\0" * 4_096):
                sock.sendto(rubbish, peer)
        assert addresses(await ask(peer, question())) == ["10.96.0.9"]


async def test_what_does_not_fit_is_cut_and_whole_over_tcp() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (_, peer):
        packet = question("big.default.svc.cluster.local")
        assert (await ask(peer, packet)).header.tc == 1
        reader, writer = await asyncio.open_connection(*peer)
        writer.write(framed(packet))
        response = await read_framed(reader)
        assert (response.header.tc, len(response.rr)) == (0, 300)
        writer.close()


async def test_several_questions_on_one_connection_in_pieces() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (_, peer):
        reader, writer = await asyncio.open_connection(*peer)
        stream = b"".join(framed(question(number=number)) for number in range(5))
        for at in range(0, len(stream), 7):
            writer.write(stream[at : at + 7])
            await writer.drain()
        assert [(await read_framed(reader)).header.id for _ in range(5)] == list(range(5))
        writer.close()


async def test_queries_in_a_row_over_tcp_do_not_hold_the_loop() -> None:
    """All that had been received were answered at once."""
    count = 4_000
    async with serving(make_zone("acme", "10.0.0.1")) as (_, peer):
        reader, writer = await asyncio.open_connection(*peer)
        async with LoopHolds() as holds:
            writer.write(b"".join(framed(question(number=number)) for number in range(count)))
            writer.write_eof()
            await holds.begin_anew()
            async with asyncio.timeout(60):
                received = await reader.read(-1)
        assert received.count(b"\x0a\x00\x00\x01") == count, "all are answered, then the connection ends"
        assert holds.longest_ms < 10
        writer.close()


async def test_rubbish_over_tcp_ends_the_connection() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (_, peer):
        for rubbish in (b"\0\0", framed(b"\0"), framed(question()[:2] + b"\x80" + question()[3:])):
            reader, writer = await asyncio.open_connection(*peer)
            writer.write(rubbish)
            async with asyncio.timeout(60):
                assert await reader.read() == b""
            writer.close()


async def test_one_connection_too_many_closes_the_most_silent() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (_, peer):
        streams = [await asyncio.open_connection(*peer) for _ in range(CONNECTIONS_MAX)]
        for reader, writer in streams:
            writer.write(framed(question()))
            await read_framed(reader)
        late_reader, late_writer = await asyncio.open_connection(*peer)
        late_writer.write(framed(question()))
        assert addresses(await read_framed(late_reader)) == ["10.96.0.9"]
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await streams[0][0].readexactly(1)
        streams[1][1].write(framed(question()))
        await read_framed(streams[1][0])
        for _, writer in (*streams, (late_reader, late_writer)):
            writer.close()


async def test_one_who_never_reads_is_not_answered_without_end() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (server, peer):
        _, writer = await asyncio.open_connection(*peer)
        flood = framed(question("big.default.svc.cluster.local")) * 20_000
        writer.write(flood)
        for _ in range(200):
            await asyncio.sleep(0)
        await ask(peer, question())
        assert server.counters(server.networks()[0]).answered < 5_000
        writer.close()


async def test_external_names_over_udp_and_tcp_also_after_the_client_closed_its_side() -> None:
    async with (
        scripted() as world,
        serving(make_zone("acme", "10.96.0.9"), Upstream([world.resolver])) as (server, peer),
    ):
        assert addresses(await ask(peer, question("www.example.org"))) == ["198.51.100.7"]
        reader, writer = await asyncio.open_connection(*peer)
        writer.write(framed(question("other.example.org")))
        writer.write_eof()
        assert addresses(await read_framed(reader)) == ["198.51.100.7"]
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        writer.close()
        server.set_egress(server.networks()[0], False)
        assert (await ask(peer, question("www.example.org"))).header.rcode == 3


async def test_a_stopped_network_is_silent_and_leaves_no_socket() -> None:
    async with serving(make_zone("acme", "10.96.0.9")) as (server, peer):
        reader, writer = await asyncio.open_connection(*peer)
        writer.write(framed(question()))
        await read_framed(reader)
        [network] = server.networks()
        server.stop(network)
        server.stop(network)
        assert server.networks() == ()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*peer)
        async with asyncio.timeout(60):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
        writer.close()
        again = bind([peer[0]], peer[1])
        await server.serve(make_zone("acme", "10.96.0.10"), again, way_out=False)
        assert addresses(await ask(peer, question())) == ["10.96.0.10"]


async def test_a_pending_query_is_dropped_when_its_network_stops() -> None:
    async with (
        scripted() as world,
        serving(make_zone("acme", "10.96.0.9"), Upstream([world.resolver])) as (server, peer),
    ):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(question("www.example.org"), peer)
        await ask(peer, question())
        server.stop(server.networks()[0])


async def test_sockets_that_cannot_be_had_leave_none_behind() -> None:
    taken = loopback()
    peer = taken.udp[0].getsockname()
    with pytest.raises(OSError, match="in use"):
        bind(["127.0.0.2", peer[0]], peer[1])
    again = bind(["127.0.0.2"], peer[1])
    for sock in (*again.udp, *again.tcp, *taken.udp, *taken.tcp):
        sock.close()


@contextmanager
def namespace(name: str) -> Iterator[int]:
    """A network namespace with its loopback up."""
    descriptor = namespaces.make(name)
    try:
        with namespaces.inside(descriptor), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            up = struct.pack("16sh22x", b"lo", IFF_UP)
            fcntl.ioctl(control, SIOCSIFFLAGS, up)
        yield descriptor
    finally:
        os.close(descriptor)
        namespaces.remove(name)


@pytest.mark.root
@pytest.mark.skipif(bool(needs.namespaces()), reason=needs.namespaces())
async def test_the_namespace_of_a_socket_selects_the_network_even_when_addresses_are_equal() -> None:
    """Asked in the namespace, at the same address and port, from the same address and port."""
    with namespace(f"alcove-dns-a{os.getpid()}") as one, namespace(f"alcove-dns-b{os.getpid()}") as two:
        async with DnsServer() as server:
            askers = []
            for tenant, inside in (("acme", one), ("bolt", two)):
                with namespaces.inside(inside):
                    sockets = bind(["127.0.0.1"], 53)
                    asker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
                    asker.bind(("127.0.0.1", 5_353))
                askers.append(asker)
                address = "10.96.0.1" if tenant == "acme" else "10.96.0.2"
                await server.serve(make_zone(tenant, address), sockets, way_out=False)
            answers = []
            for asker in askers:
                asker.sendto(question(), ("127.0.0.1", 53))
                async with asyncio.timeout(60):
                    reply = await asyncio.get_running_loop().sock_recv(asker, 4_096)
                answers.append(addresses(DNSRecord.parse(reply)))
                asker.close()
            assert answers == [["10.96.0.1"], ["10.96.0.2"]]


SCENARIOS = (
    test_many_datagrams_at_once_are_all_answered,
    test_several_questions_on_one_connection_in_pieces,
    test_one_connection_too_many_closes_the_most_silent,
    test_one_who_never_reads_is_not_answered_without_end,
    test_external_names_over_udp_and_tcp_also_after_the_client_closed_its_side,
    test_a_stopped_network_is_silent_and_leaves_no_socket,
    test_a_pending_query_is_dropped_when_its_network_stops,
)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_on_the_loop_that_the_agent_runs_on(
    scenario: Callable[[], Coroutine[None, None, None]],
) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
