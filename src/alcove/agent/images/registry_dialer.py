"""Connects to image registries, and to whatever else registries refer to, on behalf of tenants.

A tenant chooses the registry, and the registry chooses redirects, token servers and layer URLs, but the
connection starts in the node's network. So every connection is checked when it is made: the address must be
on the public internet and not one of the cluster's, unless ring0 allows its network or has named the
registry. The checked address is the one that is connected to, so a name that changes its address gains
nothing.
"""

import asyncio
import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from alcove.api import destinations
from alcove.api.destinations import Address, Network
from alcove.component import host_names

CONNECT_SECONDS_MAX = 10.0
"""Time to look up and connect to one destination of a pull, which fails with "i/o timeout" after it."""
PORT_MAX = 65_535
LOOKUP_THREADS_MAX = 64
"""Concurrent name lookups of all image pulls on a node. A pull runs one at a time, and a tenant has two pulls:
its further lookups wait."""
NOT_ALLOWED = "the host is unknown, or images of tenants may not come from there"
"""The same message for an unknown name and for an address that is not allowed, so that it reveals nothing."""
_DEFAULT_PORTS = (443, 80)


class DestinationRefused(Exception):
    """The destination is unknown, or tenants may not choose it."""

    def __init__(self) -> None:
        super().__init__(NOT_ALLOWED)


class RegistryDialer:
    def __init__(self, registries: Sequence[str] = (), networks: Sequence[Network] = ()) -> None:
        """`registries`: HOST[:PORT] of registries that ring0 has named, which may have any address.
        `networks`: networks where ring0 allows registries, even if they are not public."""
        self._registries = {target for each in registries for target in targets_of(each)}
        self._networks = tuple(networks)
        self._threads = ThreadPoolExecutor(LOOKUP_THREADS_MAX, thread_name_prefix="registry-names")
        self.cluster_addresses: Callable[[], Collection[Address]] = tuple
        """The addresses of the cluster's machines, which are refused even if they are public."""

    def is_named(self, host: str, port: int) -> bool:
        """Whether ring0 has named this registry."""
        return (host.lower(), port) in self._registries

    async def dial(self, host: str, port: int, lookups: asyncio.Lock) -> socket.socket:
        """A connected, non-blocking socket. The caller's lookups run one at a time. Raises DestinationRefused,
        OSError, TimeoutError."""
        if not 0 < port <= PORT_MAX:
            raise DestinationRefused
        async with asyncio.timeout(CONNECT_SECONDS_MAX):
            addresses = await self._resolve(host, lookups)
            is_named = self.is_named(host, port)
            own = self.cluster_addresses()
            checked = [
                each for each in addresses if is_named or destinations.permitted(each, self._networks, own)
            ]
            failure: OSError | None = None
            for address in checked:
                try:
                    return await self._connect(address, port, is_named=is_named)
                except OSError as error:
                    failure = error
        if failure is None:
            raise DestinationRefused
        raise failure

    async def _resolve(self, host: str, lookups: asyncio.Lock) -> tuple[Address, ...]:
        literal = destinations.parse(host)
        if literal is not None:
            return (literal,)
        async with lookups:
            return await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host)

    async def _connect(self, address: Address, port: int, *, is_named: bool) -> socket.socket:
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (str(address), port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            is_allowed = is_named or destinations.is_allowed(address, self._networks)
            # A public address of this machine that is not known as the node's: both ends have it.
            if not is_allowed and sock.getpeername()[0] == sock.getsockname()[0]:
                raise DestinationRefused
        except BaseException:
            sock.close()
            raise
        return sock


def targets_of(registry: str) -> tuple[tuple[str, int], ...]:
    """The hosts and ports of a registry HOST[:PORT]; both usual ports if it has none."""
    host, port = split_port(registry)
    return tuple((host, each) for each in ((port,) if port else _DEFAULT_PORTS))


def split_port(authority: str) -> tuple[str, int]:
    """The host in lower case, without the brackets of an IPv6 address, and the port; 0 if there is none."""
    host, colon, port = authority.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        host, port = authority, "0"
    return host.strip("[]").lower(), int(port)


def _look_up(host: str) -> tuple[Address, ...]:
    """Runs in a thread. Returns no addresses for an unknown name."""
    texts = host_names.look_up(host)
    return tuple(address for text in texts if (address := destinations.parse(text)) is not None)
