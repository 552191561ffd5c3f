"""Amounts of resources as whole numbers: thousandths of a CPU, bytes, counts.

Arrays are 64-bit, so amounts are capped at `AMOUNT_MAX`: more than any node has, and sums do not overflow.
"""

from collections.abc import Mapping
from typing import Any

from alcove.api import quantity
from alcove.api.quantity import Quantity, QuantityError

CPU = "cpu"
MEMORY = "memory"
STORAGE = "ephemeral-storage"
PODS = "pods"

AMOUNT_MAX = 1 << 52

Amounts = dict[str, int]


def counted(resource: str, nano: int) -> int:
    """Converts nanos to the scheduler's unit: rounded up, never negative."""
    amount = Quantity(nano)
    return max(0, min(amount.milli if resource == CPU else amount.value, AMOUNT_MAX))


def read_nanos(amounts: Mapping[str, Any] | None) -> Amounts:
    """A decoded resource list in exact nanos. Raises QuantityError."""
    return {
        resource: (quantity.parse(value.strip()) if isinstance(value, str) else quantity.of(value)).nano
        for resource, value in (amounts or {}).items()
    }


def read_valid(amounts: Mapping[str, Any] | None) -> Amounts:
    """A decoded resource list in the scheduler's units. Invalid quantities are ignored."""
    found: Amounts = {}
    for resource, value in (amounts or {}).items():
        try:
            found[resource] = counted(resource, read_nanos({resource: value})[resource])
        except (QuantityError, TypeError, ValueError, ArithmeticError):
            continue
    return found
