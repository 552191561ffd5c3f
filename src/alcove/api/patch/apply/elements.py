"""Path elements of the FieldsV1 format: `f:NAME`, `k:{"KEY":VALUE}`, `v:VALUE`, `i:INDEX`.

An element is stored as its canonical text (keys sorted, JSON compact), so that elements are compared as
strings.
"""

from typing import Any

import orjson

MEMBER = "."
"""Not an element: in a field set it says that the path up to this node is itself a member."""

_NUMBER, _STRING, _BOOLEAN, _LIST, _MAP, _NULL = range(6)
_RANKS: dict[type, int] = {
    int: _NUMBER,
    float: _NUMBER,
    str: _STRING,
    bool: _BOOLEAN,
    list: _LIST,
    dict: _MAP,
    type(None): _NULL,
}


def field(name: str) -> str:
    return "f:" + name


def key(values: dict[str, Any]) -> str:
    """Return the element of an associative list's item with these key fields, given in alphabetical order."""
    return "k:" + orjson.dumps(values).decode()


def value(item: Any) -> str:
    """Return the element of a set's item."""
    return "v:" + orjson.dumps(item).decode()


def parse(text: str) -> str | None:
    """Return `text` in canonical form; None for an unknown type of element. Raises ValueError."""
    sort, body = text[:2], text[2:]
    if len(text) < 2 or text[1] != ":":
        raise ValueError(f"missing colon: {text}")
    match sort:
        case "f:":
            return text
        case "v:":
            return value(orjson.loads(body))
        case "k:":
            keys = orjson.loads(body)
            if type(keys) is not dict:
                raise ValueError(f"a key must be an object: {text}")
            return key(dict(sorted(keys.items())))
        case "i:":
            return f"i:{int(body)}"
        case _:
            return None


def order(element: str) -> tuple[Any, ...]:
    """Sort key in Kubernetes' order: fields by name, keys and values by value, numbers numerically."""
    body = element[2:]
    match element[:2]:
        case "f:":
            return (0, body)
        case "k:":
            return (1, *((name, *_rank(part)) for name, part in orjson.loads(body).items()))
        case "v:":
            return (2, *_rank(orjson.loads(body)))
        case "i:":
            return (3, int(body))
        case _:
            return (-1,)


def _rank(part: Any) -> tuple[int, Any]:
    rank = _RANKS[type(part)]
    return rank, part if rank < _LIST else orjson.dumps(part)


def shown(path: tuple[str, ...]) -> str:
    """Format a path for a message: `.spec.containers[name="app"].image`."""
    return "".join(map(_shown, path))


def _shown(element: str) -> str:
    body = element[2:]
    match element[:2]:
        case "f:":
            return "." + body
        case "k:":
            keys = orjson.loads(body)
            return f"[{','.join(f'{name}={orjson.dumps(part).decode()}' for name, part in keys.items())}]"
        case "v:":
            return f"[={body}]"
        case _:
            return f"[{body}]"
