"""How much an evaluation may cost, and the words used when it costs more.

A unit is one small step (a lookup, a call, one round of a loop); work on strings and lists costs by
their size, and is charged before it is done. The units are Kubernetes' own.
"""

from alcove.api.cel.errors import OutOfBudget

CALL_MOST = 1_000_000
"""Units one evaluation of one expression may spend."""
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40
PARSE_COST = 50
"""On top of the text's length: reading an address, a quantity, a URL, running a pattern."""


class CostBudget:
    __slots__ = ("left",)

    def __init__(self, units: int = CALL_MOST) -> None:
        self.left = units

    def spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise OutOfBudget


def text_cost(length: int) -> int:
    """Walking over a text of so many characters."""
    return (length + 9) // 10


def parse_cost(text: str, *_rest: object) -> int:
    """Making a value of a text."""
    return PARSE_COST + text_cost(len(text))


def regex_cost(text_length: int, pattern_length: int) -> int:
    return PARSE_COST + ((text_length + 10) // 10) * max(1, (pattern_length + 3) // 4)
