"""Netlink on the wire: messages are encoded and decoded, and the kernel's errors are raised."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.dataplane import links
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.netlink import Netlink, attribute, attributes, nested


@given(st.dictionaries(st.integers(1, 0x3FFF), st.binary(max_size=40)))
def test_attributes_are_read_back(given_: dict[int, bytes]) -> None:
    raw = b"".join(attribute(kind, value) for kind, value in given_.items())
    assert attributes(raw) == given_
    assert len(raw) % 4 == 0


def test_nested_attributes_are_read_back() -> None:
    raw = nested(7, attribute(1, b"one"), attribute(2, b"two!"))
    assert attributes(attributes(raw)[7]) == {1: b"one", 2: b"two!"}


def test_noise_is_not_read_forever() -> None:
    assert attributes(b"\0" * 64) == {}


def test_links_are_found_by_name() -> None:
    netlink = Netlink()
    try:
        names = [link.name for link in links.read_links(netlink)]
        assert "lo" in names
        found = links.read_link(netlink, "lo")
        assert found is not None
        assert found.index == 1
        assert links.read_link(netlink, "no-such-link") is None
    finally:
        netlink.close()


def test_an_error_names_the_operation_and_the_kernels_message() -> None:
    netlink = Netlink()
    try:
        with pytest.raises(KernelRefused, match="set link 999999") as caught:
            netlink.do(links.set_link(999_999))
        assert caught.value.errno in (errno.ENODEV, errno.EPERM)
    finally:
        netlink.close()
