"""The form of captures' filters, shared by clients, the API server and agents.

A filter is a classic BPF program, as `tcpdump -ddd` prints it: compiled by the client, checked by the node's kernel.
Nobody else parses an expression of a tenant.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from alcove.api.errors import BadRequest

INSTRUCTIONS_MAX = 256
CONTENT_TYPE = "application/x-pcapng"
_INSTRUCTION = struct.Struct("=HBBI")
_LINE_LENGTH_MAX = 40
_FIELDS_MAX = (1 << 16, 1 << 8, 1 << 8, 1 << 32)


def assemble(lines: Sequence[str]) -> bytes:
    """The program of instructions such as `40 0 0 12`: code, two jumps and an operand. Raises BadRequest."""
    if len(lines) > INSTRUCTIONS_MAX:
        raise BadRequest(f"spec.filter has {len(lines)} instructions; must be at most {INSTRUCTIONS_MAX}")
    program = b""
    for line in lines:
        words = line.split() if len(line) <= _LINE_LENGTH_MAX else []
        is_number = len(words) == 4 and all(word.isascii() and word.isdigit() for word in words)
        numbers = [int(word) for word in words] if is_number else []
        if not numbers or any(number >= bound for number, bound in zip(numbers, _FIELDS_MAX, strict=True)):
            raise BadRequest(
                f'spec.filter: "{line[:_LINE_LENGTH_MAX]}" is no instruction as printed by tcpdump -ddd'
            )
        program += _INSTRUCTION.pack(*numbers)
    return program


def encode(program: bytes) -> str:
    """For a query parameter."""
    return base64.urlsafe_b64encode(program).decode()


def decode(text: str) -> bytes:
    """Raises BadRequest."""
    try:
        program = base64.b64decode(text, altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadRequest("query parameter filter must be base64") from error
    if len(program) % _INSTRUCTION.size or len(program) > INSTRUCTIONS_MAX * _INSTRUCTION.size:
        raise BadRequest("query parameter filter must be a classic BPF program")
    return program


def lines_of(program: bytes) -> list[str]:
    return [" ".join(map(str, each)) for each in _INSTRUCTION.iter_unpack(program)]
