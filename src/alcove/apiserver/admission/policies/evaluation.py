"""Compiles and evaluates expressions of policies and webhooks without blocking the event loop.

Compiling is always done in a thread: it takes up to half a second, and the first time it loads CEL. Evaluating is
done on the loop as long as it costs little, which is nearly always, and else again in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import orjson

from alcove.api.ids import TenantId
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.computing import ComputeThreads

T = TypeVar("T")

COMPILED_MAX = 512
"""Compiled sources that are kept; beyond that, the oldest is dropped."""


class CompiledExpressions(Generic[T]):
    """What a source (the spec of a policy, a list of match conditions) is compiled to. Tenants with equal
    sources share it."""

    def __init__(self, threads: ComputeThreads, compile: Callable[[Any], T]) -> None:
        self._threads = threads
        self._compile = compile
        self._compiled: dict[bytes, T] = {}

    async def get(self, tenant: TenantId, source: Any) -> T:
        key = orjson.dumps(source, option=orjson.OPT_SORT_KEYS)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = await self._threads.run(tenant, lambda: self._compile(orjson.loads(key)))
            while len(self._compiled) >= COMPILED_MAX:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[key] = compiled
        return compiled


async def evaluated(threads: ComputeThreads, attributes: Attributes, evaluate: Callable[[], Any]) -> Any:
    """The result of `evaluate`, which evaluates expressions with the request's budget and may be repeated."""
    budget = attributes.cel_budget
    left = budget.left

    def attempt() -> Any:
        budget.left = left
        return evaluate()

    return await threads.for_size(attributes.tenant, 0, attempt)
