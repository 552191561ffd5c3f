"""IP addresses and CIDR ranges in fields, checked as strictly as Kubernetes checks new objects.

Addresses must parse, must have no leading zeros in IPv4 octets, and must not be IPv4 mapped into IPv6.
Fields that Kubernetes added later require the canonical form as well.
"""

import ipaddress
import re
import socket

from alcove.api.fields import FieldError, invalid

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LEADING_ZERO = re.compile(r"(?<![0-9])0+(?=[0-9])")
_NOT_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOT_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_TEXT_LENGTH_MAX = 64
_LINK_MULTICAST: tuple[Network, ...] = (
    ipaddress.IPv4Network("224.0.0.0/24"),
    ipaddress.IPv6Network("ff02::/16"),
)


def is_ipv4(text: str) -> bool:
    return _packs(socket.AF_INET, text)


def is_ipv6(text: str) -> bool:
    return _packs(socket.AF_INET6, text)


def _packs(family: int, text: str) -> bool:
    try:
        socket.inet_pton(family, text)
    except (OSError, ValueError):  # ValueError: a NUL inside the text
        return False
    return True


def _address(text: str) -> Address | None:
    """Parse an address that may have leading zeros in its IPv4 part, as older parsers accepted it."""
    if len(text) > _TEXT_LENGTH_MAX or "%" in text:
        return None
    ipv4_at = text.rfind(":") + 1
    try:
        return ipaddress.ip_address(text[:ipv4_at] + _without_zeros(text[ipv4_at:]))
    except ValueError:
        return None


def _without_zeros(ipv4: str) -> str:
    return _LEADING_ZERO.sub("", ipv4) if "." in ipv4 else ipv4


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def canonical(address: Address) -> str:
    """Return the text Kubernetes prints: an IPv4-mapped address is shown as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def canonical_text(value: str) -> str:
    """Return an address as Kubernetes prints it; text that is not an address is returned unchanged."""
    address = _address(value)
    return canonical(address) if address is not None else value


def ip_errors(field: str, value: str) -> list[FieldError]:
    """Check an IP address in a field with legacy validation: any spelling of IPv6 is accepted."""
    if is_ipv4(value):
        return []
    address = _address(value)
    if address is None:
        return [invalid(field, value, _NOT_IP)]
    if not is_ipv6(value):
        return [invalid(field, value, "must not have leading 0s")]
    if _is_mapped(address):
        return [invalid(field, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def canonical_ip_errors(field: str, value: str) -> list[FieldError]:
    """Check an IP address that must also be in canonical form."""
    errors = ip_errors(field, value)
    if errors or is_ipv4(value):
        return errors
    proper = str(ipaddress.ip_address(value))
    return [] if proper == value else [invalid(field, value, f'must be in canonical form ("{proper}")')]


def cidr_errors(field: str, value: str) -> list[FieldError]:
    address_text, slash, length_text = value.partition("/")
    address = _address(address_text)
    bits = address.max_prefixlen if address is not None else 0
    if address is None or not slash or not re.fullmatch("[0-9]{1,3}", length_text) or int(length_text) > bits:
        return [invalid(field, value, _NOT_CIDR)]
    if not (is_ipv4(address_text) or is_ipv6(address_text)) or str(int(length_text)) != length_text:
        return [invalid(field, value, "must not have leading 0s in IP or prefix length")]
    if _is_mapped(address):
        return [invalid(field, value, "must not have an IPv4-mapped IPv6 address")]
    if int(address) & ((1 << (bits - int(length_text))) - 1):
        return [invalid(field, value, "must not have bits set beyond the prefix length")]
    return []


def canonical_cidr_errors(field: str, value: str) -> list[FieldError]:
    errors = cidr_errors(field, value)
    if errors:
        return errors
    proper = str(ipaddress.ip_network(value))
    return [] if proper == value else [invalid(field, value, f'must be in canonical form ("{proper}")')]


def ip_family(text: str) -> str:
    """Return `IPv4` or `IPv6` for an address or range, and an empty string for anything else."""
    address = text.partition("/")[0]
    if is_ipv4(address):
        return "IPv4"
    return "IPv6" if is_ipv6(address) else ""


def endpoint_ip_errors(field: str, value: str) -> list[FieldError]:
    """Check an address that traffic may be sent to: neither loopback nor link-local."""
    address = _address(value)
    if address is None:
        return [invalid(field, value, "must be a valid IP address")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    messages = []
    if address.is_unspecified:
        messages.append(f"may not be unspecified ({value})")
    if address.is_loopback:
        messages.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        messages.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_MULTICAST if network.version == address.version):
        messages.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return [invalid(field, value, each) for each in messages]
