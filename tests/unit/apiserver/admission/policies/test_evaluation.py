"""Compiled expressions are kept while they are in use, and no more of them than a bound."""

from typing import Any

import pytest

from alcove.api.ids import TenantId
from alcove.apiserver.admission.policies import evaluation
from alcove.apiserver.admission.policies.evaluation import CompiledExpressions
from alcove.apiserver.computing import ComputeThreads

ACME = TenantId("acme")


class Compiler:
    def __init__(self) -> None:
        self.compiled: list[int] = []

    def __call__(self, source: Any) -> int:
        self.compiled.append(source["number"])
        return int(source["number"])


async def test_a_source_is_compiled_once_for_all_who_have_it() -> None:
    compiler = Compiler()
    expressions = CompiledExpressions(ComputeThreads(), compiler)
    for tenant in (ACME, TenantId("other"), ACME):
        assert await expressions.get(tenant, {"number": 1, "text": "x"}) == 1
    assert compiler.compiled == [1]


async def test_changing_a_large_policy_again_and_again_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiled source takes a hundred times its bytes."""
    monkeypatch.setattr(evaluation, "COMPILED_BYTES_MAX", 100_000)
    compiler = Compiler()
    expressions = CompiledExpressions(ComputeThreads(), compiler)
    for number in range(50):
        await expressions.get(ACME, {"number": number, "text": "x" * 10_000})
    assert expressions._compiled.weight <= 100_000
    await expressions.get(ACME, {"number": 49, "text": "x" * 10_000})
    assert compiler.compiled == list(range(50))


async def test_a_tenant_that_changes_its_policies_again_and_again_has_no_neighbours_compiled_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiling takes up to half a second of the neighbour's own time."""
    monkeypatch.setattr(evaluation, "COMPILED_BYTES_MAX", 100_000)
    compiler = Compiler()
    expressions = CompiledExpressions(ComputeThreads(), compiler)
    quiet = [{"number": -number, "text": "x" * 1_000} for number in range(1, 4)]
    for source in quiet:
        await expressions.get(TenantId("quiet"), source)
    for number in range(50):
        await expressions.get(ACME, {"number": number, "text": "x" * 10_000})
    compiler.compiled.clear()
    for source in quiet:
        await expressions.get(TenantId("quiet"), source)
    assert compiler.compiled == []


async def test_one_that_is_too_long_to_be_kept_pushes_out_no_other() -> None:
    compiler = Compiler()
    expressions = CompiledExpressions(ComputeThreads(), compiler)
    for number in (1, 2, 2, 1):
        text = "x" * (evaluation.SOURCE_BYTES_MAX if number == 2 else 1)
        assert await expressions.get(ACME, {"number": number, "text": text}) == number
    assert compiler.compiled == [1, 2, 2]
