"""Paths of fields, as error messages tell them: `spec.containers[0].image`.

While walking, a path is a chain of steps from the inside out; it becomes a text only when something is
told about it. Texts are bounded in length, and tellers in number: keys are the client's, and a body with
long keys, nested deeply, could otherwise make gigabytes of paths.
"""

from __future__ import annotations

from typing import NamedTuple

REPORTED_MAX = 100
"""Most unknown or duplicate fields that are told of one body, as in Kubernetes."""
LENGTH_MAX = 1024


class FieldPath(NamedTuple):
    """One step, a field's name or a list's index, and the path before it."""

    before: FieldPath | None
    step: str | int

    def __str__(self) -> str:
        steps: list[str | int] = []
        at: FieldPath | None = self
        while at is not None:
            steps.append(at.step)
            at = at.before
        return show(steps[::-1])


def show(steps: list[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")
    return text if len(text) <= LENGTH_MAX else f"{text[:LENGTH_MAX]}…"
