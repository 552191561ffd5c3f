"""Concurrent requests, bounded by the client's connection limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all coroutines concurrently and return their results in order.

    The first error is raised only after all have finished, so that none keeps running in the background.
    """
    results = await asyncio.gather(*work, return_exceptions=True)
    error = next((each for each in results if isinstance(each, BaseException)), None)
    if error is None:
        return results  # type: ignore[return-value]
    try:
        raise error
    finally:
        # The error references this frame: without `del` a reference cycle would keep every result alive.
        del results, error
