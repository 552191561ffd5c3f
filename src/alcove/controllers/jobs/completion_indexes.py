"""Completion indexes of pods, and the notation for sets of them (`0-2,5`)."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.objects import Object, get

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


def is_indexed(job: Object) -> bool:
    return bool(get(job, "spec", "completionMode") == "Indexed")


def index_of(pod: Object) -> int | None:
    return number(objects.annotations(pod).get(INDEX, ""))


def failures_before(pod: Object) -> int:
    """The number of failures of the pod's index before the pod was created."""
    return number(objects.annotations(pod).get(FAILURES, "")) or 0


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def parse(text: str, completions: int) -> set[int]:
    """Invalid parts and indexes beyond `completions` are omitted."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = number(first), number(last or first)
        if low is not None and high is not None:
            indexes.update(range(low, min(high, completions - 1) + 1))
    return indexes


def render(indexes: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for each in sorted(indexes):
        if parts and parts[-1][1] == each - 1:
            parts[-1][1] = each
        else:
            parts.append([each, each])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
