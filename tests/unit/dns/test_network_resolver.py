"""Responses to datagrams, parsed by another library."""

import time
from ipaddress import ip_address, ip_network

import pytest
from dnslib import CLASS, EDNS0, QTYPE, DNSHeader, DNSQuestion, DNSRecord
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, NetworkId, ObjectId
from alcove.dns.network_resolver import KEPT_BYTES_MAX, NetworkResolver, PendingQuery
from alcove.dns.records import ADDRESSES_MAX
from alcove.dns.upstream import Upstream
from alcove.dns.wire import Rcode
from alcove.dns.zone import DnsZone
from alcove.testing.resolver import scripted

WEB = ObjectId("default", "web")
NAME = "web.default.svc.cluster.local"


def make_zone() -> DnsZone:
    zone = DnsZone(NetworkId(TenantId("acme"), "blue"), [ip_network("10.0.0.0/8")])
    zone.put_service(DnsService(WEB, (ip_address("10.96.0.9"),), (DnsPort("http", "TCP", 80),)))
    zone.put_service(DnsService(ObjectId("default", "db")))
    zone.put_service(DnsService(ObjectId("default", "far"), external_name="www.example.org"))
    zone.put_service(DnsService(ObjectId("default", "big")))
    zone.put_slice(_slice("db", 3))
    zone.put_slice(_slice("big", 200))
    zone.put_pod(DnsPod(ObjectId("default", "a"), (ip_address("10.0.0.1"),)))
    return zone


def _slice(service: str, count: int) -> EndpointSlice:
    endpoints = tuple(
        DnsEndpoint((ip_address("10.1.0.0") + number,), f"{service}-{number}") for number in range(count)
    )
    return EndpointSlice(
        ObjectId("default", f"{service}-x"), service, (DnsPort("http", "TCP", 80),), endpoints
    )


@pytest.fixture
def network() -> NetworkResolver:
    return NetworkResolver(make_zone(), None, time.monotonic)


def question(text: str, kind: str = "A", *, edns: EDNS0 | None = None, number: int = 7) -> bytes:
    record = DNSRecord(
        DNSHeader(id=number, bitmap=0x0100), questions=[DNSQuestion(text, getattr(QTYPE, kind))]
    )
    if edns is not None:
        record.add_ar(edns)
    return bytes(record.pack())


def ask(network: NetworkResolver, packet: bytes, hot: bool | None = None) -> DNSRecord:
    """The reply, read by the library; `hot` says by which way it has to come."""
    reply = network.hot(packet)
    if hot is not None:
        assert (reply is not None) == hot
    response = reply or network.datagram(packet)
    assert isinstance(response, bytes)
    return DNSRecord.parse(response)


def addresses(response: DNSRecord) -> list[str]:
    return [str(rr.rdata) for rr in response.rr]


def test_the_second_time_the_bytes_are_known(network: NetworkResolver) -> None:
    for number, hot in ((1, False), (2, True), (3, True)):
        response = ask(network, question(NAME, number=number), hot)
        assert response.header.id == number
        assert addresses(response) == ["10.96.0.9"]
        assert (response.header.aa, response.header.ra, response.header.rd, response.header.rcode) == (
            1,
            0,
            1,
            0,
        )
    assert (network.counters.hot, network.counters.answered) == (2, 3)


def test_the_case_of_a_query_is_returned_also_from_the_cache(network: NetworkResolver) -> None:
    ask(network, question(NAME))
    response = ask(network, question("WEB.dEfault.svc.cluster.LOCAL"), hot=True)
    assert str(response.q.qname) == "WEB.dEfault.svc.cluster.LOCAL."
    assert [str(rr.rname) for rr in response.rr] == ["WEB.dEfault.svc.cluster.LOCAL."]


def test_types_that_differ_by_a_letters_case_differ(network: NetworkResolver) -> None:
    """Type 65 is the letter A, type 97 the letter a."""
    for kind in (65, 97):
        packet = bytes(DNSRecord(DNSHeader(id=1), questions=[DNSQuestion(NAME, kind)]).pack())
        for hot in (False, True):
            assert ask(network, packet, hot).q.qtype == kind


def test_a_change_is_seen_by_the_next_question(network: NetworkResolver) -> None:
    for _ in range(2):
        ask(network, question(NAME))
    network.zone.put_service(DnsService(WEB, (ip_address("10.96.0.10"),)))
    assert addresses(ask(network, question(NAME), hot=False)) == ["10.96.0.10"]
    network.zone.drop_service(WEB)
    assert ask(network, question(NAME)).header.rcode == Rcode.NXDOMAIN


def test_no_such_name_and_no_such_type_are_distinguished_and_carry_the_soa(network: NetworkResolver) -> None:
    missing = ask(network, question("nobody.default.svc.cluster.local"))
    empty = ask(network, question(NAME, "AAAA"))
    assert (missing.header.rcode, empty.header.rcode) == (Rcode.NXDOMAIN, Rcode.NOERROR)
    for response in (missing, empty):
        assert response.rr == []
        [soa] = response.auth
        assert (str(soa.rname), soa.rtype, soa.ttl) == ("cluster.local.", QTYPE.SOA, 5)
        assert soa.rdata.times[4] == 5


def test_names_that_do_not_exist_take_no_memory(network: NetworkResolver) -> None:
    for number in range(100):
        ask(network, question(f"n{number}.default.svc.cluster.local"))
    assert (len(network._hot), len(network._replies)) == (0, 0)


def test_addresses_of_a_headless_service_take_turns(network: NetworkResolver) -> None:
    packet = question("db.default.svc.cluster.local")
    firsts = [addresses(ask(network, packet))[0] for _ in range(6)]
    assert set(firsts) == {"10.1.0.0", "10.1.0.1", "10.1.0.2"}
    assert sorted(addresses(ask(network, packet))) == ["10.1.0.0", "10.1.0.1", "10.1.0.2"]


def test_many_addresses_are_cut_take_turns_and_come_whole_over_tcp(network: NetworkResolver) -> None:
    packet = question("big.default.svc.cluster.local")
    response = ask(network, packet)
    again = ask(network, packet, hot=False)
    assert response.header.tc == 1
    assert 20 < len(response.rr) < 200
    assert addresses(response)[0] != addresses(again)[0]
    reply = network.message(packet)
    assert isinstance(reply, bytes)
    whole = DNSRecord.parse(reply)
    assert (whole.header.tc, len(whole.rr)) == (0, 200)


def test_a_larger_datagram_is_taken_if_offered_but_never_one_that_breaks(network: NetworkResolver) -> None:
    plain, large, huge = (
        ask(network, question("big.default.svc.cluster.local", edns=edns))
        for edns in (None, EDNS0(udp_len=1_000), EDNS0(udp_len=65_000))
    )
    assert len(plain.rr) < len(large.rr) < len(huge.rr) < 200
    assert len(huge.pack()) <= 1_232


def test_srv_brings_addresses_along(network: NetworkResolver) -> None:
    response = ask(network, question("_http._tcp.web.default.svc.cluster.local", "SRV"))
    [srv] = response.rr
    assert (srv.rdata.priority, srv.rdata.weight, srv.rdata.port, str(srv.rdata.target)) == (
        0,
        100,
        80,
        f"{NAME}.",
    )
    assert [(str(rr.rname), str(rr.rdata)) for rr in response.ar] == [(f"{NAME}.", "10.96.0.9")]


def test_reverse_names(network: NetworkResolver) -> None:
    response = ask(network, question("9.0.96.10.in-addr.arpa", "PTR"))
    assert addresses(response) == [f"{NAME}."]
    assert ask(network, question("8.0.96.10.in-addr.arpa", "PTR")).header.rcode == Rcode.NXDOMAIN


def test_queries_with_edns_options_are_answered_and_not_cached(network: NetworkResolver) -> None:
    packet = bytearray(question(NAME, edns=EDNS0(udp_len=1_232)))
    packet[-2:] = b"\0\x0c"
    packet += b"\0\x0a\0\x08" + b"cookie!!"
    response = ask(network, bytes(packet), hot=False)
    assert addresses(response) == ["10.96.0.9"]
    assert len(network._hot) == 0


def test_a_name_with_a_nul_in_a_label_is_no_other_name(network: NetworkResolver) -> None:
    ask(network, question(NAME))
    tail = question(NAME)[12:]
    hostile = question(NAME)[:12] + b"\x02a\0" + tail
    assert ask(network, hostile, hot=False).header.rcode == Rcode.NXDOMAIN
    assert ask(network, hostile, hot=False).header.rcode == Rcode.NXDOMAIN


REFUSED = {
    "another class": (bytes(DNSRecord(DNSHeader(id=1), questions=[DNSQuestion(NAME, 1, CLASS.CH)]).pack()), Rcode.REFUSED),
    "the whole zone": (question("cluster.local", "AXFR", number=1), Rcode.REFUSED),
    "another kind of request": (b"\0\1\x28\0" + question(NAME)[4:], Rcode.NOTIMP),
    "two questions": (b"\0\1\1\0\0\2" + question(NAME)[6:] + question(NAME)[12:], Rcode.FORMERR),
    "rubbish": (b"\0\1\1\0\0\1" + b"\xff" * 40, Rcode.FORMERR),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(network: NetworkResolver, case: str) -> None:
    packet, rcode = REFUSED[case]
    for _ in range(2):
        response = ask(network, packet)
        assert (response.header.id, response.header.qr, response.header.rcode) == (1, 1, rcode)


def test_a_newer_version_of_options_is_refused_as_such(network: NetworkResolver) -> None:
    response = ask(network, question(NAME, edns=EDNS0(version=1)))
    assert (response.ar[0].edns_rcode, response.rr) == (1, [])


def test_a_reply_gets_no_reply(network: NetworkResolver) -> None:
    packet = bytearray(question(NAME))
    packet[2] |= 0x80
    assert network.hot(bytes(packet)) is None
    assert network.datagram(bytes(packet)) is None


def test_without_egress_other_names_do_not_exist(network: NetworkResolver) -> None:
    response = ask(network, question("www.example.org"))
    assert (response.header.rcode, response.header.ra) == (Rcode.NXDOMAIN, 0)
    assert str(response.auth[0].rname) == "."


async def test_with_egress_other_names_are_forwarded_and_cached() -> None:
    async with scripted() as server:
        network = NetworkResolver(make_zone(), Upstream([server.resolver]), time.monotonic)
        packet = question("WWW.example.org", edns=EDNS0(udp_len=1_232))
        pending = network.datagram(packet)
        assert isinstance(pending, PendingQuery)
        for reply in (await network.finish(pending), network.datagram(packet)):
            assert isinstance(reply, bytes)
            response = DNSRecord.parse(reply)
            assert (addresses(response), response.header.ra, response.header.aa) == (["198.51.100.7"], 1, 0)
            assert str(response.rr[0].rname) == "WWW.example.org."
        assert len(server.asked) == 1
        network.set_upstream(None)
        assert ask(network, packet).header.rcode == Rcode.NXDOMAIN


async def test_an_external_service_is_an_alias_with_its_addresses() -> None:
    async with scripted() as server:
        network = NetworkResolver(make_zone(), Upstream([server.resolver]), time.monotonic)
        packet = question("far.default.svc.cluster.local")
        pending = network.datagram(packet)
        assert isinstance(pending, PendingQuery)
        for reply in (await network.finish(pending), network.datagram(packet)):
            assert isinstance(reply, bytes)
            response = DNSRecord.parse(reply)
            assert addresses(response) == ["www.example.org.", "198.51.100.7"]
            assert [str(rr.rname) for rr in response.rr] == [
                "far.default.svc.cluster.local.",
                "www.example.org.",
            ]


async def test_reverse_names_of_private_addresses_never_leave() -> None:
    async with scripted() as server:
        network = NetworkResolver(make_zone(), Upstream([server.resolver]), time.monotonic)
        assert ask(network, question("1.0.168.192.in-addr.arpa", "PTR")).header.rcode == Rcode.NXDOMAIN
        assert isinstance(network.datagram(question("8.8.8.8.in-addr.arpa", "PTR")), PendingQuery)


def test_the_cache_is_bounded(network: NetworkResolver) -> None:
    for number in range(400):
        network.zone.put_service(
            DnsService(ObjectId("default", f"s{number}"), (ip_address("10.97.0.0") + number,))
        )
    for round_ in range(4):
        for number in range(400):
            edns = EDNS0(udp_len=1_000 + round_)
            ask(network, question(f"s{number}.default.svc.cluster.local", edns=edns))
            assert network._kept_bytes <= KEPT_BYTES_MAX
    kept = sum(map(len, network._hot)) + sum(len(hot.tail) for hot in network._hot.values())
    assert 0 < kept <= KEPT_BYTES_MAX


@settings(max_examples=3 * settings().max_examples)
@given(st.data())
def test_every_response_is_well_formed(data: st.DataObject) -> None:
    network = NetworkResolver(_ZONE, None, time.monotonic)
    whole = question(
        data.draw(st.sampled_from([NAME, "big.default.svc.cluster.local", "x.org"])), edns=EDNS0()
    )
    packet = bytearray(data.draw(st.one_of(st.binary(max_size=100), st.just(whole))))
    for _ in range(data.draw(st.integers(0, 3))):
        if packet:
            packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
    for _ in range(2):
        reply = network.hot(bytes(packet)) or network.datagram(bytes(packet))
        assert not isinstance(reply, PendingQuery)
        if reply is not None:
            assert reply[:2] == packet[:2]
            assert reply[2] & 0x80
            assert len(reply) <= 1_232


_ZONE = make_zone()


def test_thousands_of_records_of_one_name_are_answered_and_take_little_time() -> None:
    """They raised an error in the server's callback, after 0.1 s for each query."""
    zone = make_zone()
    ports = tuple(DnsPort(f"p{number}", "TCP", 80 + number) for number in range(3))
    endpoints = tuple(
        DnsEndpoint((ip_address("10.2.0.0") + number,), f"h{number}") for number in range(ADDRESSES_MAX)
    )
    zone.put_slice(EndpointSlice(ObjectId("default", "big-y"), "big", ports, endpoints))
    network = NetworkResolver(zone, None, time.monotonic)
    name = "big.default.svc.cluster.local"
    first = set()
    began = time.thread_time()
    for number in range(20):
        for kind in ("A", "SRV"):
            packet = question(name, kind, number=number)
            short = DNSRecord.parse(_reply(network.datagram(packet)))
            assert short.header.tc and short.rr
            if kind == "A":
                first.add(str(short.rr[0].rdata))
    assert time.thread_time() - began < 1.0
    assert len(first) == 20, "other addresses each time"
    for kind in ("A", "SRV"):
        long = _reply(network.message(question(name, kind)))
        assert 65_000 < len(long) <= 65_535
        assert len(DNSRecord.parse(long).rr) > 800


def _reply(found: bytes | PendingQuery | None) -> bytes:
    assert isinstance(found, bytes)
    return found
