"""Texts that clients write are remembered by their results only while they are short."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from alcove.api import quantity, service_ips
from alcove.api.kinds.core import resources
from alcove.api.selectors import fields, query
from alcove.api.short_cache import LENGTH_MAX, cache_short
from alcove.apiserver import paths
from alcove.apiserver.cache import entries
from alcove.apiserver.rbac import rules

LONG = 100_000


def test_a_short_text_is_computed_once_and_a_long_one_each_time() -> None:
    computed: list[str] = []

    @cache_short(8)
    def length(text: str) -> int:
        computed.append(text)
        return len(text)

    short, long = "a" * LENGTH_MAX, "a" * (LENGTH_MAX + 1)
    assert [length(text) for text in (short, short, long, long)] == [256, 256, 257, 257]
    assert computed == [short, long, long]


def _with_long_labels(text: str) -> object:
    return entries._shared_labels({f"{text}{number}": "x" for number in range(100)})


def _with_long_rule(text: str) -> object:
    return rules.compile_rule({"verbs": ["get"], "apiGroups": [""], "resources": [text]})


@pytest.mark.parametrize(
    ("take", "make"),
    [
        (quantity.parse, lambda: "0" * LONG + "1"),
        (resources._rounded, lambda: "0" * LONG + "1"),
        (paths.parse, lambda: "/api/v1/namespaces/" + "n" * LONG),
        (query.parse, lambda: "a" + " " * LONG + "= b"),
        (fields.parse_fields, lambda: "metadata.name=" + "b" * LONG),
        (service_ips._parse, lambda: "x" * LONG),
        (_with_long_labels, lambda: "l" * (LONG // 100)),
        (_with_long_rule, lambda: "r" * LONG),
    ],
)
def test_nothing_is_kept_of_what_is_long(take: Callable[[str], object], make: Callable[[], str]) -> None:
    """A tenant could fill the API server's memory by requests that store nothing."""
    tracemalloc.start()
    try:
        take(make())
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < LONG // 2
    finally:
        tracemalloc.stop()
