"""Progress output of a long command: a line with the duration when each step is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from alcove.cli.output import is_coloured

WIDTH = 14


class ProgressStep:
    def __init__(self) -> None:
        self.detail = ""


class Progress:
    def __init__(self) -> None:
        self._began = time.monotonic()

    @contextmanager
    def step(self, name: str) -> Iterator[ProgressStep]:
        """Set `detail` in the block. A step that raises is shown as failed."""
        began, step = time.monotonic(), ProgressStep()
        try:
            yield step
        except BaseException:
            self._line("failed", name, step.detail, began)
            raise
        self._line("ok", name, step.detail, began)

    def say(self, text: str = "") -> None:
        typer.echo(text)

    def warn(self, text: str) -> None:
        typer.secho(text, fg=typer.colors.YELLOW if is_coloured() else None)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _line(self, outcome: str, name: str, detail: str, began: float) -> None:
        sign = "✓" if outcome == "ok" else "✗"
        if is_coloured():
            sign = typer.style(sign, fg=typer.colors.GREEN if outcome == "ok" else typer.colors.RED)
        typer.echo(f"  {sign} {name:<{WIDTH}} {detail:<46} {time.monotonic() - began:4.1f} s")
