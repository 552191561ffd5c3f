from ipaddress import ip_network

import pytest

from alcove.api.objects import Object
from alcove.network.service_ranges import service_ranges, usable_service_ranges
from alcove.vpc.errors import RequestRefused


def network(*cidrs: str) -> Object:
    return {"spec": {"service": {"cidrs": list(cidrs)}}} if cidrs else {"spec": {}}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("10.0.0.0/16", "10.96.0.0/16"),
        ("10.96.0.0/12", "172.31.0.0/16"),
        ("fd00::/64", "fd96::/108"),
        ("fd96::/64", "fdac::/108"),
    ],
)
def test_the_first_range_that_is_not_its_own(own: str, expected: str) -> None:
    assert service_ranges(network(), [ip_network(own)]) == [ip_network(expected)]


def test_what_the_network_names() -> None:
    named = service_ranges(network("172.20.0.0/24", "172.21.0.0/24"), [ip_network("10.0.0.0/8")])
    assert named == [ip_network("172.20.0.0/24"), ip_network("172.21.0.0/24")]


@pytest.mark.parametrize(
    ("cidrs", "message"),
    [(["10.3.0.0/24"], "overlaps the network's own range"), (["fd00::/108"], "is IPv6, but the network")],
)
def test_what_is_refused(cidrs: list[str], message: str) -> None:
    with pytest.raises(RequestRefused, match=message):
        service_ranges(network(*cidrs), [ip_network("10.0.0.0/8")])


def test_a_network_of_everything_must_name_one() -> None:
    with pytest.raises(RequestRefused, match=r"set spec\.service\.cidrs"):
        service_ranges(network(), [ip_network("0.0.0.0/1"), ip_network("128.0.0.0/1")])


def test_who_only_reads_a_refused_network_finds_no_range_for_services() -> None:
    own = [ip_network("10.0.0.0/8")]
    refused = {"spec": {"service": {"cidrs": ["10.9.0.0/16"]}}}
    assert usable_service_ranges(refused, own) == ()
    assert usable_service_ranges({}, own) == tuple(service_ranges({}, own))
