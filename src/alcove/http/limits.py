"""How large and how slow HTTP messages and connections may be: one set for all servers and clients.

Code that needs other values creates its own `HttpLimits`; there is no way to have no limit.
"""

from msgspec import Struct


class HttpLimits(Struct, frozen=True, kw_only=True):
    head_bytes_max: int = 64 << 10
    """Size of a request line or status line with all header fields; also of consecutive chunk framing or
    trailers."""
    headers_max: int = 256
    """Header fields of one message."""
    interim_responses_max: int = 16
    """Responses like 100 Continue before the final one."""
    body_bytes_max: int = 3 << 20
    """Size of a body that is kept in memory as a whole. A larger one is answered with 413."""
    early_body_bytes_max: int = 16 << 10
    """Size of a body that is received before its request is handled. A request with a larger body is handled
    when its head is received; its handler decides whether the body is received."""
    pipelined_max: int = 8
    """Pending requests of one connection; beyond that, the socket is not read."""
    pipelined_bytes_max: int = 16 << 10
    """Bytes of pending requests of one connection; beyond that, the socket is not read."""
    uncounted_bytes_max: int = 8 << 10
    """Bytes of requests of one connection that are not counted for its group or address: most requests are not
    larger, and the number of connections bounds them."""
    connections_max: int = 20_000
    """Open connections of a server; one more is closed."""
    connections_per_group_max: int = 1_000
    """Connections with authenticated requests per group (the API server's groups are tenants), but not more than
    are free. The request that would need one more is answered with 429 and its connection closed."""
    connections_reserved: int = 1_000
    """Connections that only the API server's ring0 may have."""
    unauthenticated_max: int = 2_048
    """Connections without an authenticated request; one more closes the oldest of the address with most."""
    unauthenticated_per_address_max: int = 512
    """The same per client address (IPv6: per /64); one more closes the oldest of that address."""
    unauthenticated_bytes_per_address_max: int = 8 << 20
    """Bytes of requests that such connections of one address hold, in parts; more closes the one with most."""
    unauthenticated_bytes_max: int = 64 << 20
    """The same of all addresses; more closes the one with most, of the address with most."""
    unauthenticated_seconds_max: float = 30.0
    """From the beginning of a connection to the first request that is authenticated, for servers that have
    groups; then the connection is closed."""
    handshake_seconds_max: float = 10.0
    """For the TLS handshake at a server."""
    head_seconds_max: float = 10.0
    """From a request's first byte to the end of its head."""
    linger_seconds_max: float = 2.0
    """After the response to a request that is not read to its end: if the connection were closed immediately,
    a client that is still sending could lose the response to a reset."""
    idle_seconds_max: float = 300.0
    """Between two requests, and for receiving a body that is received before its request is handled."""
    response_seconds_max: float = 60.0
    """For sending a response of a known size; then the connection is closed. A client that does not read
    would otherwise keep the response in memory for as long as it likes."""


LIMITS = HttpLimits()
READ_BYTES = 64 << 10
"""Bytes to read from a stream at a time."""
WRITE_BUFFER_BYTES_MAX = 256 << 10
"""Bytes that are buffered for a peer that reads slowly, before the writer is paused."""
