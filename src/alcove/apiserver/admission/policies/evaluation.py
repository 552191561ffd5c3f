"""Compiles and evaluates expressions of policies and webhooks without blocking the event loop.

Compiling is always done in a thread: it takes up to half a second, and the first time it loads CEL. Evaluating is
done on the loop as long as it costs little, which is nearly always, and else again in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import orjson

from alcove.api.ids import TenantId
from alcove.api.weighed_cache import WeighedCache
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.computing import ComputeThreads

T = TypeVar("T")

COMPILED_BYTES_MAX = 1 << 20
"""All sources whose compiled form is kept, which takes up to a hundred times as much memory. Beyond that, the tenant with most loses
those that it has not used for longest."""
SOURCE_BYTES_MAX = 64 << 10
"""A source whose compiled form is kept. A longer one is compiled for each request, in its tenant's own time."""
SOURCE_BYTES_MIN = 256
"""What a shorter one counts as."""


class CompiledExpressions(Generic[T]):
    """What a source (the spec of a policy, a list of match conditions) is compiled to. Tenants with equal
    sources share it; it counts for the one that used it first."""

    def __init__(self, threads: ComputeThreads, compile: Callable[[Any], T]) -> None:
        self._threads = threads
        self._compile = compile
        self._compiled: WeighedCache[bytes, T] = WeighedCache(COMPILED_BYTES_MAX, SOURCE_BYTES_MAX)

    async def get(self, tenant: TenantId, source: Any) -> T:
        key = orjson.dumps(source, option=orjson.OPT_SORT_KEYS)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = await self._threads.run(tenant, lambda: self._compile(orjson.loads(key)))
            self._compiled.put(tenant, key, compiled, max(SOURCE_BYTES_MIN, len(key)))
        return compiled


async def evaluated(threads: ComputeThreads, attributes: Attributes, evaluate: Callable[[], Any]) -> Any:
    """The result of `evaluate`, which evaluates expressions with the request's budget and may be repeated."""
    budget = attributes.cel_budget
    left = budget.left

    def attempt() -> Any:
        budget.left = left
        return evaluate()

    return await threads.for_size(attributes.tenant, 0, attempt)
