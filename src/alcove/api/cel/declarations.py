"""Functions that an expression may call: their overloads, and the libraries that define them.

A library registers plain Python functions with decorators. A function is called with CEL values and returns
one, or raises CelError.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from alcove.api.cel.types import CelType

Implementation = Callable[..., Any]
Cost = Callable[..., int]
"""Called with the call's arguments; the result is spent before the call."""

_F = TypeVar("_F", bound=Implementation)


class Overload(Struct, frozen=True):
    params: tuple[CelType, ...]
    """Includes the receiver of a method, as the first."""
    result: CelType
    call: Implementation
    member: bool
    cost: Cost | None = None
    """None: one unit, counted with the expression itself."""


Functions = Mapping[str, Sequence[Overload]]
"""Name → overloads, in the order they are tried."""


class Library:
    """A mutable collection of functions."""

    def __init__(self) -> None:
        self.functions: dict[str, list[Overload]] = {}

    def function(
        self, name: str, params: Sequence[CelType], result: CelType, cost: Cost | None = None
    ) -> Callable[[_F], _F]:
        """Register a global function (`name` may be qualified: `sets.contains`)."""
        return self._register(name, params, result, False, cost)

    def member(
        self, name: str, params: Sequence[CelType], result: CelType, cost: Cost | None = None
    ) -> Callable[[_F], _F]:
        """Register a method; `params[0]` is the receiver."""
        return self._register(name, params, result, True, cost)

    def _register(
        self, name: str, params: Sequence[CelType], result: CelType, member: bool, cost: Cost | None
    ) -> Callable[[_F], _F]:
        def register(call: _F) -> _F:
            overload = Overload(tuple(params), result, call, member, cost)
            self.functions.setdefault(name, []).append(overload)
            return call

        return register


def merge(libraries: Iterable[Library]) -> Functions:
    merged: dict[str, list[Overload]] = {}
    for library in libraries:
        for name, overloads in library.functions.items():
            merged.setdefault(name, []).extend(overloads)
    return merged
