"""Results for texts that clients write, kept for the texts that come again: many short ones, no long one.

`lru_cache` bounds how many results are kept and not how long their texts are: quantities with a megabyte of leading
zeros, a few thousand of them, would take gigabytes that no tenant's account has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

LENGTH_MAX = 256
"""Characters of a text whose result is kept. Longer ones are computed each time."""

Result = TypeVar("Result")


def cache_short(results_max: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Decorates a function of one text."""

    def decorate(compute: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(results_max)(compute)

        @wraps(compute)
        def look_up(text: str) -> Result:
            return kept(text) if len(text) <= LENGTH_MAX else compute(text)

        return look_up

    return decorate
