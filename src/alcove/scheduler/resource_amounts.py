"""Amounts of resources as whole numbers: thousandths of a CPU, bytes, counts.

Arithmetic over nodes is done in 64 bits, so an amount beyond `AMOUNT_MAX` counts as that much: more
than any node has, and sums of such amounts still do not overflow.
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
    """So many nanos as the scheduler counts them: rounded up, never negative."""
    amount = Quantity(nano)
    return max(0, min(amount.milli if resource == CPU else amount.value, AMOUNT_MAX))


def read_nanos(amounts: Mapping[str, Any] | None) -> Amounts:
    """A decoded resource list, exactly. Raises QuantityError for what is no quantity."""
    return {
        resource: (quantity.parse(value.strip()) if isinstance(value, str) else quantity.of(value)).nano
        for resource, value in (amounts or {}).items()
    }


def read_valid(amounts: Mapping[str, Any] | None) -> Amounts:
    """A decoded resource list as counted, without what is no quantity: what a node says so badly, it
    does not have."""
    found: Amounts = {}
    for resource, value in (amounts or {}).items():
        try:
            found[resource] = counted(resource, read_nanos({resource: value})[resource])
        except (QuantityError, TypeError, ValueError, ArithmeticError):
            continue
    return found
