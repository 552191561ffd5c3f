"""The answers of a zone, by a table."""

from ipaddress import ip_address

import pytest

from alcove.api.ids import TenantId
from alcove.dns.answers import answer
from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, NetworkId, ObjectId
from alcove.dns.names import name_of
from alcove.dns.records import RecordType
from alcove.dns.wire import Rcode
from alcove.dns.zone import DnsZone

HTTP = DnsPort("http", "TCP", 80)


def service(name: str, address: str = "", external_name: str = "") -> DnsService:
    addresses = (ip_address(address),) if address else ()
    return DnsService(ObjectId("default", name), addresses, (HTTP,), external_name)


@pytest.fixture(scope="module")
def zone() -> DnsZone:
    zone = DnsZone(NetworkId(TenantId("acme"), "blue"))
    zone.put_service(service("web", "10.96.0.9"))
    zone.put_service(service("db"))
    endpoints = (
        DnsEndpoint((ip_address("10.0.0.1"),), "db-0"),
        DnsEndpoint((ip_address("10.0.0.2"),), "db-1"),
    )
    zone.put_slice(EndpointSlice(ObjectId("default", "db-x"), "db", (HTTP,), endpoints))
    zone.put_service(service("far", external_name="far.example.org"))
    zone.put_service(service("near", external_name="web.default.svc.cluster.local"))
    zone.put_service(service("twice", external_name="near.default.svc.cluster.local"))
    zone.put_service(service("lost", external_name="nobody.default.svc.cluster.local"))
    zone.put_service(service("loop", external_name="loop.default.svc.cluster.local"))
    zone.put_pod(DnsPod(ObjectId("default", "a"), (ip_address("10.0.0.1"),)))
    return zone


N, X, F = Rcode.NOERROR, Rcode.NXDOMAIN, Rcode.SERVFAIL
CASES = [
    # name below cluster.local, type, code, answers, extra, says no
    ("web.default.svc", RecordType.A, N, 1, 0, False),
    ("web.default.svc", RecordType.AAAA, N, 0, 0, True),
    ("web.default.svc", 65, N, 0, 0, True),
    ("web.default.svc", RecordType.SRV, N, 1, 1, False),
    ("web.default.svc", RecordType.ANY, N, 1, 0, False),
    ("_http._tcp.web.default.svc", RecordType.SRV, N, 1, 1, False),
    ("_tcp.web.default.svc", RecordType.SRV, N, 0, 0, True),
    ("_http._udp.web.default.svc", RecordType.SRV, X, 0, 0, True),
    ("nobody.default.svc", RecordType.A, X, 0, 0, True),
    ("web.other.svc", RecordType.A, X, 0, 0, True),
    ("below.web.default.svc", RecordType.A, X, 0, 0, True),
    ("default.svc", RecordType.A, N, 0, 0, True),
    ("svc", RecordType.A, N, 0, 0, True),
    ("db.default.svc", RecordType.A, N, 2, 0, False),
    ("db-1.db.default.svc", RecordType.A, N, 1, 0, False),
    ("_http._tcp.db.default.svc", RecordType.SRV, N, 2, 2, False),
    ("10-0-0-1.default.pod", RecordType.A, N, 1, 0, False),
    ("10-0-0-9.default.pod", RecordType.A, X, 0, 0, True),
    ("dns-version", RecordType.TXT, N, 1, 0, False),
    ("far.default.svc", RecordType.CNAME, N, 1, 0, False),
    ("near.default.svc", RecordType.A, N, 2, 0, False),
    ("twice.default.svc", RecordType.A, N, 3, 0, False),
    ("near.default.svc", RecordType.AAAA, N, 1, 0, False),
    ("lost.default.svc", RecordType.A, X, 1, 0, False),
    ("loop.default.svc", RecordType.A, F, 0, 0, False),
    ("www.example.org.default.svc", RecordType.A, X, 0, 0, True),
]


@pytest.mark.parametrize(("text", "kind", "rcode", "answers", "extra", "negative"), CASES)
def test_answers(
    zone: DnsZone, text: str, kind: int, rcode: Rcode, answers: int, extra: int, negative: bool
) -> None:
    found = answer(zone, name_of(f"{text}.cluster.local"), kind, isolated=False)
    assert found is not None
    assert (found.rcode, len(found.answers), len(found.extra)) == (rcode, answers, extra)
    assert found.negative_of == (zone.domain if negative else None)


def test_the_zone_answers_for_itself(zone: DnsZone) -> None:
    for kind in (RecordType.SOA, RecordType.NS):
        found = answer(zone, zone.domain, kind, isolated=False)
        assert found is not None
        assert [record.type for record in found.answers] == [kind]


def test_other_names_are_forwarded_unless_there_is_no_egress(zone: DnsZone) -> None:
    name = name_of("www.example.org")
    assert answer(zone, name, RecordType.A, isolated=False) is None
    found = answer(zone, name, RecordType.A, isolated=True)
    assert found is not None
    assert (found.rcode, found.negative_of) == (Rcode.NXDOMAIN, b"\0")


def test_an_alias_of_an_external_name_is_followed_only_with_egress(zone: DnsZone) -> None:
    name = name_of("far.default.svc.cluster.local")
    open_ = answer(zone, name, RecordType.A, isolated=False)
    shut = answer(zone, name, RecordType.A, isolated=True)
    assert open_ is not None
    assert open_.elsewhere == name_of("far.example.org")
    assert shut is not None
    assert (shut.elsewhere, len(shut.answers)) == (None, 1)


def test_addresses_have_names_and_unknown_ones_do_not_exist(zone: DnsZone) -> None:
    found = answer(zone, name_of("9.0.96.10.in-addr.arpa"), RecordType.PTR, isolated=False)
    assert found is not None
    assert found.answers[0].data == name_of("web.default.svc.cluster.local")
    unknown = answer(zone, name_of("77.0.96.10.in-addr.arpa"), RecordType.PTR, isolated=False)
    assert unknown is not None
    assert (unknown.rcode, unknown.negative_of) == (Rcode.NXDOMAIN, name_of("in-addr.arpa"))
