"""Claims: an object's name states which address or number it allocates, so creating the object either
allocates it or fails. Of any number of concurrent writers the API server lets exactly one succeed; deleting
the object releases the allocation. No other record of allocations exists.

    endpoint `4711-10.0.1.12`   holds the address 10.0.1.12 among those of VNI 4711
    endpoint `port-30080-tcp`   holds that node port on all droplets (`api/node_ports.py`)
    endpoint `door-192.0.2.7`   holds an external address that is routed to the droplets
    divider  `vni-4711-d0`      holds the VNI 4711: it is the first divider of its VPC, which always has one
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterator

from alcove.api.addresses import Address
from alcove.api.kinds.mizar import VNI_MAX

DEFAULT_VNI = 1
"""The VNI of the default VPC."""
_VNI_FIRST = 2
NAME_LENGTH_MAX = 253

# Each claim has exactly one spelling (no leading zeros), or one address could be allocated twice.
_CLAIM = re.compile(
    r"([1-9][0-9]{0,7})-"
    r"(?:((?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3})"
    r"|((?:0|[1-9a-f][0-9a-f]{0,3})(?:-(?:0|[1-9a-f][0-9a-f]{0,3})){7}))"
)


def endpoint_name(scope: int, address: Address) -> str:
    """`scope` is the VNI within which the address is unique."""
    if address.version == 4:
        return f"{scope}-{address}"
    groups = address.exploded.split(":")
    return f"{scope}-{'-'.join(group.lstrip('0') or '0' for group in groups)}"


def claimed(name: str) -> tuple[int, Address] | None:
    """Scope and address that an endpoint of this name claims; None if the name claims nothing."""
    match = _CLAIM.fullmatch(name)
    if match is None:
        return None
    try:
        if match[2] is not None:
            return int(match[1]), ipaddress.IPv4Address(match[2])
        return int(match[1]), ipaddress.IPv6Address(match[3].replace("-", ":"))
    except ValueError:
        return None


def scope_of(name: str) -> str | None:
    """Only the scope of the claim, as a string."""
    match = _CLAIM.fullmatch(name)
    return match[1] if match else None


def divider_name(vni: int, index: int) -> str:
    return f"vni-{vni}-d{index}"


def bouncer_name(subnet: str, index: int) -> str:
    return child_name(subnet, f"b{index}")


def child_name(parent: str, suffix: str) -> str:
    """`{parent}-{suffix}`; a parent's name that is too long for that is cut and made unique by its hash."""
    name = f"{parent}-{suffix}"
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.blake2b(parent.encode(), digest_size=5).hexdigest()
    prefix = parent[: NAME_LENGTH_MAX - len(suffix) - len(digest) - 2].rstrip("-.")
    return f"{prefix}-{digest}-{suffix}"


def vni_candidates(uid: str) -> Iterator[int]:
    """Yield VNIs to try for the object with this uid, without end.

    The sequence depends only on the uid, so a claim that was created before a crash is found after it.
    Released VNIs are unlikely to be allocated again soon, while packets and caches may still refer to them.
    """
    for attempt in range(1 << 30):
        digest = hashlib.blake2b(f"{uid}/{attempt}".encode(), digest_size=8).digest()
        yield _VNI_FIRST + int.from_bytes(digest) % (VNI_MAX - _VNI_FIRST + 1)


def mac_of(address: Address) -> str:
    """A locally administered MAC address derived from the IP address, one to one for IPv4."""
    if address.version == 4:
        return f"0a:58:{address.packed.hex(':')}"
    return f"0e:{hashlib.blake2b(address.packed, digest_size=5).digest().hex(':')}"
