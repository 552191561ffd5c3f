"""Domain names in wire format: length-prefixed labels, ending with the empty root label.

Names are stored in lower case, so that names can be compared as bytes. Length bytes are at most 63, below
every letter, so `bytes.lower()` changes letters only.
"""

import ipaddress
from typing import NewType

from alcove.dns.model import Address

Name = NewType("Name", bytes)

ROOT = Name(b"\0")
LABEL_LENGTH_MAX = 63
NAME_LENGTH_MAX = 255


class BadName(ValueError):
    pass


def name_of(text: str) -> Name:
    """Parses a dotted name; the final dot is optional. Raises BadName."""
    labels = text.encode("ascii", "strict").removesuffix(b".").split(b".") if text not in ("", ".") else []
    if any(not 0 < len(label) <= LABEL_LENGTH_MAX for label in labels):
        raise BadName(f"empty or overlong label in {text!r}")
    name = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    if len(name) > NAME_LENGTH_MAX:
        raise BadName(f"overlong name {text!r}")
    return Name(name.lower())


def under(label: str, name: Name) -> Name:
    """`name` with `label` in front. Raises BadName."""
    raw = label.encode("ascii").lower()
    if not 0 < len(raw) <= LABEL_LENGTH_MAX or len(raw) + 1 + len(name) > NAME_LENGTH_MAX:
        raise BadName(f"{label!r} does not fit")
    return Name(bytes((len(raw),)) + raw + name)


def parent(name: Name) -> Name:
    return Name(name[name[0] + 1 :])


def labels(name: Name) -> tuple[bytes, ...]:
    parts: list[bytes] = []
    while name[0]:
        parts.append(name[1 : name[0] + 1])
        name = parent(name)
    return tuple(parts)


def is_within(name: Name, ancestor: Name) -> bool:
    """Whether `name` is `ancestor` or below it."""
    while len(name) > len(ancestor):
        name = parent(name)
    return name == ancestor


def dashed(address: Address) -> str:
    """An address as one label: `10-0-0-1`, `fd00--1`."""
    return str(address).replace("." if address.version == 4 else ":", "-")


IPV4_REVERSE = name_of("in-addr.arpa")
IPV6_REVERSE = name_of("ip6.arpa")


def reverse_name(address: Address) -> Name:
    return name_of(address.reverse_pointer)


def address_of(name: Name) -> Address | None:
    """The address of a reverse name; None for any other name."""
    parts = labels(name)
    if parts[-2:] == (b"in-addr", b"arpa") and len(parts) == 6:
        return _read(b".".join(reversed(parts[:4])))
    if parts[-2:] == (b"ip6", b"arpa") and len(parts) == 34 and all(len(part) == 1 for part in parts[:32]):
        digits = b"".join(reversed(parts[:32]))
        return _read(b":".join(digits[at : at + 4] for at in range(0, 32, 4)))
    return None


def _read(text: bytes) -> Address | None:
    try:
        return ipaddress.ip_address(text.decode("ascii"))
    except ValueError:
        return None
