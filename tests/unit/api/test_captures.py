"""Filters of captures: classic BPF programs as text and in a query."""

import pytest

from alcove.api import captures
from alcove.api.errors import BadRequest

LINES = ["40 0 0 12", "21 0 1 2048", "6 0 0 262144", "6 0 0 0"]


def test_a_program_survives_the_way_to_the_node() -> None:
    program = captures.assemble(LINES)
    assert len(program) == 8 * len(LINES)
    assert captures.decode(captures.encode(program)) == program
    assert captures.lines_of(program) == LINES
    assert captures.decode("") == b""


@pytest.mark.parametrize("text", ["not base64!", "AAAA", captures.encode(bytes(8 * 257))])
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        captures.decode(text)


@pytest.mark.parametrize(
    "line",
    ["", "1 2 3", "1 2 3 x", "65536 0 0 0", "6 256 0 0", "6 0 0 -1", "6 0 0 " + "9" * 400, "1 " * 100_000],
)
def test_what_is_no_instruction_is_refused(line: str) -> None:
    with pytest.raises(BadRequest):
        captures.assemble([line])
