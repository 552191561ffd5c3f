"""IP addresses and CIDR ranges. IPv4-mapped addresses, zones and leading zeros are rejected."""

import ipaddress

from alcove.api.addresses import is_ipv4, is_ipv6
from alcove.api.cel.budget import parse_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import BOOL, INT, STRING, opaque
from alcove.api.cel.values import Opaque

NETWORK = Library()
IP = opaque("net.IP")
CIDR = opaque("net.CIDR")
_function, _member = NETWORK.function, NETWORK.member

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class IpValue(Opaque):
    __slots__ = ("address",)
    cel_type = IP

    def __init__(self, address: _Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IpValue) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)


class CidrValue(Opaque):
    """An address and a prefix length; bits beyond the prefix are kept."""

    __slots__ = ("interface",)
    cel_type = CIDR

    def __init__(self, interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface) -> None:
        self.interface = interface

    @property
    def bits(self) -> int:
        return self.interface.network.prefixlen

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CidrValue):
            return False
        return self.interface.ip == other.interface.ip and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((self.interface.ip, self.bits))

    def __str__(self) -> str:
        return f"{self.interface.ip}/{self.bits}"


def parse_ip(text: str) -> _Address:
    """Parse an IP address. Raises CelError."""
    if "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    if len(text) > 64 or not (is_ipv4(text) or is_ipv6(text)):
        message = f'ParseAddr("{text}"): unable to parse IP'
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {message}')
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def parse_cidr(text: str) -> CidrValue:
    """Parse a CIDR range. Raises CelError."""
    prefix = "network address parse error during conversion from string: "
    address_text, slash, bits = text.rpartition("/")
    if (
        not slash
        or len(text) > 64
        or not bits.isascii()
        or not bits.isdigit()
        or (len(bits) > 1 and bits[0] == "0")
    ):
        raise CelError(f'{prefix * 2}netip.ParsePrefix("{text}"): bad prefix')
    try:
        address = parse_ip(address_text)
    except CelError as error:
        raise CelError(f"{prefix}{error}") from error
    if int(bits) > address.max_prefixlen:
        raise CelError(f'{prefix * 2}netip.ParsePrefix("{text}"): prefix length out of range')
    return CidrValue(ipaddress.ip_interface(f"{address}/{bits}"))


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except CelError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except CelError:
        return False
    return True


def _contains_ip(cidr: CidrValue, address: _Address) -> bool:
    return address.version == cidr.interface.version and address in cidr.interface.network


def _contains_cidr(cidr: CidrValue, other: CidrValue) -> bool:
    return cidr.bits <= other.bits and _contains_ip(cidr, other.interface.ip)


def _is_global_unicast(value: IpValue) -> bool:
    address = value.address
    limited_broadcast = address.version == 4 and int(address) == 0xFFFFFFFF
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or limited_broadcast
    )


_MULTICAST = (ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16"))


def _is_link_local_multicast(value: IpValue) -> bool:
    return value.address in _MULTICAST[0 if value.address.version == 4 else 1]


_function("ip", (STRING,), IP, cost=parse_cost)(lambda text: IpValue(parse_ip(text)))
_function("isIP", (STRING,), BOOL, cost=parse_cost)(_is_ip)
_function("ip.isCanonical", (STRING,), BOOL, cost=parse_cost)(lambda text: str(parse_ip(text)) == text)
_member("family", (IP,), INT)(lambda value: value.address.version)
_member("isUnspecified", (IP,), BOOL)(lambda value: value.address.is_unspecified)
_member("isLoopback", (IP,), BOOL)(lambda value: value.address.is_loopback)
_member("isLinkLocalMulticast", (IP,), BOOL)(_is_link_local_multicast)
_member("isLinkLocalUnicast", (IP,), BOOL)(lambda value: value.address.is_link_local)
_member("isGlobalUnicast", (IP,), BOOL)(_is_global_unicast)
_function("string", (IP,), STRING)(str)

_function("cidr", (STRING,), CIDR, cost=parse_cost)(parse_cidr)
_function("isCIDR", (STRING,), BOOL, cost=parse_cost)(_is_cidr)
_member("containsIP", (CIDR, STRING), BOOL, cost=lambda _cidr, text: parse_cost(text))(
    lambda cidr, text: _contains_ip(cidr, parse_ip(text))
)
_member("containsIP", (CIDR, IP), BOOL)(lambda cidr, value: _contains_ip(cidr, value.address))
_member("containsCIDR", (CIDR, STRING), BOOL, cost=lambda _cidr, text: parse_cost(text))(
    lambda cidr, text: _contains_cidr(cidr, parse_cidr(text))
)
_member("containsCIDR", (CIDR, CIDR), BOOL)(_contains_cidr)
_member("ip", (CIDR,), IP)(lambda cidr: IpValue(cidr.interface.ip))
_member("prefixLength", (CIDR,), INT)(lambda cidr: cidr.bits)
_member("masked", (CIDR,), CIDR)(lambda cidr: CidrValue(ipaddress.ip_interface(str(cidr.interface.network))))
_function("string", (CIDR,), STRING)(str)
