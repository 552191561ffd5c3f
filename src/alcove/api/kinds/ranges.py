"""Address ranges as networks and VPCs write them: a first address and the length of the prefix.

Mizar's manifests write numbers as texts (`prefix: "16"`); both count.
"""

import ipaddress
import re

from alcove.api import addresses
from alcove.api.fields import FieldError, invalid, required
from alcove.api.objects import Object

_NUMBER = re.compile("[0-9]{1,10}")


def read_number(value: int | str | None) -> int | None:
    """The number, however it is written; None where it is none, or none is given."""
    if isinstance(value, str):
        return int(value) if _NUMBER.fullmatch(value) else None
    return value


def gateway(network: addresses.Network) -> addresses.Address:
    """The address of a range that its gateway has: the second one."""
    return network.network_address + 1


def validate_number(spec: Object, path: str, field: str, lowest: int, highest: int) -> list[FieldError]:
    """A number in a field that may be missing."""
    if field not in spec:
        return []
    number = read_number(spec[field])
    if number is not None and lowest <= number <= highest:
        return []
    return [invalid(f"{path}.{field}", spec[field], f"must be between {lowest} and {highest}, inclusive")]


def validate_range(spec: Object, path: str) -> list[FieldError]:
    """`ip` and `prefix`, both or neither: the first address of a range, and how much of it is fixed."""
    address, prefix = spec.get("ip", ""), spec.get("prefix")
    if not address and prefix is None:
        return []
    if not address:
        return [required(f"{path}.ip", "must be given together with `prefix`")]
    if prefix is None:
        return [required(f"{path}.prefix", "must be given together with `ip`")]
    if faults := addresses.canonical_ip_faults(f"{path}.ip", address):
        return faults
    bits = ipaddress.ip_address(address).max_prefixlen
    # Two addresses are the network's own: its first, and the gateway's.
    if faults := validate_number(spec, path, "prefix", 1, bits - 2):
        return faults
    proper = ipaddress.ip_network(f"{address}/{read_number(prefix)}", strict=False).network_address
    if str(proper) != address:
        message = f"must be the first address of its /{read_number(prefix)} range: {proper}"
        return [invalid(f"{path}.ip", address, message)]
    return []


def unchanged_once_set(new: Object, old: Object, path: str, *fields: str) -> list[FieldError]:
    """Fields that may be filled in later, but not changed after. A number is the same as its text."""
    return [
        invalid(f"{path}.{field}", new.get(field), "field is immutable once set")
        for field in fields
        if old.get(field) not in (None, "") and str(new.get(field, "")) != str(old[field])
    ]
