"""Decodes a JSON value the way Kubernetes' decoder reads it into a kind's Go struct.

Types are checked (400, with the messages of Go's decoder), nulls become Go's zero values, quantities and
times get their canonical form, unknown fields are dropped and reported. This runs on every write: one pass
over the values, and no path is built unless there is an error.
"""

import binascii
import re
from collections.abc import Callable
from typing import Any

from alcove.api import quantity
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.schema import timestamps
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.paths import show
from alcove.api.schema.prune import prune

_INT32 = (-(2**31), 2**31 - 1)
_INT64 = (-(2**63), 2**63 - 1)
_NOT_BASE64 = re.compile("[^A-Za-z0-9+/]")


class _DecodeError(Exception):
    """A value that cannot be decoded. The walk adds the path to it, innermost step first."""

    def __init__(self, message: str = "") -> None:
        self.message = message
        """The message for the value (of quantities, times, base64); empty: its type is wrong."""
        self.value: Any = None
        self.node: SchemaNode | None = None
        self.struct = ""
        self.steps: list[str | int] = []


def decode(node: SchemaNode, obj: Any, *, unknown: list[str] | None = None) -> Object:
    """Change `obj` in place to what the kind of `node` can hold, and return it.

    Unknown fields are removed; their paths (`spec.containers[0].foo`) are added to `unknown`.
    Raises BadRequest for values of a wrong type.
    """
    if _read(node, obj).has_unknown:
        prune(node, obj, unknown)
    return obj  # type: ignore[no-any-return]


def check_types(node: SchemaNode, obj: Any) -> None:
    """As `decode`, but unknown fields stay: another server may know them."""
    _read(node, obj)


def _read(node: SchemaNode, obj: Any) -> "_Walk":
    walk = _Walk()
    try:
        walk.read_object(node, obj)
    except _DecodeError as error:
        raise BadRequest(_message(error, node, obj)) from None
    except RecursionError:
        raise BadRequest(f"{_unhandled(node, obj)}: nested too deeply") from None
    return walk


class _Walk:
    """One pass over an object. Unknown fields are not removed, only recorded."""

    __slots__ = ("has_unknown",)

    def __init__(self) -> None:
        self.has_unknown = False

    def read_object(self, node: SchemaNode, obj: Any) -> Any:
        if type(obj) is not dict:
            raise _mismatch(node, obj)
        nulls: list[str] = []
        properties = node.properties
        field = ""
        try:
            for field, value in obj.items():
                part = properties.get(field)
                if part is None:
                    self.has_unknown = True
                elif type(value) is part.exact:
                    continue
                elif value is None:
                    nulls.append(field)
                else:
                    result = _READERS[part.type](self, part, value)
                    if result is not value:
                        obj[field] = result
        except _DecodeError as error:
            error.steps.append(field)
            error.struct = error.struct or node.name
            raise
        for field in nulls:
            del obj[field]
        return obj

    def read_map(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is not dict:
            raise _mismatch(node, value)
        self._read_all(_inner(node.values), value, value.items())
        return value

    def read_list(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is not list:
            raise _mismatch(node, value)
        self._read_all(_inner(node.items), value, enumerate(value))
        return value

    def _read_all(self, node: SchemaNode, into: Any, items: Any) -> None:
        """Decode the values of a map or list; null becomes the zero value of the type."""
        exact, reader = node.exact, _READERS[node.type]
        key: str | int = 0
        try:
            for key, item in items:
                if type(item) is not exact:
                    result = reader(self, node, item) if item is not None else _zero(node)
                    if result is not item:
                        into[key] = result
        except _DecodeError as error:
            error.steps.append(_Entry(key) if isinstance(key, str) else key)
            raise

    def read_string(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is not str:
            raise _mismatch(node, value)
        if node.format == "byte":
            return _base64(value)
        try:
            return timestamps.canonical(value, micro=node.name == "MicroTime")
        except ValueError as error:
            raise _DecodeError(str(error)) from None

    def read_integer(self, node: SchemaNode, value: Any) -> Any:
        low, high = _INT32 if node.format == "int32" else _INT64
        if type(value) is int and low <= value <= high:
            return value
        raise _mismatch(node, value)

    def read_number(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is int or type(value) is float:
            return value
        raise _mismatch(node, value)

    def read_boolean(self, node: SchemaNode, value: Any) -> Any:
        raise _mismatch(node, value)  # A boolean has an exact type and does not get here.

    def read_int_or_string(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is str or (type(value) is int and _INT32[0] <= value <= _INT32[1]):
            return value
        raise _mismatch(node, value)

    def read_quantity(self, node: SchemaNode, value: Any) -> Any:
        if type(value) is not str and type(value) is not int and type(value) is not float:
            raise _DecodeError(quantity.FORMAT_ERROR)
        try:
            return quantity.canonical(value)
        except ValueError as error:
            raise _DecodeError(str(error)) from None

    def read_any(self, node: SchemaNode, value: Any) -> Any:
        return value


class _Entry(str):
    """A step to a map's entry, not to a struct's field: Go's decoder omits these from its paths."""


_READERS: dict[SchemaType, Callable[[_Walk, SchemaNode, Any], Any]] = {
    SchemaType.OBJECT: _Walk.read_object,
    SchemaType.MAP: _Walk.read_map,
    SchemaType.LIST: _Walk.read_list,
    SchemaType.STRING: _Walk.read_string,
    SchemaType.INTEGER: _Walk.read_integer,
    SchemaType.NUMBER: _Walk.read_number,
    SchemaType.BOOLEAN: _Walk.read_boolean,
    SchemaType.INT_OR_STRING: _Walk.read_int_or_string,
    SchemaType.QUANTITY: _Walk.read_quantity,
    SchemaType.ANY: _Walk.read_any,
}

_ZERO: dict[SchemaType, Callable[[], Any]] = {
    SchemaType.OBJECT: dict,
    SchemaType.MAP: dict,
    SchemaType.LIST: list,
    SchemaType.STRING: str,
    SchemaType.INTEGER: int,
    SchemaType.NUMBER: int,
    SchemaType.BOOLEAN: bool,
    SchemaType.INT_OR_STRING: int,
    SchemaType.QUANTITY: lambda: "0",
    SchemaType.ANY: lambda: None,
}


def _zero(node: SchemaNode) -> Any:
    return _ZERO[node.type]()


def _inner(node: SchemaNode | None) -> SchemaNode:
    assert node is not None, "a map without values or a list without items"
    return node


def _base64(value: str) -> str:
    """Remove line breaks: Go's decoder skips them, and writes base64 back without them."""
    text = value.replace("\n", "").replace("\r", "")
    try:
        binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        wrong = _NOT_BASE64.search(value)
        raise _DecodeError(
            f"illegal base64 data at input byte {wrong.start() if wrong else len(value)}"
        ) from None
    return text


def _mismatch(node: SchemaNode, value: Any) -> _DecodeError:
    error = _DecodeError()
    error.node, error.value = node, value
    return error


def _message(error: _DecodeError, root: SchemaNode, obj: Any) -> str:
    start = _unhandled(root, obj)
    steps = error.steps[::-1]
    if error.message:
        return f"{start}: {error.message} (at {show(steps)})"
    assert error.node is not None
    version = _version(obj)
    prefix = f"json: cannot unmarshal {_json_name(error.value, error.node)} into Go"
    if not steps:
        return f"{start}: {prefix} value of type {version}.{root.name}"
    fields = show([step for step in steps if type(step) is str])
    return f"{start}: {prefix} struct field {error.struct}.{fields} of type {_go_type(error.node, version)}"


def _unhandled(root: SchemaNode, obj: Any) -> str:
    return f'{root.name} in version "{_version(obj)}" cannot be handled as a {root.name}'


def _version(obj: Any) -> str:
    api_version = obj.get("apiVersion") if isinstance(obj, dict) else None
    return api_version.rpartition("/")[2] if isinstance(api_version, str) and api_version else "v1"


_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}


def _json_name(value: Any, node: SchemaNode) -> str:
    name = _NAMES.get(type(value), "null")
    # A number that is out of range is shown; a number where no number belongs is not.
    return f"number {value}" if name == "number" and node.type is SchemaType.INTEGER else name


def _go_type(node: SchemaNode, version: str) -> str:
    match node.type:
        case SchemaType.LIST:
            return "[]uint8" if node.items is None else f"[]{_go_type(node.items, version)}"
        case SchemaType.MAP:
            return f"map[string]{_go_type(_inner(node.values), version)}"
        case SchemaType.OBJECT if node.name:
            return f"{version}.{node.name}"
        case SchemaType.INTEGER:
            return node.format or "int64"
        case SchemaType.BOOLEAN:
            return "bool"
        case SchemaType.NUMBER:
            return "float64"
        case SchemaType.INT_OR_STRING:
            return "intstr.IntOrString"
        case SchemaType.QUANTITY:
            return "resource.Quantity"
        case SchemaType.STRING:
            return "[]uint8" if node.format == "byte" else "string"
        case _:
            return "struct {}"
