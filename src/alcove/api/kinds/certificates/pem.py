"""PEM blocks, of texts that may be long and hostile."""

import base64
import binascii
from collections.abc import Iterator

from msgspec import Struct

_BEGIN, _DASHES = b"-----BEGIN ", b"-----"


class PemBlock(Struct, frozen=True):
    """A PEM block: its type, its lines, and its complete text."""

    kind: str
    body: bytes
    text: bytes


def blocks(data: bytes) -> Iterator[PemBlock]:
    """Yield PEM blocks in order, in one pass: the data may be long and hostile."""
    end = 0
    while (begin := data.find(_BEGIN, end)) >= 0:
        kind_end = data.find(_DASHES, begin + len(_BEGIN))
        kind = data[begin + len(_BEGIN) : kind_end]
        closing = b"-----END " + kind + _DASHES
        body_end = data.find(closing, kind_end)
        if kind_end < 0 or body_end < 0:
            return
        end = body_end + len(closing)
        body = data[kind_end + len(_DASHES) : body_end]
        yield PemBlock(kind.decode(errors="replace"), body, data[begin:end] + b"\n")


def decoded(text: str) -> bytes:
    """The bytes of a text in base64; none if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
