"""The agent's servers in each network's gateway: DNS, and the proxy to the tenant's API server."""

import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack

from msgspec import Struct

from alcove.agent.network.apiserver_proxy import Address, ApiServerProxy
from alcove.agent.network.services import DNS_PORT
from alcove.agent.network.view import NetworkView
from alcove.client.keys import PlaneId
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.namespaces import inside
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dns.server import DnsServer, DnsSockets, bind
from alcove.network import wellknown

log = logging.getLogger(__name__)


class _Binding(Struct, frozen=True):
    """Where the servers listen. A gateway namespace that was removed and created again is a different one."""

    namespace: tuple[int, int]
    addresses: tuple[str, ...]


class _Server(Struct):
    binding: _Binding
    view: NetworkView
    proxy: ApiServerProxy
    has_egress: bool


class GatewayServers:
    def __init__(self, plane: DataPlane, dns: DnsServer, api_server: Callable[[PlaneId], Address]) -> None:
        self._plane = plane
        self._dns = dns
        self._api_server = api_server
        self._servers: dict[int, _Server] = {}

    async def ensure(self, views: Mapping[int, NetworkView]) -> None:
        """Starts servers for these networks, whose gateways exist, and stops all others. Failures are
        logged."""
        for vni in [each for each in self._servers if each not in views]:
            self._stop(vni)
        for vni, view in views.items():
            try:
                await self._ensure(vni, view)
            except (OSError, DataPlaneError) as error:
                log.warning("failed to start gateway servers", extra={"vni": vni, "error": str(error)})

    def has(self, vni: int) -> bool:
        return vni in self._servers

    def close(self) -> None:
        for vni in list(self._servers):
            self._stop(vni)

    async def _ensure(self, vni: int, view: NetworkView) -> None:
        namespace = self._plane.gateways.open(vni)
        try:
            stat = os.fstat(namespace)
            addresses = tuple(str(each.ip) for each in view.backing.gateways)
            binding = _Binding((stat.st_dev, stat.st_ino), addresses)
            existing = self._servers.get(vni)
            if existing is not None and existing.binding == binding and existing.view is view:
                self._update_egress(existing)
                return
            self._stop(vni)
            with inside(namespace):
                names, api = _bind(binding.addresses)
        finally:
            os.close(namespace)
        has_egress = view.has_egress()
        await self._dns.serve(view.names.zone, names, way_out=has_egress)
        proxy = ApiServerProxy(api, lambda: self._api_server(view.tenant.tenant_key.plane))
        proxy.start()
        self._servers[vni] = _Server(binding, view, proxy, has_egress)

    def _update_egress(self, server: _Server) -> None:
        has_egress = server.view.has_egress()
        if has_egress != server.has_egress:
            self._dns.set_egress(server.view.names.zone.network, has_egress)
            server.has_egress = has_egress

    def _stop(self, vni: int) -> None:
        server = self._servers.pop(vni, None)
        if server is not None:
            self._dns.stop(server.view.names.zone.network)
            server.proxy.close()


def _bind(addresses: Iterable[str]) -> tuple[DnsSockets, tuple[socket.socket, ...]]:
    """Binds the servers' sockets in the calling thread's network namespace."""
    with ExitStack() as undo:
        names = bind(addresses, DNS_PORT)
        for sock in (*names.udp, *names.tcp):
            undo.callback(sock.close)
        api: list[socket.socket] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            undo.callback(sock.close)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address, wellknown.API_PORT))
            api.append(sock)
        undo.pop_all()
    return names, tuple(api)
