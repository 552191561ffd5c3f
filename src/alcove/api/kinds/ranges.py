"""Address ranges of networks and VPCs: a first address and a prefix length.

Mizar's manifests write numbers as strings (`prefix: "16"`); both forms are accepted.
"""

import ipaddress
import re

from alcove.api import addresses
from alcove.api.fields import FieldError, invalid, required
from alcove.api.objects import Object

_NUMBER = re.compile("[0-9]{1,10}")


def read_number(value: int | str | None) -> int | None:
    """Return the number, from either form; None if it is absent or invalid."""
    if isinstance(value, str):
        return int(value) if _NUMBER.fullmatch(value) else None
    return value


def gateway(network: addresses.Network) -> addresses.Address:
    """Return the gateway's address: the second of the range."""
    return network.network_address + 1


def validate_number(spec: Object, path: str, field: str, lowest: int, highest: int) -> list[FieldError]:
    """Check an optional number."""
    if field not in spec:
        return []
    number = read_number(spec[field])
    if number is not None and lowest <= number <= highest:
        return []
    return [invalid(f"{path}.{field}", spec[field], f"must be between {lowest} and {highest}, inclusive")]


def validate_range(spec: Object, path: str) -> list[FieldError]:
    """Check `ip` and `prefix`, both or neither: the first address of a range and its prefix length."""
    address, prefix = spec.get("ip", ""), spec.get("prefix")
    if not address and prefix is None:
        return []
    if not address:
        return [required(f"{path}.ip", "must be given together with `prefix`")]
    if prefix is None:
        return [required(f"{path}.prefix", "must be given together with `ip`")]
    if errors := addresses.canonical_ip_errors(f"{path}.ip", address):
        return errors
    bits = ipaddress.ip_address(address).max_prefixlen
    # Two addresses are reserved: the first, and the gateway's.
    if errors := validate_number(spec, path, "prefix", 1, bits - 2):
        return errors
    proper = ipaddress.ip_network(f"{address}/{read_number(prefix)}", strict=False).network_address
    if str(proper) != address:
        message = f"must be the first address of its /{read_number(prefix)} range: {proper}"
        return [invalid(f"{path}.ip", address, message)]
    return []


def unchanged_once_set(new: Object, old: Object, path: str, *fields: str) -> list[FieldError]:
    """Check fields that may be set later, but not changed. A number equals its string form."""
    return [
        invalid(f"{path}.{field}", new.get(field), "field is immutable once set")
        for field in fields
        if old.get(field) not in (None, "") and str(new.get(field, "")) != str(old[field])
    ]
