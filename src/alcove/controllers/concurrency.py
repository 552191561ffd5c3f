"""Several requests at once, bounded by the client's connections; the first error is raised when all ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Their results, in order. All are done before an error of one is raised, so that none goes on alone."""
    done = await asyncio.gather(*work, return_exceptions=True)
    error = next((each for each in done if isinstance(each, BaseException)), None)
    if error is None:
        return done  # type: ignore[return-value]
    try:
        raise error
    finally:
        # The error holds this frame, which would hold the error, and with it every answer.
        del done, error
