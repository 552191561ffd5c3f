"""The addresses that a tenant's webhooks may have. Pure: no I/O.

Addresses on the public internet that are not the cluster's: neither loopback, link-local (where clouds serve
credentials) nor private ranges (of the nodes, ring0 or other tenants), nor addresses that embed an IPv4
address and could be translated to one of those. Ring0 may allow further networks.
"""

from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_EXCLUDED_IPV4 = tuple(IPv4Network(text) for text in ("192.0.0.0/24", "192.88.99.0/24"))
_IPV6 = IPv6Network("2000::/3")
_EXCLUDED_IPV6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo and others
        "2001:db8::/32",
        "2002::/16",  # 6to4: embeds an IPv4 address
        "3fff::/20",
    )
)


def parse(text: str) -> Address | None:
    """Parses a URL's host as an address; None if it is a name."""
    try:
        return _unmapped(ip_address(text.strip("[]")))
    except ValueError:
        return None


def _unmapped(address: Address) -> Address:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Raises ValueError."""
    return tuple(ip_network(text) for text in texts)


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        is_routable = address.is_global and not address.is_multicast
        return is_routable and not any(address in network for network in _EXCLUDED_IPV4)
    return address in _IPV6 and not any(address in network for network in _EXCLUDED_IPV6)


def is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether ring0's configuration allows webhooks at `address`, even if it is not public."""
    address = _unmapped(address)
    return any(address in network for network in allowed if network.version == address.version)


def permitted(address: Address, allowed: Sequence[Network], own: Collection[Address]) -> bool:
    """Whether a tenant's webhook may be at `address`; `own` are the addresses of the cluster's nodes."""
    if is_allowed(address, allowed):
        return True
    address = _unmapped(address)
    return is_public(address) and address not in own
