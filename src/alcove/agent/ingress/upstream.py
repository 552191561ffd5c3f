"""Connections to backends: dialled from the network's gateway, pooled, used by one request at a time."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable

from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget
from alcove.agent.ingress.traffic import IngressTraffic
from alcove.client.keys import TenantKey
from alcove.http.pool import IdleConnections, PoolLimits
from alcove.http.streams import HttpClientStream

Dial = Callable[[TenantKey, str, str, int], Awaitable[socket.socket]]
"""(tenant, network, address, port) → a connected socket of that network. Raises OSError."""
BackendKey = tuple[TenantKey, str, str, int]


class BackendConnection(HttpClientStream):
    backend: BackendKey
    is_used = False
    """Whether it has served a request before; then the backend may close it at any moment."""
    traffic: IngressTraffic

    def close(self) -> None:
        self.traffic.closed(self)
        super().close()

    def abort(self) -> None:
        self.traffic.closed(self)
        super().abort()


class Upstreams:
    def __init__(self, dial: Dial, limits: IngressLimits, traffic: IngressTraffic) -> None:
        self._dial = dial
        self._traffic = traffic
        self._limits = limits
        self._idle: IdleConnections[BackendKey, BackendConnection] = IdleConnections(
            PoolLimits(
                per_target_max=limits.pooled_max,
                total_max=limits.pooled_total_max,
                idle_seconds_max=limits.pooled_seconds_max,
            ),
            owner_of=_tenant_of,
        )

    async def connect(self, target: IngressTarget, *, fresh: bool = False) -> BackendConnection:
        """An idle connection, unless it has to be `fresh`, or a new one. Raises OSError, TimeoutError."""
        address, port = random.choice(target.addresses)
        backend = (target.tenant_key, target.network, address, port)
        idle = None if fresh else self._idle.take(backend)
        if idle is not None:
            return idle
        async with asyncio.timeout(self._limits.connect_seconds_max):
            sock = await self._dial(*backend)
        connection = await BackendConnection.over(sock, self._limits)
        connection.backend, connection.traffic = backend, self._traffic
        self._traffic.opened(target.tenant_key.tenant, connection)
        return connection

    def release(self, connection: BackendConnection) -> None:
        """Returns the connection to the pool. It is closed if it cannot be reused, or if the pool is full."""
        connection.is_used = True
        self._idle.put(connection.backend, connection)

    def close(self) -> None:
        self._idle.close()


def _tenant_of(backend: BackendKey) -> TenantKey:
    return backend[0]
