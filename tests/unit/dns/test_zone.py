"""A zone that is changed step by step equals the zone that is built at once."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.dns.model import DnsEndpoint, DnsPod, DnsPort, DnsService, EndpointSlice, NetworkId, ObjectId
from alcove.dns.names import Name, name_of
from alcove.dns.records import RecordType
from alcove.dns.zone import DnsZone
from alcove.dns.zone_parts import RecordSets

NETWORK = NetworkId(TenantId("acme"), "blue")
IDS = st.builds(
    ObjectId,
    st.sampled_from(["default", "kube-system"]),
    st.sampled_from(["web", "kubernetes", "kubernetes-blue", "kube-dns-blue"]),
)
ADDRESSES = st.lists(
    st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1"]).map(ip_address), max_size=2, unique=True
).map(tuple)
PORTS = st.lists(st.sampled_from([DnsPort("http", "TCP", 80), DnsPort("", "UDP", 53)]), max_size=2).map(tuple)
SERVICES = st.builds(
    DnsService, IDS, ADDRESSES, PORTS, st.sampled_from(["", "", "example.org"]), st.booleans()
)
ENDPOINTS = st.builds(DnsEndpoint, ADDRESSES, st.sampled_from(["", "web-0"]), st.booleans())
SLICES = st.builds(
    EndpointSlice,
    st.builds(ObjectId, st.just("default"), st.sampled_from(["s1", "s2"])),
    st.sampled_from(["web", "kubernetes-blue"]),
    PORTS,
    st.lists(ENDPOINTS, max_size=3).map(tuple),
)  # fmt: skip
PODS = st.builds(DnsPod, IDS, ADDRESSES)
CHANGES = st.lists(
    st.one_of(SERVICES, SLICES, PODS, st.tuples(st.sampled_from(["service", "slice", "pod"]), IDS)),
    max_size=20,
)
Change = DnsService | EndpointSlice | DnsPod | tuple[str, ObjectId]


def apply(zone: DnsZone, change: Change) -> None:
    match change:
        case DnsService():
            zone.put_service(change)
        case EndpointSlice():
            zone.put_slice(change)
        case DnsPod():
            zone.put_pod(change)
        case ("service", each):
            zone.drop_service(each)
        case ("slice", each):
            zone.drop_slice(each)
        case (_, each):
            zone.drop_pod(each)


def contents(zone: DnsZone) -> dict[Name, RecordSets]:
    return {name: zone.find(name) or {} for name in zone._index}


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(CHANGES)
def test_a_zone_is_what_was_last_put_into_it(changes: list[Change]) -> None:
    zone = DnsZone(NETWORK)
    left: dict[tuple[str, ObjectId], Change] = {}
    for change in changes:
        apply(zone, change)
        match change:
            case tuple():
                left.pop(change, None)
            case _:
                kind = {DnsService: "service", EndpointSlice: "slice", DnsPod: "pod"}[type(change)]
                left[kind, change.id] = change
    fresh = DnsZone(NETWORK)
    for change in left.values():
        apply(fresh, change)
    assert contents(zone) == contents(fresh)
    assert zone._below == fresh._below
    assert {name: set(found) for name, found in zone._index.items()} == {
        name: set(found) for name, found in fresh._index.items()
    }


@given(CHANGES)
def test_an_emptied_zone_holds_nothing(changes: list[Change]) -> None:
    zone = DnsZone(NETWORK)
    for change in changes:
        apply(zone, change)
    for change in changes:
        if not isinstance(change, tuple):
            zone.drop_service(change.id)
            zone.drop_slice(change.id)
            zone.drop_pod(change.id)
    assert contents(zone) == contents(DnsZone(NETWORK))
    assert not zone._services
    assert not zone._slices
    assert not zone._slices_of
    assert len(zone._parts) == 1


def test_every_change_is_a_new_version_and_no_change_is_none() -> None:
    zone = DnsZone(NETWORK)
    service = DnsService(ObjectId("default", "web"), (ip_address("10.96.0.9"),))
    before = zone.version
    zone.put_service(service)
    assert zone.version > before
    after = zone.version
    zone.put_service(service)
    zone.drop_pod(ObjectId("default", "nobody"))
    assert zone.version == after


def test_the_networks_own_service_stands_behind_the_usual_name() -> None:
    zone = DnsZone(NETWORK)
    usual = name_of("kubernetes.default.svc.cluster.local")
    zone.put_service(DnsService(ObjectId("default", "kubernetes"), (ip_address("10.0.0.66"),)))
    assert _addresses(zone, usual) == ["10.0.0.66"]
    zone.put_service(DnsService(ObjectId("default", "kubernetes-blue"), (ip_address("10.96.0.1"),)))
    assert _addresses(zone, usual) == ["10.96.0.1"]
    assert _addresses(zone, name_of("kubernetes-blue.default.svc.cluster.local")) == ["10.96.0.1"]
    zone.drop_service(ObjectId("default", "kubernetes-blue"))
    assert _addresses(zone, usual) == ["10.0.0.66"]
    zone.drop_service(ObjectId("default", "kubernetes"))
    assert zone.find(usual) is None


def _addresses(zone: DnsZone, name: Name) -> list[str]:
    sets = zone.find(name) or {}
    return [str(ip_address(record.data)) for record in sets.get(RecordType.A, ())]


def test_names_above_names_are_there_without_records() -> None:
    zone = DnsZone(NETWORK)
    zone.put_service(
        DnsService(ObjectId("default", "web"), (ip_address("10.96.0.9"),), (DnsPort("http", "TCP", 80),))
    )
    for text in (
        "cluster.local",
        "svc.cluster.local",
        "default.svc.cluster.local",
        "_tcp.web.default.svc.cluster.local",
    ):
        assert zone.find(name_of(text)) is not None, text
    assert zone.find(name_of("other.svc.cluster.local")) is None
    zone.drop_service(ObjectId("default", "web"))
    assert zone.find(name_of("default.svc.cluster.local")) is None


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("cluster.local", True),
        ("anything.at.all.cluster.local", True),
        ("cluster.local.example.org", False),
        ("example.org", False),
        (".", False),
        ("1.2.0.192.in-addr.arpa", True),
        ("1.113.0.203.in-addr.arpa", True),
        ("1.0.0.10.in-addr.arpa", True),
        ("8.8.8.8.in-addr.arpa", False),
        ("10.in-addr.arpa", False),
    ],
)
def test_whose_names_are_whose(text: str, ours: bool) -> None:
    zone = DnsZone(
        NETWORK, [ip_network("192.0.2.0/24"), ip_network("203.0.113.0/24"), ip_network("fd00::/64")]
    )
    assert (zone.apex_of(name_of(text)) is not None) == ours


def test_public_addresses_of_the_network_are_its_own() -> None:
    zone = DnsZone(NETWORK)
    name = name_of("9.9.9.9.in-addr.arpa")
    assert zone.apex_of(name) is None
    zone.set_prefixes([ip_network("9.9.9.0/24")])
    assert zone.apex_of(name) == name_of("in-addr.arpa")
