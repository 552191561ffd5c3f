"""One requirement on an object's labels: validated on construction, then compiled to a test."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from alcove.api import fields, names
from alcove.api.errors import BadRequest

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]


class Operator(Enum):
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER = "gt"
    LESS = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


SET = (Operator.IN, Operator.NOT_IN)
_ONE = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_NONE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ORDER = (Operator.GREATER, Operator.LESS)


class Requirement(Struct, frozen=True):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


def requirement(key: str, operator: Operator, values: Sequence[str] = ()) -> Requirement:
    """Return a validated requirement. Raises BadRequest."""
    errors = []
    if wrong := names.label_key(key):
        errors.append(fields.invalid("key", key, "; ".join(wrong)))
    errors += _count_errors(operator, values)
    for index, value in enumerate(values):
        if wrong := names.label_value(value):
            errors.append(fields.invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if errors:
        texts = [str(error) for error in errors]
        raise BadRequest(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, tuple(values))


def _count_errors(operator: Operator, values: Sequence[str]) -> list[fields.FieldError]:
    message = ""
    if operator in SET and not values:
        message = "for 'in', 'notin' operators, values set can't be empty"
    elif operator in _ONE and len(values) != 1:
        message = "exact-match compatibility requires one single value"
    elif operator in _NONE and values:
        message = "values set must be empty for exists and does not exist"
    elif operator in _ORDER and len(values) != 1:
        message = "for 'Gt', 'Lt' operators, exactly one value is required"
    if message:
        return [fields.invalid("values", list(values), message)]
    if operator in _ORDER and _integer(values[0]) is None:
        message = "for 'Gt', 'Lt' operators, the value must be an integer"
        return [fields.invalid("values[0]", values[0], message)]
    return []


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def _integer(text: str) -> int | None:
    """Return the 64-bit integer that a label's value represents, or None."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def test_of(required: Requirement) -> Test:
    key, values = required.key, frozenset(required.values)
    one = next(iter(values)) if len(values) == 1 else None
    match required.operator:
        case Operator.EXISTS:
            return lambda labels: key in labels
        case Operator.DOES_NOT_EXIST:
            return lambda labels: key not in labels
        case Operator.GREATER | Operator.LESS:
            return _order_test(key, int(required.values[0]), required.operator is Operator.GREATER)
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            if one is not None:
                return lambda labels: labels.get(key) == one
            return lambda labels: labels.get(key) in values
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            if one is not None:
                return lambda labels: labels.get(key) != one
            return lambda labels: labels.get(key) not in values


def _order_test(key: str, bound: int, greater: bool) -> Test:
    def test(labels: Labels) -> bool:
        value = labels.get(key)
        number = None if value is None else _integer(value)
        if number is None:
            return False
        return number > bound if greater else number < bound

    return test
