"""Records of services and pods, by tables."""

from collections import Counter
from ipaddress import ip_address
from struct import pack

import pytest

from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, ObjectId
from alcove.dns.names import name_of
from alcove.dns.records import (
    ADDRESSES_MAX,
    SRV_TARGETS_MAX,
    DnsRecord,
    RecordType,
    pod_records,
    service_records,
)

DOMAIN = name_of("cluster.local")
WEB = ObjectId("default", "web")
HTTP, DNS = DnsPort("http", "TCP", 80), DnsPort("dns", "UDP", 53)
Shown = tuple[str, str, str]


def shown(record: DnsRecord) -> Shown:
    """A record as one reads it: name without the domain, type, data."""
    return _text(record.name), RecordType(record.type).name, _data(record)


def _text(name: bytes) -> str:
    parts = []
    while name[0]:
        parts.append(name[1 : name[0] + 1].decode())
        name = name[name[0] + 1 :]
    return ".".join(parts).removesuffix(".cluster.local")


def _data(record: DnsRecord) -> str:
    match record.type:
        case RecordType.A | RecordType.AAAA:
            return str(ip_address(record.data))
        case RecordType.SRV:
            numbers = [int.from_bytes(record.data[at : at + 2], "big") for at in (0, 2, 4)]
            return f"{numbers} {_text(record.data[6:])}"
        case _:
            return _text(record.data)


def endpoint(address: str, hostname: str = "", ready: bool = True) -> DnsEndpoint:
    return DnsEndpoint((ip_address(address),), hostname, ready)


def part(*endpoints: DnsEndpoint, ports: tuple[DnsPort, ...] = (HTTP,)) -> EndpointSlice:
    return EndpointSlice(ObjectId("default", "web-x"), "web", ports, endpoints)


CASES: dict[str, tuple[DnsService, list[EndpointSlice], set[Shown]]] = {
    "cluster IP": (
        DnsService(WEB, (ip_address("10.96.0.9"),), (HTTP, DnsPort("", "TCP", 81))),
        [part(endpoint("10.0.0.1"))],
        {
            ("web.default.svc", "A", "10.96.0.9"),
            ("9.0.96.10.in-addr.arpa", "PTR", "web.default.svc"),
            ("web.default.svc", "SRV", "[0, 50, 80] web.default.svc"),
            ("web.default.svc", "SRV", "[0, 50, 81] web.default.svc"),
            ("_http._tcp.web.default.svc", "SRV", "[0, 100, 80] web.default.svc"),
        },
    ),
    "both families": (
        DnsService(WEB, (ip_address("10.96.0.9"), ip_address("fd00::9"))),
        [],
        {
            ("web.default.svc", "A", "10.96.0.9"),
            ("web.default.svc", "AAAA", "fd00::9"),
            ("9.0.96.10.in-addr.arpa", "PTR", "web.default.svc"),
            ("9." + "0." * 27 + "0.0.d.f.ip6.arpa", "PTR", "web.default.svc"),
        },
    ),
    "headless": (
        DnsService(WEB, ports=(HTTP,)),
        [part(endpoint("10.0.0.1", "web-0"), endpoint("10.0.0.2"), endpoint("10.0.0.3", ready=False))],
        {
            ("web.default.svc", "A", "10.0.0.1"),
            ("web.default.svc", "A", "10.0.0.2"),
            ("web-0.web.default.svc", "A", "10.0.0.1"),
            ("10-0-0-2.web.default.svc", "A", "10.0.0.2"),
            ("1.0.0.10.in-addr.arpa", "PTR", "web-0.web.default.svc"),
            ("2.0.0.10.in-addr.arpa", "PTR", "10-0-0-2.web.default.svc"),
            ("web.default.svc", "SRV", "[0, 50, 80] web-0.web.default.svc"),
            ("web.default.svc", "SRV", "[0, 50, 80] 10-0-0-2.web.default.svc"),
            ("_http._tcp.web.default.svc", "SRV", "[0, 50, 80] web-0.web.default.svc"),
            ("_http._tcp.web.default.svc", "SRV", "[0, 50, 80] 10-0-0-2.web.default.svc"),
        },
    ),
    "headless that publishes what is not ready, ports without names": (
        DnsService(WEB, publish_not_ready=True),
        [part(endpoint("10.0.0.3", "db", ready=False), ports=(DnsPort("", "TCP", 80),))],
        {
            ("web.default.svc", "A", "10.0.0.3"),
            ("db.web.default.svc", "A", "10.0.0.3"),
            ("3.0.0.10.in-addr.arpa", "PTR", "db.web.default.svc"),
            ("web.default.svc", "SRV", "[0, 100, 80] db.web.default.svc"),
        },
    ),
    "headless without endpoints": (DnsService(WEB), [], set()),
    "external": (
        DnsService(WEB, external_name="db.example.org"),
        [],
        {("web.default.svc", "CNAME", "db.example.org")},
    ),
    "external to what is no name": (DnsService(WEB, external_name="a..b"), [], set()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_records_of_services(case: str) -> None:
    service, slices, expected = CASES[case]
    assert {shown(record) for record in service_records(DOMAIN, WEB, service, slices)} == expected


def test_the_same_endpoint_in_two_slices_counts_once() -> None:
    slices = [part(endpoint("10.0.0.1", "web-0")), part(endpoint("10.0.0.1", "web-0"))]
    records = service_records(DOMAIN, WEB, DnsService(WEB), slices)
    assert DnsRecord(name_of("web.default.svc.cluster.local"), RecordType.A, bytes([10, 0, 0, 1])) in records
    [weight] = {record.data[2:4] for record in records if record.type == RecordType.SRV}
    assert weight == pack(">H", 100)


def test_a_headless_service_has_no_more_names_than_fit_into_answers() -> None:
    """Ports times endpoints: two small objects may have millions of them."""
    endpoints = [endpoint(f"10.{number >> 8}.{number & 255}.1") for number in range(5_000)]
    ports = tuple(DnsPort(f"p{number}", "TCP", 1 + number) for number in range(5_000))
    records = service_records(DOMAIN, WEB, DnsService(WEB), [part(*endpoints, ports=ports)])
    counts = Counter(record.type for record in records)
    assert counts[RecordType.PTR] == ADDRESSES_MAX and counts[RecordType.A] == 2 * ADDRESSES_MAX
    assert counts[RecordType.SRV] == 2 * SRV_TARGETS_MAX
    many = DnsService(WEB, (ip_address("10.96.0.9"),), 2 * ports)
    assert len(service_records(DOMAIN, WEB, many, [])) <= 2 + 2 * SRV_TARGETS_MAX


def test_a_port_whose_name_leaves_no_room_for_the_underscore_has_no_name() -> None:
    port = DnsPort("p" * 63, "TCP", 80)
    records = service_records(DOMAIN, WEB, DnsService(WEB, (ip_address("10.96.0.9"),), (port,)), [])
    assert {record.name for record in records if record.type == RecordType.SRV} == {
        name_of("web.default.svc.cluster.local")
    }


def test_a_service_published_under_an_alias() -> None:
    alias = ObjectId("default", "kubernetes")
    records = service_records(DOMAIN, alias, DnsService(WEB, (ip_address("10.96.0.1"),)), [])
    assert ("1.0.96.10.in-addr.arpa", "PTR", "kubernetes.default.svc") in {
        shown(record) for record in records
    }


def test_records_of_pods() -> None:
    pod = DnsPod(ObjectId("default", "a"), (ip_address("10.0.0.1"), ip_address("fd00::1")))
    assert {shown(record) for record in pod_records(DOMAIN, pod)} == {
        ("10-0-0-1.default.pod", "A", "10.0.0.1"),
        ("fd00--1.default.pod", "AAAA", "fd00::1"),
    }
