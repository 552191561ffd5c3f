"""Addresses in the form of the BPF programs: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network

MAPPED = b"\0" * 10 + b"\xff\xff"
NO_ADDRESS = b"\0" * 16
IP4_BITS_OFFSET = 96


def pack(address: Address) -> bytes:
    return MAPPED + address.packed if isinstance(address, IPv4Address) else address.packed


@lru_cache(maxsize=4096)
def unpack(raw: bytes) -> Address:
    if raw[:12] == MAPPED:
        return IPv4Address(raw[12:])
    return IPv6Address(raw)


@lru_cache(maxsize=4096)
def pack_prefix(prefix: Prefix) -> tuple[int, bytes]:
    """The prefix length in bits of the 16-byte form, and the address in that form."""
    bits = prefix.prefixlen if prefix.version == 6 else prefix.prefixlen + IP4_BITS_OFFSET
    return bits, pack(prefix.network_address)


def host_prefix(address: Address) -> Prefix:
    if isinstance(address, IPv4Address):
        return IPv4Network((address, 32))
    return IPv6Network((address, 128))


def pack_mac(mac: str) -> bytes:
    raw = bytes.fromhex(mac.replace(":", ""))
    if len(raw) != 6:
        raise ValueError(f"not a MAC address: {mac!r}")
    return raw
