"""The order of a strategically merged list.

What the patch names comes in the patch's order, what only the server has in the server's; the two
are interleaved as the server had them, where it had both.
"""

from collections import deque
from collections.abc import Hashable
from typing import Any

import orjson

from alcove.api.errors import BadRequest
from alcove.api.objects import Object

_SHOWN_LENGTH_MAX = 200


def shown(value: Any) -> str:
    """A value as an error tells it, cut where it gets long."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[:_SHOWN_LENGTH_MAX] + "…"


def identity(value: Any) -> Hashable:
    """What two elements or merge keys are compared by: in JSON, true is not 1."""
    if type(value) is dict or type(value) is list:
        raise BadRequest(f"a list is merged by plain values, not by {shown(value)}")
    return (type(value) is bool, value)


def merge_key_of(element: Any, key: str) -> Hashable:
    """The merge key of a list's element; of an element of a list of plain values (no `key`), itself."""
    if not key:
        return identity(element)
    if type(element) is not dict:
        raise BadRequest(f"expected a map with the merge key {key}, but received {shown(element)}")
    if key not in element:
        raise BadRequest(f"map: {shown(element)} does not contain declared merge key: {key}")
    return identity(element[key])


def check(given: list[Any], order: list[Any], key: str) -> None:
    """A patch's list must be a part of its `$setElementOrder`, in the same order; deletions aside."""
    names = [merge_key_of(element, key) for element in given if not _is_special(element)]
    rest = iter([merge_key_of(element, key) for element in order])
    if names and order and not all(name in rest for name in names):
        raise BadRequest(
            f"The order in patch list:\n{shown(given)}\n doesn't match $setElementOrder list:\n{shown(order)}\n"
        )


def _is_special(element: Any) -> bool:
    return type(element) is dict and "$patch" in element


def arrange(merged: list[Any], patch_order: list[Any], server_order: list[Any], key: str) -> list[Any]:
    """`merged`, in order. Elements it shares with `patch_order` follow that, the rest `server_order`."""
    wanted = _places(patch_order, key)
    had = _places(server_order, key)
    named = [(merge_key_of(element, key), element) for element in merged]
    patched = sorted((pair for pair in named if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    others = deque(pair for pair in named if pair[0] not in wanted)
    arranged: list[Any] = []
    for name, element in patched:
        while others and _before(others[0][0], name, had):
            arranged.append(others.popleft()[1])
        arranged.append(element)
    return arranged + [element for _, element in others]


def _before(left: Hashable, right: Hashable, places: dict[Hashable, int]) -> bool:
    return left in places and right in places and places[left] < places[right]


def _places(elements: list[Object], key: str) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for place, element in enumerate(elements):
        places.setdefault(merge_key_of(element, key), place)
    return places
