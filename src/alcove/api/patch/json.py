"""JSON patch (RFC 6902), with the limits and the leniency of Kubernetes' API server.

Beyond the RFC, as in Kubernetes: a negative index counts from a list's end, and testing a missing field
against null succeeds. A patch applies completely or not at all.
"""

import re
from collections.abc import Callable
from typing import Any

import orjson

from alcove.api.errors import BadRequest, TooLarge
from alcove.api.objects import Object
from alcove.api.patch.document import bounded, copy, rejected, type_name
from alcove.api.schema.body import VALUES_MAX, count_values

OPERATIONS_MAX = 10_000
COPIED_BYTES_MAX = 3 * 1024 * 1024
"""Maximum sum of bytes that `copy` operations may copy: each could double the document. They may copy VALUES_MAX values."""

_INDEX = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MISSING = object()


class _Document:
    """The document being changed, and the number of bytes and values copied inside it so far."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied_bytes = 0
        self.copied_values = 0

    def get(self, path: str) -> Any:
        """Return the value at `path`, or _MISSING for an absent field. Raises Invalid for other gaps."""
        if not path:
            return self.root
        parent, step = self._parent(path)
        return parent.get(step, _MISSING) if type(parent) is dict else parent[_index(parent, step, path)]

    def add(self, path: str, value: Any) -> None:
        if not path:
            self.root = value
            return
        parent, step = self._parent(path)
        if type(parent) is dict:
            parent[step] = value
        elif step == "-":
            parent.append(value)
        else:
            parent.insert(_index(parent, step, path, extra=1), value)

    def replace(self, path: str, value: Any) -> None:
        if self.get(path) is _MISSING:
            raise rejected(f"replace operation does not apply: there is no {path}")
        if not path:
            self.root = value
            return
        parent, step = self._parent(path)
        parent[step if type(parent) is dict else _index(parent, step, path)] = value

    def remove(self, path: str) -> Any:
        if not path:
            raise rejected("remove operation does not apply: the whole document cannot be removed")
        value = self.get(path)
        if value is _MISSING:
            raise rejected(f"remove operation does not apply: there is no {path}")
        parent, step = self._parent(path)
        del parent[step if type(parent) is dict else _index(parent, step, path)]
        return value

    def copy(self, source: str, path: str) -> None:
        encoded = orjson.dumps(self.source_value("copy", source))
        self.copied_bytes += len(encoded)
        if self.copied_bytes > COPIED_BYTES_MAX:
            raise rejected(
                f"copy operations would copy {self.copied_bytes} bytes, exceeding the limit {COPIED_BYTES_MAX}"
            )
        self.copied_values += count_values(encoded, VALUES_MAX)
        if self.copied_values >= VALUES_MAX:
            raise rejected(f"copy operations would copy more than {VALUES_MAX} values")
        self.add(path, orjson.loads(encoded))

    def move(self, source: str, path: str) -> None:
        if path.startswith(source + "/"):
            raise rejected(f"move operation does not apply: {path} is inside {source}")
        if source == path:
            self.source_value("move", source)
        else:
            self.add(path, self.remove(source))

    def test(self, path: str, expected: Any) -> None:
        value = self.get(path)
        if not same(None if value is _MISSING else value, expected):
            raise rejected(f"testing value {path} failed")

    def source_value(self, operation: str, source: str) -> Any:
        value = self.get(source)
        if value is _MISSING:
            raise rejected(f"{operation} operation does not apply: there is no {source}")
        return value

    def _parent(self, path: str) -> tuple[Any, str]:
        """Return the object or list that contains the last step of `path`, and that step."""
        first, *steps = path.split("/")
        if first:
            raise rejected(f'the path {path} does not start with "/"')
        if "~" in path:
            steps = [step.replace("~1", "/").replace("~0", "~") for step in steps]
        holder = self.root
        for step in steps[:-1]:
            holder = holder.get(step) if type(holder) is dict else holder[_index(holder, step, path)]
            if type(holder) is not dict and type(holder) is not list:
                raise rejected(f"the path {path} does not exist: there is nothing at {step}")
        return holder, steps[-1]


def _index(items: list[Any], step: str, path: str, extra: int = 0) -> int:
    """Return the index of `step` in `items`; up to `extra` positions behind the end are allowed."""
    if not _INDEX.fullmatch(step) or len(step) > 9:
        raise rejected(f"the path {path} does not exist: {step} is not an index of a list")
    at = int(step)
    length = len(items) + extra
    if not -length <= at < length:
        raise rejected(f"the path {path} does not exist: index {step} is out of bounds")
    return at + length if at < 0 else at


def same(left: Any, right: Any) -> bool:
    """JSON equality: unlike in Python, true is not 1."""
    if type(left) is not type(right):
        return type(left) is not bool and type(right) is not bool and bool(left == right)
    if type(left) is dict:
        return len(left) == len(right) and all(
            field in right and same(value, right[field]) for field, value in left.items()
        )
    if type(left) is list:
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


_Run = Callable[[_Document, str, str, Any], Any]

_OPERATIONS: dict[str, _Run] = {
    "add": lambda document, path, _, value: document.add(path, value),
    "remove": lambda document, path, _, __: document.remove(path),
    "replace": lambda document, path, _, value: document.replace(path, value),
    "move": lambda document, path, source, _: document.move(source, path),
    "copy": lambda document, path, source, _: document.copy(source, path),
    "test": lambda document, path, _, value: document.test(path, value),
}
_NEEDS = {"add": ("value",), "replace": ("value",), "move": ("from",), "copy": ("from",)}


@bounded
def apply(obj: Object, operations: Any) -> Object:
    """Return `obj` patched, as a new object. `operations` is the decoded body.

    Raises BadRequest for an invalid patch, TooLarge for too many operations, Invalid for a patch that does
    not apply (a failed test, a missing path).
    """
    if type(operations) is not list:
        raise BadRequest(
            f"error decoding patch: a JSON patch must be a list of operations, got {type_name(operations)}"
        )
    if len(operations) > OPERATIONS_MAX:
        raise TooLarge(
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(operations)}"
        )
    document = _Document(copy(obj))
    for operation in copy(operations):
        _run(document, operation)
    if type(document.root) is not dict:
        raise rejected("the patched document is not an object")
    return document.root


def _run(document: _Document, operation: Any) -> None:
    if type(operation) is not dict:
        raise BadRequest(f"error decoding patch: an operation must be an object, got {type_name(operation)}")
    for field in ("op", "path", "from"):
        if field in operation and type(operation[field]) is not str:
            raise BadRequest(f'error decoding patch: "{field}" of an operation must be a string')
    name = operation.get("op", "")
    run = _OPERATIONS.get(name)
    if run is None:
        raise rejected(f'unexpected kind of operation "{name}"')
    for needed in ("path", *_NEEDS.get(name, ())):
        if needed not in operation:
            raise rejected(f'{name} operation does not apply: it has no "{needed}"')
    run(document, operation["path"], operation.get("from", ""), operation.get("value"))
