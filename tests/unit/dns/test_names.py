"""Names on the wire, and addresses as names."""

from ipaddress import ip_address

import pytest
from dnslib import DNSLabel
from dnslib.label import DNSBuffer
from hypothesis import given
from hypothesis import strategies as st

from alcove.dns.model import Address
from alcove.dns.names import (
    BadName,
    Name,
    address_of,
    dashed,
    is_within,
    labels,
    name_of,
    parent,
    reverse_name,
    under,
)

LABELS = st.lists(
    st.from_regex(r"[a-zA-Z0-9_]([a-zA-Z0-9_-]{0,20}[a-z0-9])?", fullmatch=True), min_size=1, max_size=6
)


@given(LABELS)
def test_a_name_is_encoded_as_the_library_encodes_it(parts: list[str]) -> None:
    buffer = DNSBuffer()
    buffer.encode_name(DNSLabel([part.lower().encode() for part in parts]))
    assert name_of(".".join(parts)) == bytes(buffer.data)
    assert labels(name_of(".".join(parts) + ".")) == tuple(part.lower().encode() for part in parts)


@pytest.mark.parametrize("text", ["", "."])
def test_the_root_is_the_empty_name(text: str) -> None:
    assert name_of(text) == b"\0"


@pytest.mark.parametrize("text", ["a..b", ".a", "a" * 64, ".".join(["a" * 60] * 5)])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadName):
        name_of(text)


def test_a_child_must_fit() -> None:
    parent_name = name_of(".".join(["a" * 60] * 4))
    with pytest.raises(BadName):
        under("b" * 20, parent_name)
    with pytest.raises(BadName):
        under("", parent_name)


@given(LABELS, LABELS)
def test_a_name_is_within_its_ancestors(parts: list[str], more: list[str]) -> None:
    ancestor = name_of(".".join(parts))
    name = name_of(".".join([*more, *parts]))
    assert is_within(name, ancestor)
    assert is_within(ancestor, ancestor)
    assert not is_within(ancestor, name)
    assert is_within(parent(name), ancestor)


def test_a_suffix_that_is_no_ancestor_is_not_taken_for_one() -> None:
    hostile = b"a\x07cluster\x05local"
    name = Name(bytes((len(hostile),)) + hostile + b"\0")
    assert name.endswith(name_of("cluster.local"))
    assert not is_within(name, name_of("cluster.local"))


@given(st.ip_addresses())
def test_reverse_names_lead_back(address: Address) -> None:
    assert address_of(reverse_name(address)) == address


@pytest.mark.parametrize(
    "text",
    ["web.default.svc.cluster.local", "in-addr.arpa", "1.10.in-addr.arpa", "1.2.3.4.5.in-addr.arpa", "a.b.c.d.in-addr.arpa",
     "1.ip6.arpa", "10.0.0.0." + "0." * 28 + "ip6.arpa", "g." * 32 + "ip6.arpa", "."],
)  # fmt: skip
def test_other_names_ask_about_no_address(text: str) -> None:
    assert address_of(name_of(text)) is None


@pytest.mark.parametrize(("address", "label"), [("10.0.0.1", "10-0-0-1"), ("fd00::1", "fd00--1")])
def test_an_address_as_a_label(address: str, label: str) -> None:
    assert dashed(ip_address(address)) == label
