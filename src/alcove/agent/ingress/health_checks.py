"""Health checks of load balancers: whether this node has endpoints of a service with `externalTrafficPolicy: Local`.

An HTTP server at the service's `healthCheckNodePort` of the node's own addresses, with the answers of kube-proxy: 200 if
the node has a ready endpoint, otherwise 503, and their number in the body.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from functools import partial

import orjson
from msgspec import Struct

from alcove.agent.ingress.local_node_ports import Step
from alcove.api.ids import TenantId
from alcove.http.errors import HttpError
from alcove.http.limits import HttpLimits
from alcove.http.streams import HttpServerStream

log = logging.getLogger(__name__)

CONNECTIONS_PER_TENANT_MAX = 64
"""Concurrent connections to the ports of one tenant's services; further ones are reset."""
EXCHANGE_SECONDS_MAX = 10.0
LIMITS = HttpLimits(head_bytes_max=8 << 10, headers_max=64, head_seconds_max=5.0)


class HealthCheck(Struct, frozen=True):
    """What is known of one service."""

    port: int
    tenant: TenantId
    namespace: str
    name: str
    local_endpoints: int
    """Ready endpoints on this node."""


class HealthCheckServer:
    def __init__(self) -> None:
        self._servers: dict[Step, asyncio.Server] = {}
        self._checks: dict[Step, HealthCheck] = {}
        self._connections: Counter[TenantId] = Counter()
        self.is_synced = False
        """Whether the node's data plane is up to date. While it is not, all answers are 503."""

    async def set(self, desired: Mapping[Step, HealthCheck]) -> None:
        """Listens on exactly these ports from now on. A port that another process has bound is skipped with a
        warning."""
        self._checks = dict(desired)
        for step in self._servers.keys() - desired.keys():
            self._servers.pop(step).close()
        for step in desired.keys() - self._servers.keys():
            try:
                server = await asyncio.start_server(partial(self._serve, step), *step, reuse_address=True)
            except OSError as error:
                fields = {"port": step[1], "error": str(error)}
                log.warning("failed to listen on health check port", extra=fields)
                continue
            self._servers[step] = server

    def close(self) -> None:
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def _serve(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        check = self._checks.get(step)
        if check is None or self._connections[check.tenant] >= CONNECTIONS_PER_TENANT_MAX:
            writer.transport.abort()
            return
        self._connections[check.tenant] += 1
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS_MAX):
                await self._exchange(HttpServerStream(reader, writer, LIMITS), step)
        except (OSError, EOFError, TimeoutError):
            pass  # The client disconnected, or did not send a complete request in time.
        finally:
            self._connections[check.tenant] -= 1
            if not self._connections[check.tenant]:
                del self._connections[check.tenant]
            writer.close()

    async def _exchange(self, connection: HttpServerStream, step: Step) -> None:
        try:
            head = await connection.request()
        except HttpError as error:
            await connection.respond(error.status, f"{error}\n".encode(), "text/plain; charset=utf-8")
            return
        # What is true now, not when the client connected.
        check = self._checks.get(step)
        if check is None:
            return
        status, body = self._answer(check)
        headers = {
            "X-Content-Type-Options": "nosniff",
            "X-Load-Balancing-Endpoint-Weight": str(check.local_endpoints),
        }
        await connection.respond(status, b"" if head.method == b"HEAD" else body, headers=headers)
        if head.has_body:
            await connection.linger()

    def _answer(self, check: HealthCheck) -> tuple[int, bytes]:
        body = {
            "service": {"namespace": check.namespace, "name": check.name},
            "localEndpoints": check.local_endpoints,
            "serviceProxyHealthy": self.is_synced,
        }
        return 200 if check.local_endpoints and self.is_synced else 503, orjson.dumps(body)
