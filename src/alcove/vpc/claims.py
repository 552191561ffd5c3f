"""Names that are claims: an object's name says which address or number it takes, so creating it either
takes that or fails. Between any number of rivals the API server lets exactly one succeed; deleting the
object gives back what it took; and nothing else is ever written down.

    endpoint `4711-10.0.1.12`   has the address 10.0.1.12 among those of VNI 4711
    endpoint `port-30080-tcp`   has that port of all droplets: a door
    endpoint `door-192.0.2.7`   has an address that the world routes to droplets: a door too
    divider  `vni-4711-d0`      has the number 4711: the first divider of its VPC, which always has one
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator

from alcove.api.addresses import Address
from alcove.api.kinds.mizar import VNI_MAX

DEFAULT_VNI = 1
"""Of the default VPC."""
_VNI_FIRST = 2
NAME_LENGTH_MAX = 253

# One spelling for each claim, or one address could be had twice: no leading zeros.
_CLAIM = re.compile(
    r"([1-9][0-9]{0,7})-"
    r"(?:((?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3})"
    r"|((?:0|[1-9a-f][0-9a-f]{0,3})(?:-(?:0|[1-9a-f][0-9a-f]{0,3})){7}))"
)

_PORT = re.compile(r"port-([1-9][0-9]{0,4})-(tcp|udp|sctp)")


def endpoint_name(scope: int, address: Address) -> str:
    """`scope` is the number of the VPC that the address is of."""
    if address.version == 4:
        return f"{scope}-{address}"
    groups = address.exploded.split(":")
    return f"{scope}-{'-'.join(group.lstrip('0') or '0' for group in groups)}"


def claimed(name: str) -> tuple[int, Address] | None:
    """Scope and address that an endpoint of this name has; None: the name claims nothing."""
    found = _CLAIM.fullmatch(name)
    if found is None:
        return None
    try:
        if found[2] is not None:
            return int(found[1]), ipaddress.IPv4Address(found[2])
        return int(found[1]), ipaddress.IPv6Address(found[3].replace("-", ":"))
    except ValueError:
        return None


def scope_of(name: str) -> str | None:
    """The scope alone, as text."""
    found = _CLAIM.fullmatch(name)
    return found[1] if found else None


def port_name(port: int, protocol: str) -> str:
    return f"port-{port}-{protocol.lower()}"


def claimed_port(name: str) -> tuple[int, str] | None:
    """Port and protocol (`TCP`) that an endpoint of this name has on all droplets."""
    found = _PORT.fullmatch(name)
    return (int(found[1]), found[2].upper()) if found else None


def divider_name(vni: int, index: int) -> str:
    return f"vni-{vni}-d{index}"


def bouncer_name(subnet: str, index: int) -> str:
    return child_name(subnet, f"b{index}")


def child_name(parent: str, suffix: str) -> str:
    """`{parent}-{suffix}`; a parent's name that is too long for that is cut and told apart by its hash."""
    name = f"{parent}-{suffix}"
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.blake2b(parent.encode(), digest_size=5).hexdigest()
    kept = parent[: NAME_LENGTH_MAX - len(suffix) - len(digest) - 2].rstrip("-.")
    return f"{kept}-{digest}-{suffix}"


def vni_candidates(uid: str) -> Iterator[int]:
    """Numbers to try for the object with this uid, without end: the same ones whenever it is asked again,
    so a claim that was made before a crash is found after it. Others' numbers are not given out again
    soon after they are free, while packets and caches may still know them."""
    for attempt in range(1 << 30):
        digest = hashlib.blake2b(f"{uid}/{attempt}".encode(), digest_size=8).digest()
        yield _VNI_FIRST + int.from_bytes(digest) % (VNI_MAX - _VNI_FIRST + 1)


def mac_of(address: Address) -> str:
    """A locally administered address that follows from the IP address, one to one for IPv4."""
    if address.version == 4:
        return f"0a:58:{address.packed.hex(':')}"
    return f"0e:{hashlib.blake2b(address.packed, digest_size=5).digest().hex(':')}"
