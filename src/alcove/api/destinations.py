"""The destinations that tenants may choose for connections that leave from ring0's machines: webhooks, image
registries, egress of pods. Pure: no I/O.

Allowed are addresses on the public internet that are not the cluster's: neither loopback, link-local (where
clouds serve credentials) nor private ranges (of the nodes, ring0 or other tenants), nor addresses that embed
an IPv4 address and could be translated to one of those. Ring0 may allow further networks.
"""

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

NOT_PUBLIC: tuple[Network, ...] = (
    *(
        IPv4Network(text)
        for text in (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # carriers' NAT
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        )
    ),
    *(
        IPv6Network(text)
        for text in (
            "::/3",  # everything below 2000::/3: loopback, mapped and translated IPv4
            "2001::/23",  # Teredo and others
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: embeds an IPv4 address
            "3fff::/20",  # documentation
            "4000::/2",  # everything above 2000::/3: unassigned, private, link-local, multicast
            "8000::/1",
        )
    ),
)
"""All ranges that are not on the public internet; they do not overlap."""
UNREACHABLE: tuple[Network, ...] = (
    IPv4Network("127.0.0.0/8"),
    IPv4Network("169.254.0.0/16"),
    IPv6Network("::/96"),
    IPv6Network("fe80::/10"),
)
"""Ranges that pods never reach externally, whatever ring0 allows: the node's loopback, and link-local
addresses, where clouds serve credentials."""


def parse(text: str) -> Address | None:
    """Parses a URL's host as an address; None if it is a name."""
    try:
        return unmapped(ip_address(text.strip("[]")))
    except ValueError:
        return None


def unmapped(address: Address) -> Address:
    """The IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def is_public(address: Address) -> bool:
    return not is_allowed(address, NOT_PUBLIC)


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether `address` is in one of the networks."""
    address = unmapped(address)
    return any(address in network for network in allowed if network.version == address.version)


def is_within(network: Network, ranges: Iterable[Network]) -> bool:
    """Whether all addresses of `network` are in one of the ranges."""
    return any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each in ranges
    )


def permitted(address: Address, allowed: Sequence[Network], own: Collection[Address]) -> bool:
    """Whether a tenant may choose `address`: it is in a network that ring0 allows, or it is public and not
    one of the cluster's `own`."""
    if is_allowed(address, allowed):
        return True
    address = unmapped(address)
    return is_public(address) and address not in own
