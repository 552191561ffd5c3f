"""Functions shared by all kinds of patches.

A patch never changes the object it is given: it works on a copy, which the caller may then change in place
(defaults, admission).
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import orjson

from alcove.api.errors import BadRequest, Invalid

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
}


def copy(value: _R) -> _R:
    """A deep copy of a JSON value: a round trip through orjson, several times faster than copy.deepcopy."""
    return cast(_R, orjson.loads(orjson.dumps(value)))


def type_name(value: Any) -> str:
    """Return JSON's name of a value's type."""
    return _NAMES.get(type(value), type(value).__name__)


def rejected(message: str) -> Invalid:
    """Return the 422 for a well-formed patch that cannot be applied to this object, with Kubernetes' text."""
    return Invalid(f"the server rejected our request due to an error in our request: {message}")


def bounded(patching: Callable[_P, _R]) -> Callable[_P, _R]:
    """Turn the error for a document nested too deep to be walked or encoded into a 400."""

    @wraps(patching)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return patching(*args, **kwargs)
        except (RecursionError, orjson.JSONEncodeError) as error:
            raise BadRequest("the patch cannot be applied: the result is nested too deeply") from error

    return checked
