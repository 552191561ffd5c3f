"""Sets that mostly have one element: it is kept as it is, without the memory of a set.

    found = added(None, "a")     # "a"
    found = added(found, "b")    # {"a": None, "b": None}
    list(each(found))            # ["a", "b"]

Elements are hashable, so none is a dictionary.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def added(found: T | dict[T, None] | None, element: T) -> T | dict[T, None]:
    """The set with one more element."""
    if found is None or found == element:
        return element
    if not isinstance(found, dict):
        return {found: None, element: None}
    found[element] = None
    return found


def removed(found: T | dict[T, None] | None, element: T) -> T | dict[T, None] | None:
    """The set without an element; None if it was the last one."""
    if not isinstance(found, dict):
        return None if found == element else found
    found.pop(element, None)
    return found or None


def each(found: T | dict[T, None] | None) -> Iterable[T]:
    """The elements, in the order in which they were added."""
    if found is None:
        return ()
    return found if isinstance(found, dict) else (found,)
