"""The cost limit of an evaluation, and the error message when it is exceeded.

A unit is one small step (a lookup, a call, one iteration of a loop); work on strings and lists costs by their
size, and is charged before it is done. The units are those of Kubernetes.

Whoever evaluates may also bound the time in a row by an `Allowance`, from which all budgets draw their units
in slices.
"""

import threading
from collections.abc import Callable
from types import TracebackType

from alcove.api.cel.errors import LongEvaluation, OutOfBudget

CALL_MOST = 1_000_000
"""Units that one evaluation of one expression may spend."""
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40
PARSE_COST = 50
"""Cost in addition to the text's length: parsing an address, a quantity or a URL, running a pattern."""


SLICE_COST = 2_000
"""Units that are drawn from an allowance at a time: a millisecond or two at most."""


class _ThreadState(threading.local):
    allowance: "Allowance | None" = None


_state = _ThreadState()


class Allowance:
    """Units that this thread's evaluations may spend in a block (which does not wait) before they must stop, or
    pause: `with Allowance(5_000): …`"""

    __slots__ = ("_before", "_left", "_pause")

    def __init__(self, units: int = 0, pause: Callable[[], None] | None = None) -> None:
        """With `pause`, there is no limit, and it is called before each slice."""
        self._left = units
        self._pause = pause

    def __enter__(self) -> None:
        self._before, _state.allowance = _state.allowance, self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.allowance = self._before

    def draw(self) -> int:
        """The units of the next slice. Raises LongEvaluation if none are left."""
        if self._pause is not None:
            self._pause()
            return SLICE_COST
        if self._left <= 0:
            raise LongEvaluation
        drawn = min(SLICE_COST, self._left)
        self._left -= drawn
        return drawn

    def give_back(self, units: int) -> None:
        self._left += units


class CostBudget:
    """The units that one evaluation may spend."""

    __slots__ = ("_allowance", "_reserve", "_slice")

    def __init__(self, units: int = CALL_MOST) -> None:
        self._allowance = _state.allowance
        self._slice = 0 if self._allowance is not None else units
        """Units that can be spent at once."""
        self._reserve = units - self._slice

    @property
    def left(self) -> int:
        return max(self._slice, 0) + self._reserve

    def spend(self, units: int) -> None:
        self._slice -= units
        if self._slice < 0:
            self._draw()

    def _draw(self) -> None:
        while self._slice < 0:
            if self._reserve <= 0 or self._allowance is None or self._slice + self._reserve < 0:
                self._reserve = 0
                raise OutOfBudget
            drawn = self._allowance.draw()
            granted = min(drawn, self._reserve)
            self._allowance.give_back(drawn - granted)
            self._slice += granted
            self._reserve -= granted

    def close(self) -> None:
        """Give the rest of the last slice back, when the evaluation has ended."""
        if self._allowance is not None and self._slice > 0:
            self._allowance.give_back(self._slice)
            self._reserve += self._slice
            self._slice = 0


def text_cost(length: int) -> int:
    """Return the cost of traversing a text of `length` characters."""
    return (length + 9) // 10


def parse_cost(text: str, *_rest: object) -> int:
    """Return the cost of parsing a value from a text."""
    return PARSE_COST + text_cost(len(text))


def regex_cost(text_length: int, pattern_length: int) -> int:
    return PARSE_COST + ((text_length + 10) // 10) * max(1, (pattern_length + 3) // 4)
