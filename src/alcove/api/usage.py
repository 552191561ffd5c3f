"""What a tenant has used, in whole numbers of base units, and the hours that it is counted in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from alcove.api import meta
from alcove.api.objects import Object, get

HOUR_SECONDS = 3600
DAY_HOURS = 24


class UsageAmounts(Struct, rename="camel", omit_defaults=True):
    """Bytes `in` are those that the tenant received. All are of IP packets, but those of ingresses, which are of TCP's
    payload."""

    cpu_used_nanoseconds: int = 0
    cpu_requested_nanoseconds: int = 0
    memory_used_byte_seconds: int = 0
    memory_requested_byte_seconds: int = 0
    pod_seconds: int = 0
    pods_started: int = 0
    volume_byte_seconds: int = 0
    api_nanoseconds: int = 0
    network_out_bytes: int = 0
    network_in_bytes: int = 0
    world_out_bytes: int = 0
    world_in_bytes: int = 0
    node_port_out_bytes: int = 0
    node_port_in_bytes: int = 0
    load_balancer_out_bytes: int = 0
    load_balancer_in_bytes: int = 0
    ingress_out_bytes: int = 0
    ingress_in_bytes: int = 0

    def add(self, other: UsageAmounts) -> None:
        for name in FIELDS:
            value = getattr(other, name)
            if value:
                setattr(self, name, getattr(self, name) + value)

    def less(self, other: UsageAmounts) -> UsageAmounts:
        """The difference, where it is not negative."""
        return UsageAmounts(*(max(0, getattr(self, name) - getattr(other, name)) for name in FIELDS))

    def copy(self) -> UsageAmounts:
        return UsageAmounts(*(getattr(self, name) for name in FIELDS))

    def is_valid(self) -> bool:
        return all(0 <= getattr(self, name) <= AMOUNT_MAX for name in FIELDS)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in FIELDS)


FIELDS: tuple[str, ...] = UsageAmounts.__struct_fields__
API_NAMES: tuple[str, ...] = UsageAmounts.__struct_encode_fields__
AMOUNT_MAX = 2**63 - 1

TenantAmounts = dict[str, UsageAmounts]
"""By tenant."""


def hour_of(seconds: float) -> int:
    """The hour since the epoch."""
    return int(seconds) // HOUR_SECONDS


def format_hour(hour: int) -> str:
    """The time at which the hour begins, in RFC 3339."""
    return meta.format_time(hour * HOUR_SECONDS)


def parse_hour(text: str) -> int:
    """Raises ValueError."""
    return hour_of(meta.parse_time(text))


def day_of(hour: int) -> str:
    """Such as 2026-11-16, in UTC."""
    return format_hour(hour)[:10]


def encode_hours(hours: Mapping[int, TenantAmounts]) -> dict[str, Any]:
    """As in `UsageReport.spec.hours`; what is zero is left out."""
    return {
        format_hour(hour): {name: msgspec.to_builtins(each) for name, each in tenants.items() if each}
        for hour, tenants in sorted(hours.items())
        if any(tenants.values())
    }


def decode_hours(encoded: Mapping[str, Any]) -> dict[int, TenantAmounts]:
    """Raises ValueError; a reporter may write anything that its schema allows."""
    try:
        decoded = msgspec.convert(encoded, dict[str, dict[str, UsageAmounts]])
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    hours: dict[int, TenantAmounts] = {}
    for text, tenants in decoded.items():
        if not all(each.is_valid() for each in tenants.values()):
            raise ValueError(f"amounts of hour {text} are out of range")
        hours[parse_hour(text)] = tenants
    return hours


def settled_through(report: Object) -> int:
    """The last hour that ring0 has summed up of a UsageReport; -1 if there is none."""
    text = get(report, "status", "settledThrough", default="")
    return parse_hour(text) if text else -1


def record_name(tenant: str, day: str) -> str:
    """The name of a tenant's UsageRecord."""
    return f"{tenant}.{day}"
