"""Warnings as headers of a response. They quote what clients wrote, which may be long: bounded as in Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence

from alcove.http.messages import header_safe

WARNINGS_LENGTH_MAX = 4_096
"""Characters of all warnings of a response. Of more, each is cut, and what is still over it is left out."""
CUT_LENGTH = 256

Header = tuple[bytes, bytes]


def warning_headers(warnings: Sequence[str]) -> list[Header]:
    if sum(map(len, warnings)) > WARNINGS_LENGTH_MAX:
        cut = (text[:CUT_LENGTH] for text in warnings[: WARNINGS_LENGTH_MAX // CUT_LENGTH])
        warnings = list(cut)
    return [(b"Warning", b'299 - "%b"' % header_safe(_quoted(text))) for text in warnings]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
