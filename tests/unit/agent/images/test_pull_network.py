"""Image pulls of tenants reach registries that tenants may choose, and nothing else."""

import asyncio
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address

import pytest

from alcove.agent.images import pull_network
from alcove.agent.images.model import PullFailed
from alcove.agent.images.pull_network import PullNetwork
from alcove.agent.images.registry_dialer import NOT_ALLOWED, DestinationRefused, RegistryDialer
from alcove.agent.images.tools import ImageTools, RegistryCredentials
from alcove.api import destinations
from alcove.api.ids import SYSTEM, TenantId
from alcove.testing import needs

WHY = needs.namespaces()
in_namespace = pytest.mark.skipif(bool(WHY), reason=WHY)

ACME = TenantId("acme")
NOBODY = RegistryCredentials()
GET = "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n"
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as sock:
    for request in sys.argv[3:-1]:
        sock.sendall(request.encode())
        print(sock.recv(65536).decode(), flush=True)
    sock.sendall(sys.argv[-1].encode())
    print(sock.makefile().read())
"""


class HttpHost:
    """An HTTP server on loopback that answers every request in the same way, and records them."""

    def __init__(self, status: int = 200, **headers: str) -> None:
        host = self
        self.requests: list[str] = []
        self.before: Callable[[], object] = lambda: None
        """Called before each response."""
        self.status, self.headers = status, {name.replace("_", "-"): text for name, text in headers.items()}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host.requests.append(self.path)
                host.before()
                self.send_response(host.status)
                for name, text in host.headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_HEAD = do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def internal() -> Iterator[HttpHost]:
    """A server of ring0, which no tenant may reach."""
    host = HttpHost()
    yield host
    host.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]"])
async def test_an_image_name_cannot_aim_at_the_node(internal: HttpHost, name: str) -> None:
    image = f"{name}:{internal.server.server_port}/a/b:c"
    with pytest.raises(PullFailed):
        await ImageTools().digest(ACME, image, NOBODY)
    assert internal.requests == []


async def test_ring0_may_pull_from_anywhere(internal: HttpHost) -> None:
    tools = ImageTools([internal.name])
    tools.dialer = RegistryDialer()
    await tools.digest(SYSTEM, f"{internal.name}/a/b:c", NOBODY)
    assert internal.requests


@in_namespace
async def test_a_redirect_of_a_registry_cannot_aim_at_the_node(internal: HttpHost) -> None:
    registry = HttpHost(307, Location=f"http://{internal.name}/latest/meta-data")
    try:
        with pytest.raises(PullFailed):
            await ImageTools([registry.name]).digest(ACME, f"{registry.name}/a/b:c", NOBODY)
    finally:
        registry.close()
    assert registry.requests
    assert internal.requests == []


@in_namespace
@pytest.mark.parametrize("realm", ["http://{}/token", "http://metadata.internal/token", "http://10.0.0.1/"])
async def test_a_token_realm_cannot_aim_at_the_node(
    internal: HttpHost, realm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not by a name whose address is the node's."""
    monkeypatch.setattr(
        "alcove.agent.images.registry_dialer._look_up", lambda _host: (ip_address("127.0.0.1"),)
    )
    challenge = f'Bearer realm="{realm.format(internal.name)}",service="s"'
    registry = HttpHost(401, WWW_Authenticate=challenge)
    try:
        with pytest.raises(PullFailed):
            await ImageTools([registry.name]).digest(ACME, f"{registry.name}/a/b:c", NOBODY)
    finally:
        registry.close()
    assert registry.requests
    assert internal.requests == []


async def _in_namespace(network: PullNetwork, *command: str) -> tuple[int, bytes]:
    child = await asyncio.create_subprocess_exec(
        *network.command,
        *command,
        env=network.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output, _ = await child.communicate()
    return child.returncode or 0, output


async def _exchange(network: PullNetwork, address: str, *requests: str) -> str:
    """What the server at the address responds to these requests, from inside the network."""
    host, _, port = address.rpartition(":")
    _, output = await _in_namespace(network, sys.executable, "-c", CLIENT, host, port, *requests)
    return output.decode()


@in_namespace
async def test_without_the_proxy_nothing_can_be_reached(internal: HttpHost) -> None:
    async with PullNetwork(RegistryDialer(), "registry.example/a") as network:
        output = await _exchange(network, internal.name, GET.format("/", internal.name))
        assert "Connection refused" in output
        _, links = await _in_namespace(network, "ip", "-br", "link")
        assert [line.split()[0] for line in links.decode().splitlines()] == ["lo"]
    assert internal.requests == []


def _through_proxy(target: str) -> tuple[list[str], list[str]]:
    """The requests that get /v2/ of the target from a proxy: a plain one, and one in a tunnel."""
    tunnel = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
    return [GET.format(f"http://{target}/v2/?a=b", target)], [tunnel, GET.format("/v2/?a=b", target)]


@in_namespace
@pytest.mark.parametrize("allowed", [True, False])
async def test_the_proxy_checks_plain_requests_and_tunnels(internal: HttpHost, allowed: bool) -> None:
    dialer = RegistryDialer(networks=destinations.networks(["127.0.0.0/8"] if allowed else []))
    async with PullNetwork(dialer, "registry.example/a") as network:
        proxy = network.environment()["HTTP_PROXY"].removeprefix("http://")
        for requests in _through_proxy(internal.name):
            output = await _exchange(network, proxy, *requests)
            assert ("{}" in output) is allowed, output
            assert (NOT_ALLOWED in output) is not allowed, output
    assert internal.requests == (["/v2/?a=b"] * 2 if allowed else [])


@in_namespace
async def test_connections_of_a_pull_outlive_a_garbage_collection(internal: HttpHost) -> None:
    """asyncio closes connections whose StreamWriter is garbage."""
    internal.before = gc.collect
    dialer = RegistryDialer(networks=destinations.networks(["127.0.0.0/8"]))
    async with PullNetwork(dialer, "registry.example/a") as network:
        proxy = network.environment()["HTTP_PROXY"].removeprefix("http://")
        for requests in _through_proxy(internal.name):
            assert "{}" in await _exchange(network, proxy, *requests)


@in_namespace
async def test_a_request_that_is_not_for_a_proxy_is_refused() -> None:
    async with PullNetwork(RegistryDialer(), "registry.example/a") as network:
        proxy = network.environment()["HTTP_PROXY"].removeprefix("http://")
        output = await _exchange(network, proxy, GET.format("/v2/", proxy))
        assert output.startswith("HTTP/1.1 400 ")


@in_namespace
async def test_a_pull_has_a_bounded_number_of_connections(
    internal: HttpHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_network, "CONNECTIONS_PER_PULL_MAX", 0)
    dialer = RegistryDialer(networks=destinations.networks(["127.0.0.0/8"]))
    async with PullNetwork(dialer, "registry.example/a") as network:
        proxy = network.environment()["HTTP_PROXY"].removeprefix("http://")
        output = await _exchange(network, proxy, GET.format(f"http://{internal.name}/", internal.name))
    assert output.startswith("HTTP/1.1 503 too many connections")
    assert internal.requests == []


async def test_public_addresses_of_the_cluster_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if loopback were public, so that the connection is made: it leads back to this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(destinations, "is_public", lambda _address: True)
        with pytest.raises(DestinationRefused):
            await RegistryDialer().dial("127.0.0.1", port, asyncio.Lock())
        dialer = RegistryDialer()
        dialer.cluster_addresses = lambda: {ip_address("192.0.2.7")}
        with pytest.raises(DestinationRefused):
            await dialer.dial("192.0.2.7", 443, asyncio.Lock())


@pytest.mark.parametrize("port", [0, 65_536, 10**12])
async def test_a_port_that_does_not_exist_is_refused(port: int) -> None:
    """A registry chooses the ports of its redirects."""
    with pytest.raises(DestinationRefused):
        await RegistryDialer().dial("9.9.9.9", port, asyncio.Lock())
