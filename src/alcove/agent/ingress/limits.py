"""Limits of the ingress server."""

from alcove.http.limits import HttpLimits


class IngressLimits(HttpLimits, frozen=True, kw_only=True):
    """Stricter than HttpLimits, because clients are unknown."""

    connections_max: int = 8_192
    """Connections of all clients of a node, from their first packet on; further ones are closed."""
    connections_per_group_max: int = 2_048
    """Connections whose last request was for a host of one tenant, but not more than are free."""
    connections_reserved: int = 0
    unauthenticated_max: int = 1_024
    """Connections without a request yet; one more closes the oldest of the client address with most."""
    connections_per_client_max: int = 512
    """Connections of one client address; further ones are closed."""
    handshakes_per_client_max: int = 16
    """TLS handshakes of one client address at a time; further connections of that client wait for them."""
    requests_per_tenant_max: int = 2_048
    """Concurrent requests, so that one tenant's load leaves capacity for the others."""
    requests_per_connection_max: int = 10_000
    head_bytes_max: int = 32 << 10
    headers_max: int = 100
    body_bytes_max: int = 1 << 30
    """The body of a request, which is streamed."""
    idle_seconds_max: float = 75.0
    """Between two requests."""
    connect_seconds_max: float = 5.0
    response_seconds_max: float = 300.0
    """Until a backend begins its response."""
    stall_seconds_max: float = 60.0
    """Without progress in the middle of a body."""
    tunnel_seconds_max: float = 3_600.0
    """Without data on a WebSocket."""
    pooled_max: int = 32
    """Idle connections to one backend."""
    pooled_total_max: int = 1_024
    pooled_seconds_max: float = 30.0
