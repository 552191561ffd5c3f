"""The configuration of a node's network, read from the machine."""

from ipaddress import IPv6Address, ip_interface
from pathlib import Path

import pytest

from alcove.agent.network.start import global6, interfaces, resolvers
from alcove.dns.upstream import Resolver


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], None),
        (["192.0.2.1/24", "fe80::1/64"], None),
        (["fe80::1/64", "2001:db8::5/64", "2001:db8::6/64"], IPv6Address("2001:db8::5")),
    ],
)
def test_the_address_by_ipv6_is_one_that_others_reach(texts: list[str], expected: IPv6Address | None) -> None:
    assert global6([ip_interface(text) for text in texts]) == expected


def test_loopback_has_its_addresses_and_what_is_missing_none() -> None:
    assert ip_interface("127.0.0.1/8") in interfaces("lo")
    assert interfaces("nothing-at-all") == []


def test_resolvers_are_the_nodes_own_unless_ring0_names_others(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    assert resolvers(path) == ()
    path.write_text("search example\nnameserver 10.0.0.2\nnameserver 9.9.9.9\nnameserver 2620:fe::fe\n")
    assert resolvers(path) == (Resolver("10.0.0.2"), Resolver("9.9.9.9"), Resolver("2620:fe::fe"))
    assert resolvers(path, ["9.9.9.10"]) == (Resolver("9.9.9.10"),)
