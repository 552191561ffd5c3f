"""Columns of what tenants have used, in the units of bills: hours, GiB and their products."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from alcove.api.columns.base import NAME, WIDE, at
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object, get

_NANOSECONDS_PER_HOUR = 3600 * 1e9
_GIBI = 1 << 30


def _amount(usage: Object, name: str) -> int:
    return int(get(usage, "amounts", name, default=0))


def _scaled(name: str, unit: float) -> Callable[[Object, float], str]:
    def value(usage: Object, _now: float) -> str:
        return f"{_amount(usage, name) / unit:.3f}"

    return value


def _bytes(kind: str) -> Callable[[Object, float], str]:
    def value(usage: Object, _now: float) -> str:
        return f"{_size(_amount(usage, f'{kind}OutBytes'))}/{_size(_amount(usage, f'{kind}InBytes'))}"

    return value


def _size(count: int) -> str:
    """Such as 512, 3.2Ki or 17.0Gi."""
    amount = float(count)
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if amount < 1024 or unit == "Ti":
            break
        amount /= 1024
    return f"{amount:.1f}{unit}" if unit else str(count)


def _column(
    name: str, value: Callable[[Object, float], Any], description: str, priority: int = 0
) -> PrinterColumn:
    return PrinterColumn(name, value, description=description, priority=priority)


_HOUR_GIBI = 3600 * _GIBI

TENANT_USAGE = (
    replace(NAME, priority=WIDE),
    _column("From", at("start"), "Beginning of the time."),
    _column("To", at("end"), "End of the time.", WIDE),
    _column("CPU-h", _scaled("cpuUsedNanoseconds", _NANOSECONDS_PER_HOUR), "Used CPU hours."),
    _column(
        "CPU-h-Requested", _scaled("cpuRequestedNanoseconds", _NANOSECONDS_PER_HOUR), "Requested CPU hours."
    ),
    _column("Memory-GiB-h", _scaled("memoryUsedByteSeconds", _HOUR_GIBI), "Used memory, GiB hours."),
    _column(
        "Memory-Requested", _scaled("memoryRequestedByteSeconds", _HOUR_GIBI), "Requested memory, GiB hours."
    ),
    _column("Pod-h", _scaled("podSeconds", 3600), "Hours of pods."),
    _column("Pods", at("amounts", "podsStarted", default=0), "Pods that were started.", WIDE),
    _column("Volume-GiB-h", _scaled("volumeByteSeconds", _HOUR_GIBI), "Volumes, GiB hours."),
    _column("API-s", _scaled("apiNanoseconds", 1e9), "Seconds of API servers."),
    _column("Network", _bytes("network"), "Bytes out and in, within networks."),
    _column("World", _bytes("world"), "Bytes out and in, with external addresses."),
    _column("NodePort", _bytes("nodePort"), "Bytes out and in, by node ports.", WIDE),
    _column("LoadBalancer", _bytes("loadBalancer"), "Bytes out and in, by load balancers.", WIDE),
    _column("Ingress", _bytes("ingress"), "Bytes out and in, by ingresses.", WIDE),
)
