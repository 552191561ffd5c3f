"""Lines of nodes, as they come in parts."""

from collections.abc import AsyncIterator

import pytest

from alcove.apiserver.sight import flow_watches
from alcove.apiserver.sight.flow_watches import split


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield each


async def test_lines_are_put_together_and_what_is_cut_off_is_dropped() -> None:
    found = [line async for line in split(parts(b'{"a"', b":1}\n\n{", b'"b":2}\n{"c'))]
    assert found == [b'{"a":1}', b"", b'{"b":2}']


async def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_watches, "LINE_BYTES_MAX", 10)
    with pytest.raises(ConnectionError, match="too long"):
        [line async for line in split(parts(*([b"x" * 6] * 3)))]
