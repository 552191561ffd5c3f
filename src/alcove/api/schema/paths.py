"""Field paths in error messages: `spec.containers[0].image`.

During a walk, a path is a linked list of steps from the inside out; it is formatted only for an error. The
length of a path and the number of reported paths are bounded: clients choose the keys, and a body with long,
deeply nested keys could otherwise produce gigabytes of paths.
"""

from __future__ import annotations

from typing import NamedTuple

REPORTED_MAX = 100
"""Maximum number of unknown or duplicate fields reported per body, as in Kubernetes."""
LENGTH_MAX = 1024


class FieldPath(NamedTuple):
    """One step (a field name or a list index) and the path before it."""

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
