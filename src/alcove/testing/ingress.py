"""An ingress proxy on this machine's sockets, with scripted backends.

lab = ProxyLab()
await lab.start(IngressLimits())
await lab.backend(answering(OK))
answer = await lab.ask(get("/"))
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping

from alcove.agent.ingress.certificates import IngressCertificates
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget, TenantIngresses, compiled
from alcove.agent.ingress.server import IngressServer
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.network.ingress.domains import DomainGrants
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType

TENANT = TenantKey(HOME, TenantId("blue"))
HOST = "shop.example"
OWN_HOST = {HOST: TENANT}

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def granting(owners: Mapping[str, TenantId]) -> DomainGrants:
    """Grants of these domains, as if ring0's Tenant objects had them."""
    grants = DomainGrants()
    for tenant in set(owners.values()):
        domains = [domain for domain, owner in owners.items() if owner == tenant]
        grants.put({"metadata": {"name": tenant}, "spec": {"domains": domains}})
    return grants


class ProxyLab:
    """A proxy with one route; the handler serves each backend connection."""

    def __init__(self) -> None:
        self.dialled: list[tuple[str, str, str, int]] = []
        self.backends: list[asyncio.Server] = []
        self.address = ("127.0.0.1", 0)

    async def dial(self, tenant_key: TenantKey, network: str, address: str, port: int) -> socket.socket:
        self.dialled.append((tenant_key.tenant, network, address, port))
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
        return sock

    async def start(self, limits: IngressLimits) -> None:
        self.server = IngressServer(self.dial, limits)
        listening = socket.create_server(("127.0.0.1", 0))
        self.address = listening.getsockname()
        self.running = asyncio.create_task(
            self.server.run([listening], [], IngressCertificates(DomainGrants()).context)
        )

    async def backend(self, handler: Handler) -> None:
        """Routes all requests for the host to the backend."""

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await handler(reader, writer)
            writer.close()

        made = await asyncio.start_server(handle, "127.0.0.1", 0)
        self.backends.append(made)
        self.lead_to(made.sockets[0].getsockname()[:2])

    def lead_to(self, *addresses: tuple[str, int], hosts: Mapping[str, TenantKey] = OWN_HOST) -> None:
        """Routes all requests for each of the hosts, which belongs to its tenant, to one of the addresses."""
        tenants = [_ingresses(host, tenant_key, addresses) for host, tenant_key in hosts.items()]
        granted = granting({host: tenant_key.tenant for host, tenant_key in hosts.items()})
        self.server.table = compiled(tenants, granted)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address[:2])

    async def ask(self, raw: bytes) -> bytes:
        """The whole response, until the proxy closes the connection."""
        reader, writer = await self.connect()
        writer.write(raw)
        async with asyncio.timeout(60):
            answer = await reader.read()
        writer.close()
        return answer

    async def close(self) -> None:
        self.running.cancel()
        await asyncio.wait([self.running])
        for backend in self.backends:
            backend.close()


def _ingresses(host: str, tenant_key: TenantKey, addresses: tuple[tuple[str, int], ...]) -> TenantIngresses:
    rule = IngressRule(host, "/", PathType.PREFIX, IngressBackend("web", 80))
    wanted = DesiredIngress("2026", "u", "default", "i", "default", (rule,), None, ())
    target = IngressTarget(tenant_key, "default", addresses, "default/web")
    return TenantIngresses(tenant_key, (wanted,), {("default", "default", IngressBackend("web", 80)): target})


def get(path: str = "/", *headers: str, host: str = HOST, close: bool = True) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *headers, *(["Connection: close"] if close else [])]
    return "\r\n".join([*lines, "", ""]).encode()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def answering(*answers: bytes, seen: list[bytes] | None = None) -> Handler:
    """Answers each request of a connection, and records the request heads."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            head = await read_head(reader)
            if seen is not None:
                seen.append(head)
            writer.write(answer)
            await writer.drain()

    return handle


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Own: yes\r\n\r\nhello"
