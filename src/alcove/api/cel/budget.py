"""The cost limit of an evaluation, and the error message when it is exceeded.

A unit is one small step (a lookup, a call, one iteration of a loop); work on strings and lists costs by their
size, and is charged before it is done. The units are those of Kubernetes.
"""

from alcove.api.cel.errors import OutOfBudget

CALL_MOST = 1_000_000
"""Units that one evaluation of one expression may spend."""
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40
PARSE_COST = 50
"""Cost in addition to the text's length: parsing an address, a quantity or a URL, running a pattern."""


class CostBudget:
    __slots__ = ("left",)

    def __init__(self, units: int = CALL_MOST) -> None:
        self.left = units

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise OutOfBudget


def text_cost(length: int) -> int:
    """Return the cost of traversing a text of `length` characters."""
    return (length + 9) // 10


def parse_cost(text: str, *_rest: object) -> int:
    """Return the cost of parsing a value from a text."""
    return PARSE_COST + text_cost(len(text))


def regex_cost(text_length: int, pattern_length: int) -> int:
    return PARSE_COST + ((text_length + 10) // 10) * max(1, (pattern_length + 3) // 4)
