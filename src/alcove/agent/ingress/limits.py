"""How much of everything there may be."""

from alcove.http.limits import HttpLimits


class IngressLimits(HttpLimits, frozen=True, kw_only=True):
    """Anybody in the world may call: less is accepted here than of known clients."""

    connections_max: int = 8_192
    connections_per_client_max: int = 512
    requests_per_tenant_max: int = 2_048
    """At a time: one tenant's flood leaves room for others."""
    requests_per_connection_max: int = 10_000
    head_bytes_max: int = 32 << 10
    headers_max: int = 100
    body_bytes_max: int = 1 << 30
    """Of a request, which is passed on in pieces."""
    idle_seconds_max: float = 75.0
    """Between two requests."""
    connect_seconds_max: float = 5.0
    answer_seconds_max: float = 300.0
    """Until a backend begins to answer."""
    stall_seconds_max: float = 60.0
    """Without a byte, in the midst of a body."""
    tunnel_seconds_max: float = 3_600.0
    """Without a byte, of a WebSocket."""
    pooled_max: int = 32
    """Idle connections to one backend."""
    pooled_total_max: int = 1_024
    pooled_seconds_max: float = 30.0
