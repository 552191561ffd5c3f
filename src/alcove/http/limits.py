"""How large and how slow HTTP messages and connections may be: one set for all servers and clients.

Whoever needs another value makes its own `HttpLimits`; nobody has none.
"""

from msgspec import Struct


class HttpLimits(Struct, frozen=True, kw_only=True):
    head_bytes_max: int = 64 << 10
    """Of a request line or status line with all header fields. Also of chunk framing or trailers in a row."""
    headers_max: int = 256
    """Header fields of one message."""
    interim_responses_max: int = 16
    """Responses like 100 Continue before the final one."""
    body_bytes_max: int = 3 << 20
    """Of a body that is kept in memory as a whole."""
    pipelined_max: int = 8
    """Requests of one connection that wait for their turn; beyond that the socket is not read."""
    connections_max: int = 20_000
    """Open at a server at the same time."""
    handshake_seconds_max: float = 10.0
    """For TLS, at a server."""
    head_seconds_max: float = 10.0
    """From a request's first byte to the end of its head."""
    linger_seconds_max: float = 2.0
    """After an answer to a request that is not read to its end: hanging up at once on a client that still sends would
    lose the answer to a reset."""
    idle_seconds_max: float = 300.0
    """Between two requests, and for all of a request that is kept in memory."""


LIMITS = HttpLimits()
READ_BYTES = 64 << 10
"""Taken from a stream at a time."""
WRITE_BUFFER_BYTES_MAX = 256 << 10
"""Kept for a peer that reads slowly, before whoever writes is asked to pause."""
