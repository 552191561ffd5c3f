"""Probes against real servers, and the callbacks of their results."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc  # type: ignore[import-untyped]
import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.pods.worker_context import probe_slots
from alcove.agent.probes import checks
from alcove.agent.probes.prober import ProbeCallbacks, Prober, ResultStreak
from alcove.agent.runtime.base import ContainerId, ExecSession
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.http.byte_streams import SocketStream
from alcove.http.handshakes import Handshakes
from alcove.http.tls_transport import TlsSession
from alcove.testing.certificates import self_signed
from alcove.testing.hostile_tls import HostileTlsServer

ID = ContainerId("u.a.0")


class Runtime(HollowRuntime):
    """Commands exit with the configured code."""

    def __init__(self, codes: Sequence[int] = ()) -> None:
        super().__init__()
        self.codes = list(codes)

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        return self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]


class Pod:
    """A pod on this machine's loopback."""

    key = PodKey(HOME, TenantId("t"), "n", "p", "u")
    addresses = ("127.0.0.1",)

    def __init__(self, runtime: HollowRuntime | None = None) -> None:
        self.runtime = runtime or Runtime()
        self.handshakes = Handshakes()
        self.hosts: list[str] = []
        """The other hosts that were dialled."""

    async def handshake(
        self, sock: socket.socket, make_context: Callable[[], ssl.SSLContext], server_name: str
    ) -> TlsSession:
        return await self.handshakes.perform(self.key.tenant, SocketStream(sock), make_context, server_name)

    async def dial_host(self, host: str, port: int) -> socket.socket:
        self.hosts.append(host)
        return await self.dial(port)

    async def dial(self, port: int) -> socket.socket:
        dialled = socket.socket()
        dialled.setblocking(False)
        await asyncio.get_running_loop().sock_connect(dialled, ("127.0.0.1", port))
        return dialled


async def found(
    handler: Object, container: Object | None = None, pod: Pod | None = None
) -> checks.ProbeResult:
    return await checks.check(handler, container or {}, pod or Pod(), ID)  # type: ignore[arg-type]


async def serve(answer: bytes) -> tuple[asyncio.Server, int, list[bytes]]:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    return server, int(server.sockets[0].getsockname()[1]), asked


@pytest.mark.parametrize(
    ("answer", "is_good"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 302 Found\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", False),
        (b"HTTP/1.1 500 Error\r\n\r\n", False),
        (b"gibberish\r\n", False),
        (b"", False),
    ],
)
async def test_http(answer: bytes, is_good: bool) -> None:
    server, port, asked = await serve(answer)
    headers = [{"name": "X-Own", "value": "1"}, {"name": "X-Own", "value": "2"}]
    headers += [{"name": "user-agent", "value": "me"}]
    async with server:
        handler = {"httpGet": {"path": "/up?x=1", "port": "web", "httpHeaders": headers}}
        container = {"ports": [{"name": "web", "containerPort": port}]}
        assert (await found(handler, container)).is_good is is_good
    assert asked[0].startswith(b"GET /up?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % port)
    assert (
        b"X-Own: 1\r\nX-Own: 2\r\n" in asked[0]
        and b"user-agent: me\r\n" in asked[0]
        and b"kube-probe" not in asked[0]
    )


@pytest.mark.parametrize(
    ("answer", "is_good"), [({}, True), (404, False), (b"x" * 100_000, True)], ids=["good", "bad", "long"]
)
async def test_https(answer: object, is_good: bool) -> None:
    """Whoever signed the certificate, and whatever name it has."""
    seen: list[str] = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(answer if isinstance(answer, int) else 200)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else b"")

        def log_message(self, *_: object) -> None: ...

    with tls_server(Server) as port:
        handler = {"httpGet": {"path": "/up", "port": port, "scheme": "HTTPS", "host": "a.example"}}
        result = await found(handler)
    assert result.is_good is is_good, result.message
    assert seen == ["/up"]


@contextmanager
def tls_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        pair = Path(directory) / "pair.pem"
        pair.write_bytes(b"".join(self_signed("b.example")))
        context.load_cert_chain(pair)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server.server_port
        server.shutdown()


async def test_costly_certificates_of_pods_are_not_read_on_the_event_loop() -> None:
    """The loop serves the DNS of all tenants as well."""
    with HostileTlsServer(90) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        handshakes, probes = [], []
        for _ in range(5):
            started = time.thread_time()
            with socket.create_connection(("127.0.0.1", server.port)) as sock, context.wrap_socket(sock):
                handshakes.append(time.thread_time() - started)
            started = time.thread_time()
            assert not (await found({"httpGet": {"port": server.port, "scheme": "HTTPS"}})).is_good
            probes.append(time.thread_time() - started)
        # The cheapest of each, since whatever else runs on the machine makes both cost more.
        assert min(probes) < 0.8 * min(handshakes), "the handshake is not the loop's"


async def test_redirects_are_followed_on_the_same_host_only() -> None:
    end, end_port, end_asked = await serve(b"HTTP/1.1 503 Busy\r\n\r\n")
    location = b"http://127.0.0.1:%d/end" % end_port
    near, near_port, _ = await serve(b"HTTP/1.1 302 Found\r\nlocation: %s\r\n\r\n" % location)
    away, away_port, _ = await serve(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2/\r\n\r\n")
    loop, loop_port, loop_asked = await serve(b"HTTP/1.1 307 Again\r\nLocation: /next\r\n\r\n")
    async with end, near, away, loop:
        assert "503" in (await found({"httpGet": {"port": near_port}})).message
        assert end_asked[0].startswith(b"GET /end HTTP/1.1\r\n")
        assert (await found({"httpGet": {"port": away_port}})).is_good, "another host is not asked"
        assert "10 redirects" in (await found({"httpGet": {"port": loop_port}})).message
    assert len(loop_asked) == 10


@pytest.mark.parametrize("kind", ["httpGet", "tcpSocket"])
async def test_a_probes_own_host_is_dialled_and_not_the_pod(kind: str) -> None:
    server, port, asked = await serve(b"HTTP/1.1 200 OK\r\n\r\n")
    pod = Pod()
    async with server:
        assert (await found({kind: {"port": port, "host": "a.example"}}, pod=pod)).is_good
        assert (await found({kind: {"port": port, "host": "127.0.0.1"}}, pod=pod)).is_good
    assert pod.hosts == ["a.example"], "the pod's own address is no other host"
    assert kind == "tcpSocket" or b"Host: a.example:%d\r\n" % port in asked[0]


def test_the_user_agent_is_of_the_version_that_is_served() -> None:
    assert checks.USER_AGENT == "kube-probe/1.37"


async def test_a_line_break_smuggles_nothing() -> None:
    server, port, asked = await serve(b"HTTP/1.1 200 OK\r\n\r\n")
    async with server:
        handler = {"httpGet": {"path": "/\r\nHost: evil", "port": port}}
        assert not (await found(handler)).is_good
    assert not asked


async def test_tcp() -> None:
    server, port, _ = await serve(b"")
    async with server:
        assert (await found({"tcpSocket": {"port": port}})).is_good
    assert not (await found({"tcpSocket": {"port": port}})).is_good
    assert not (await found({"tcpSocket": {"port": "nameless"}})).is_good


async def test_commands() -> None:
    assert (await found({"exec": {"command": ["true"]}}, pod=Pod(Runtime([0])))).is_good
    assert not (await found({"exec": {"command": ["false"]}}, pod=Pod(Runtime([1])))).is_good
    hollow = await found({"exec": {"command": ["true"]}}, pod=Pod(HollowRuntime()))
    assert not hollow.is_good, "there is no such container"


@pytest.mark.parametrize(("state", "is_good"), [(1, True), (2, False), (0, False)])
async def test_grpc_health(state: int, is_good: bool) -> None:
    """Against the library's own server, with the message that `grpc.health.v1` defines."""
    services: list[bytes] = []

    async def answer(request: bytes, _context: object) -> bytes:
        services.append(request)
        return bytes([0x08, state]) if state else b""

    handler = grpc.unary_unary_rpc_method_handler(answer)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert (await found({"grpc": {"port": port, "service": "mine"}})).is_good is is_good
    finally:
        await server.stop(None)
    assert services == [b"\x0a\x04mine"]


def test_a_streak_takes_as_many_as_its_threshold() -> None:
    streak = ResultStreak(2, 3, False)
    assert [streak.add(each) for each in (True, True)] == [False, True] and streak.is_good
    assert [streak.add(each) for each in (False, False, True, False, False, False)][-1]
    assert not streak.is_good


class RecordedCallbacks:
    def __init__(self) -> None:
        self.heard: list[object] = []
        self.changed = asyncio.Event()

    def heard_of(self) -> ProbeCallbacks:
        def add(what: object) -> None:
            self.heard.append(what)
            self.changed.set()

        return ProbeCallbacks(
            started=lambda: add("started"),
            ready=lambda holds: add(("ready", holds)),
            restart_needed=lambda kind: add(("doomed", kind)),
            unhealthy=lambda kind, _message: add(("unhealthy", kind)),
        )


async def run(container: Object, codes: Sequence[int], until: object) -> list[object]:
    ears = RecordedCallbacks()
    prober = Prober(Pod(Runtime(codes)), container, ID, ears.heard_of(), probe_slots())  # type: ignore[arg-type]
    task = asyncio.create_task(prober.run(False))
    try:
        async with asyncio.timeout(60):
            while until not in ears.heard and not task.done():
                ears.changed.clear()
                waiting = asyncio.create_task(ears.changed.wait())
                await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
    return ears.heard


def probe(**more: object) -> Object:
    return {"exec": {"command": ["x"]}, "periodSeconds": 0.01, **more}


async def test_no_other_probe_runs_before_the_container_has_started() -> None:
    container = {"startupProbe": probe(failureThreshold=5), "readinessProbe": probe()}
    heard = await run(container, [1, 1, 0, 0], ("ready", True))
    assert heard == [("unhealthy", "startup"), ("unhealthy", "startup"), "started", ("ready", True)]


async def test_a_container_whose_startup_probe_fails_is_restarted() -> None:
    heard = await run({"startupProbe": probe(failureThreshold=2)}, [1], ("doomed", "startup"))
    assert heard[-1] == ("doomed", "startup") and "started" not in heard


async def test_a_failed_liveness_probe_restarts_after_its_threshold() -> None:
    heard = await run({"livenessProbe": probe(failureThreshold=2)}, [0, 1, 0, 1, 1], ("doomed", "liveness"))
    assert heard[:2] == ["started", ("ready", True)]
    assert heard.count(("unhealthy", "liveness")) == 3
