"""The order of a strategically merged list.

Elements in the patch come in the patch's order, elements that only the server has in the server's order; the
two are interleaved in the server's order, where it has both.
"""

from collections import deque
from collections.abc import Hashable
from typing import Any

import orjson

from alcove.api.errors import BadRequest
from alcove.api.objects import Object

_SHOWN_LENGTH_MAX = 200


def shown(value: Any) -> str:
    """Format a value for an error message, truncated if it is long."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"


def identity(value: Any) -> Hashable:
    """Return the value by which elements and merge keys are compared: in JSON, true is not 1."""
    if type(value) is dict or type(value) is list:
        raise BadRequest(f"a list is merged by plain values, not by {shown(value)}")
    return (type(value) is bool, value)


def merge_key_of(element: Any, key: str) -> Hashable:
    """Return the merge key of a list's element; for a list of scalars (no `key`), the element itself."""
    if not key:
        return identity(element)
    if type(element) is not dict:
        raise BadRequest(f"expected a map with the merge key {key}, but received {shown(element)}")
    if key not in element:
        raise BadRequest(f"map: {shown(element)} does not contain declared merge key: {key}")
    return identity(element[key])


def check(patch_list: list[Any], order: list[Any], key: str) -> None:
    """A patch's list must be a subsequence of its `$setElementOrder`, not counting deletions."""
    names = [merge_key_of(element, key) for element in patch_list if not _is_special(element)]
    rest = iter([merge_key_of(element, key) for element in order])
    if names and order and not all(name in rest for name in names):
        raise BadRequest(
            f"The order in patch list:\n{shown(patch_list)}\n doesn't match $setElementOrder list:\n{shown(order)}\n"
        )


def _is_special(element: Any) -> bool:
    return type(element) is dict and "$patch" in element


def arrange(merged: list[Any], patch_order: list[Any], server_order: list[Any], key: str) -> list[Any]:
    """Return `merged` in order: elements in `patch_order` follow that, the rest follows `server_order`."""
    patch_positions = _positions(patch_order, key)
    server_positions = _positions(server_order, key)
    named = [(merge_key_of(element, key), element) for element in merged]
    patched = sorted(
        (pair for pair in named if pair[0] in patch_positions), key=lambda pair: patch_positions[pair[0]]
    )
    others = deque(pair for pair in named if pair[0] not in patch_positions)
    arranged: list[Any] = []
    for name, element in patched:
        while others and _before(others[0][0], name, server_positions):
            arranged.append(others.popleft()[1])
        arranged.append(element)
    return arranged + [element for _, element in others]


def _before(left: Hashable, right: Hashable, positions: dict[Hashable, int]) -> bool:
    return left in positions and right in positions and positions[left] < positions[right]


def _positions(elements: list[Object], key: str) -> dict[Hashable, int]:
    positions: dict[Hashable, int] = {}
    for position, element in enumerate(elements):
        positions.setdefault(merge_key_of(element, key), position)
    return positions
