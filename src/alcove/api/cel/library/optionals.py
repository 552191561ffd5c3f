"""Optional values, the results of `a.?b`, `a[?i]` and `first()`, and their methods."""

from typing import Any

from alcove.api.cel import operators
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.times import Duration
from alcove.api.cel.types import BOOL, INT, A, B, list_of, map_of, optional_of
from alcove.api.cel.values import ABSENT, Optional

OPTIONALS = Library()
_function, _member = OPTIONALS.function, OPTIONALS.member
_OPTIONAL, _LIST, _MAP = optional_of(A), list_of(A), map_of(A, B)

_function("optional.of", (A,), _OPTIONAL)(Optional)
_function("optional.none", (), _OPTIONAL)(lambda: ABSENT)


@_function("optional.ofNonZeroValue", (A,), _OPTIONAL)
def _of_non_zero(value: Any) -> Optional:
    is_zero = value.nanos == 0 if isinstance(value, Duration) else value in (None, False, 0, "", b"", [], {})
    return ABSENT if is_zero else Optional(value)


@_member("value", (_OPTIONAL,), A)
def _value(optional: Optional) -> Any:
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


_member("hasValue", (_OPTIONAL,), BOOL)(lambda optional: optional.present)
_member("or", (_OPTIONAL, _OPTIONAL), _OPTIONAL)(lambda one, other: one if one.present else other)
_member("orValue", (_OPTIONAL, A), A)(lambda one, other: one.value if one.present else other)


def _unwrap(optionals: list[Optional]) -> list[Any]:
    return [optional.value for optional in optionals if optional.present]


_function("optional.unwrap", (list_of(_OPTIONAL),), _LIST, cost=len)(_unwrap)
_member("unwrapOpt", (list_of(_OPTIONAL),), _LIST, cost=len)(_unwrap)

_function("_[?_]", (_LIST, INT), _OPTIONAL)(operators.optional_index)
_function("_[?_]", (optional_of(_LIST), INT), _OPTIONAL)(operators.optional_index)
_function("_[?_]", (_MAP, A), optional_of(B))(operators.optional_index)
_function("_[?_]", (optional_of(_MAP), A), optional_of(B))(operators.optional_index)
_function("_[_]", (optional_of(_LIST), INT), _OPTIONAL)(operators.index)
_function("_[_]", (optional_of(_MAP), A), optional_of(B))(operators.index)
