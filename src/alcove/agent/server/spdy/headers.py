"""Header blocks: names and values, compressed with zlib and a dictionary that both sides know.

All blocks of one direction are one zlib stream: every block must be decompressed, in order, even if it is not
used.
"""

import zlib
from collections.abc import Mapping

BLOCK_BYTES_MAX = 64 << 10
PAIRS_MAX = 256

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age "
    "allow authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


class BadHeaders(ValueError):
    pass


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _text(text: str) -> bytes:
    data = text.encode()
    return _number(len(data)) + data


DICTIONARY = b"".join(_text(word.replace("_", " ")) for word in _WORDS.split()) + _REST.encode()
"""The compression dictionary of SPDY/3.1, section 2.6.10.1."""


class Compressor:
    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zdict=DICTIONARY)

    def compress(self, headers: Mapping[str, str]) -> bytes:
        pairs = b"".join(_text(name.lower()) + _text(value) for name, value in headers.items())
        data = _number(len(headers)) + pairs
        return self._zlib.compress(data) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class Decompressor:
    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def decompress(self, block: bytes) -> dict[str, str]:
        """Names in lower case; of several values under one name the first. Raises BadHeaders."""
        try:
            data = self._zlib.decompress(block, BLOCK_BYTES_MAX)
        except zlib.error as error:
            raise BadHeaders(f"a header block cannot be decompressed: {error}") from error
        if self._zlib.unconsumed_tail:
            raise BadHeaders(f"a header block has more than {BLOCK_BYTES_MAX} bytes")
        return _pairs(data)


def _pairs(data: bytes) -> dict[str, str]:
    count, rest = _take_number(data)
    if count > PAIRS_MAX:
        raise BadHeaders(f"a header block has more than {PAIRS_MAX} headers")
    headers: dict[str, str] = {}
    for _ in range(count):
        name, rest = _take_text(rest)
        value, rest = _take_text(rest)
        headers[name.lower()] = value.partition("\0")[0]
    return headers


def _take_number(data: bytes) -> tuple[int, bytes]:
    if len(data) < 4:
        raise BadHeaders("a header block ends too early")
    return int.from_bytes(data[:4], "big"), data[4:]


def _take_text(data: bytes) -> tuple[str, bytes]:
    length, data = _take_number(data)
    if len(data) < length:
        raise BadHeaders("a header block ends too early")
    return data[:length].decode("latin-1"), data[length:]
