"""Assignability of types with type variables, for the checker."""

from collections.abc import Sequence

from alcove.api.cel.types import DYN, CelType, TypeKind


class Bindings:
    """Bindings of type variables. Changes can be rolled back, so that a failed attempt has no effect."""

    __slots__ = ("_bound", "_trail")

    def __init__(self) -> None:
        self._bound: dict[str, CelType] = {}
        self._trail: list[tuple[str, CelType | None]] = []

    def get(self, name: str) -> CelType | None:
        return self._bound.get(name)

    def set(self, name: str, of: CelType) -> None:
        self._trail.append((name, self._bound.get(name)))
        self._bound[name] = of

    def attempt(self, these: Sequence[CelType], those: Sequence[CelType]) -> bool:
        """Bind the variables that make `these` types assignable to `those`; none if any pair fails."""
        mark = len(self._trail)
        if _all_fit(self, these, those):
            return True
        while len(self._trail) > mark:
            name, before = self._trail.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False


_WILD = (TypeKind.DYN, TypeKind.ERROR)
_NULLABLE = (TypeKind.NULL, TypeKind.OPAQUE, TypeKind.OBJECT, TypeKind.DURATION, TypeKind.TIMESTAMP)
_NESTED = (TypeKind.LIST, TypeKind.MAP, TypeKind.OPAQUE)


def substitute(bindings: Bindings, of: CelType, *, free_to_dyn: bool = False) -> CelType:
    """Return `of` with bound variables replaced; with `free_to_dyn`, free ones become dyn."""
    if of.kind is TypeKind.PARAM:
        bound = bindings.get(of.name)
        if bound is not None:
            return substitute(bindings, bound, free_to_dyn=free_to_dyn)
        return DYN if free_to_dyn else of
    if not of.params:
        return of
    params = tuple(substitute(bindings, param, free_to_dyn=free_to_dyn) for param in of.params)
    return of if params == of.params else CelType(of.kind, of.name, params)


def most_general(one: CelType, other: CelType) -> CelType:
    """Return the more general of two types that are assignable to each other."""
    return one if _at_most_as_specific(one, other) else other


def _all_fit(bindings: Bindings, one: Sequence[CelType], other: Sequence[CelType]) -> bool:
    return len(one) == len(other) and all(_fits(bindings, a, b) for a, b in zip(one, other, strict=True))


def _fits(bindings: Bindings, one: CelType, other: CelType) -> bool:
    if other.kind is TypeKind.PARAM:
        valid, bound = _bind(bindings, one, other)
        if valid or bound:
            return valid
    if one.kind is TypeKind.PARAM:
        return _bind(bindings, other, one)[0]
    if one.kind in _WILD or other.kind in _WILD:
        return True
    if one.kind is TypeKind.NULL or other.kind is TypeKind.NULL:
        return (other if one.kind is TypeKind.NULL else one).kind in _NULLABLE
    if one.kind is TypeKind.TYPE:
        return other.kind is TypeKind.TYPE
    if one.kind in _NESTED:
        same = one.kind is other.kind and one.name == other.name
        return same and _all_fit(bindings, one.params, other.params)
    return one == other


def _bind(bindings: Bindings, of: CelType, variable: CelType) -> tuple[bool, bool]:
    """Return (whether `of` may replace `variable`, whether the variable was bound before)."""
    if of == variable:
        return True, True
    bound = bindings.get(variable.name)
    if bound is None:
        if _occurs(bindings, variable, of):
            return False, False
        bindings.set(variable.name, of)
        return True, False
    if of == bound:
        return True, True
    if not _fits(bindings, of, bound):
        return False, True
    wider = most_general(of, bound)
    if not _occurs(bindings, variable, wider):
        bindings.set(variable.name, wider)
    return True, True


def _occurs(bindings: Bindings, variable: CelType, within: CelType) -> bool:
    if variable == within:
        return True
    if within.kind is TypeKind.PARAM:
        bound = bindings.get(within.name)
        return bound is not None and _occurs(bindings, variable, bound)
    return any(_occurs(bindings, variable, param) for param in within.params)


def _at_most_as_specific(one: CelType, other: CelType) -> bool:
    if one.kind in (TypeKind.DYN, TypeKind.PARAM):
        return True
    if other.kind in (TypeKind.DYN, TypeKind.PARAM) or one.kind is not other.kind:
        return False
    if one.kind is TypeKind.TYPE:
        return True
    if one.kind in _NESTED:
        same = one.name == other.name and len(one.params) == len(other.params)
        return same and all(_at_most_as_specific(a, b) for a, b in zip(one.params, other.params, strict=True))
    return one == other
