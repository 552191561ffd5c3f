"""Kubernetes quantities in expressions: parse, compare, add."""

from alcove.api import quantity
from alcove.api.cel.budget import parse_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.lexer import INT_MAX, INT_MIN
from alcove.api.cel.types import BOOL, DOUBLE, INT, STRING, opaque
from alcove.api.cel.values import Opaque, compare
from alcove.api.quantity import ONE, Quantity, QuantityError

QUANTITIES = Library()
QUANTITY = opaque("kubernetes.Quantity")
_function, _member = QUANTITIES.function, QUANTITIES.member


class QuantityValue(Opaque):
    __slots__ = ("amount",)
    cel_type = QUANTITY

    def __init__(self, amount: Quantity) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


@_function("quantity", (STRING,), QUANTITY, cost=parse_cost)
def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.parse(text))
    except QuantityError as error:
        raise CelError(str(error)) from error


@_function("isQuantity", (STRING,), BOOL, cost=parse_cost)
def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except QuantityError:
        return False
    return True


def _is_integer(value: QuantityValue) -> bool:
    return value.amount.is_whole and INT_MIN <= value.amount.value <= INT_MAX


@_member("asInteger", (QUANTITY,), INT)
def _as_integer(value: QuantityValue) -> int:
    if not _is_integer(value):
        raise CelError("cannot convert value to integer")
    return value.amount.value


def _compare(one: QuantityValue, other: QuantityValue) -> int:
    return compare(one.amount.nano, other.amount.nano)


def _whole(value: int) -> Quantity:
    return Quantity(value * ONE)


_member("isInteger", (QUANTITY,), BOOL)(_is_integer)
_member("asApproximateFloat", (QUANTITY,), DOUBLE)(lambda value: value.amount.nano / ONE)
_member("sign", (QUANTITY,), INT)(lambda value: compare(value.amount.nano, 0))
_member("isGreaterThan", (QUANTITY, QUANTITY), BOOL)(lambda one, other: _compare(one, other) > 0)
_member("isLessThan", (QUANTITY, QUANTITY), BOOL)(lambda one, other: _compare(one, other) < 0)
_member("compareTo", (QUANTITY, QUANTITY), INT)(_compare)
_member("add", (QUANTITY, QUANTITY), QUANTITY)(lambda one, other: QuantityValue(one.amount + other.amount))
_member("add", (QUANTITY, INT), QUANTITY)(lambda one, other: QuantityValue(one.amount + _whole(other)))
_member("sub", (QUANTITY, QUANTITY), QUANTITY)(lambda one, other: QuantityValue(one.amount - other.amount))
_member("sub", (QUANTITY, INT), QUANTITY)(lambda one, other: QuantityValue(one.amount - _whole(other)))
