"""Connections that come together, and clients that connect and do not go on, leave others served."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from alcove.http import accepting, server
from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpRequest, HttpResponse
from alcove.http.server import HttpServer
from alcove.http.turns import ReadingTurns
from alcove.testing.certificates import self_signed

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
RUNS = [asyncio.run, uvloop.run]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory: Path = tmp_path_factory.mktemp("tls")
    certificate, key = self_signed("127.0.0.1")
    (directory / "tls.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "tls.pem")
    return context


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None, **limits: float) -> AsyncIterator[HttpServer]:
    def answer(request: HttpRequest) -> HttpResponse:
        if request.path == "/login" and request.connection is not None:
            request.connection.claim("acme")
        return HttpResponse(200, b"ok")

    made = HttpServer(
        answer,
        "127.0.0.1",
        0,
        tls,
        group_of=lambda _peer: "",
        limits=HttpLimits(**limits),  # type: ignore[arg-type]
    )
    async with made, asyncio.timeout(60):
        yield made


def trusting() -> ssl.SSLContext:
    """A client's context that loads no authorities, which would take longer than the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def connected(made: HttpServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", made.port, ssl=trusting())


async def ask(made: HttpServer) -> None:
    reader, writer = await connected(made)
    writer.write(GET)
    await reader.readuntil(b"ok")
    writer.close()


def silent(made: HttpServer, sent: bytes = b"") -> socket.socket:
    """A client that connects, sends this, and then nothing."""
    sock = socket.create_connection(("127.0.0.1", made.port))
    sock.setblocking(False)
    if sent:
        sock.send(sent)
    return sock


def hello(name: str | None = None) -> bytes:
    """The first flight of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = trusting().wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  It happens in other threads and in the server.
        await asyncio.sleep(0.01)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.mark.parametrize("run", RUNS)
def test_all_of_many_clients_that_come_together_are_served(run: Run, tls: ssl.SSLContext) -> None:
    async def test() -> None:
        async with serving(tls) as made:
            await asyncio.gather(*(ask(made) for _ in range(3 * accepting.HANDSHAKES_MAX)))

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_clients_that_say_nothing_take_no_place_from_others(run: Run, tls: ssl.SSLContext) -> None:
    async def test() -> None:
        async with serving(tls, handshake_seconds_max=600.0, unauthenticated_seconds_max=600.0) as made:
            clients = [silent(made) for _ in range(2 * accepting.HANDSHAKES_MAX)]
            await ask(made)
            for client in clients:
                client.close()

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_clients_that_stop_in_their_handshake_lose_their_place(
    run: Run, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKE_KEPT_SECONDS", 0.05)

    async def test() -> None:
        first = hello()
        async with serving(tls, handshake_seconds_max=60.0) as made:
            clients = [silent(made, first) for _ in range(2 * accepting.HANDSHAKES_MAX)]
            await ask(made)
            for client in clients:
                client.close()

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_behind_a_queue_of_its_address_the_newest_client_is_served_first(
    run: Run, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "STEPS_MAX", 1)
    monkeypatch.setattr(accepting, "PATIENCE_SECONDS", 0.0)
    order: list[str | None] = []
    go_on = threading.Event()

    def begun(_tls: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        order.append(name)
        if name == "first":
            go_on.wait(60)

    async def test() -> None:
        async with serving(tls) as made:
            waiting = made._acceptor._ready  # type: ignore[union-attr]
            clients = [silent(made, hello("first"))]
            await until(lambda: order == ["first"])
            for name in ("old", "middle", "new"):
                clients.append(silent(made, hello(name)))
                await until(lambda: sum(map(len, waiting.values())) == len(clients) - 1)
            go_on.set()
            await until(lambda: len(order) == 4)
            for client in clients:
                client.close()

    tls.sni_callback = begun
    try:
        run(test())
    finally:
        tls.sni_callback = None
    assert order == ["first", "new", "middle", "old"]


class Steps(ssl.SSLObject):
    """Notes the threads that compute handshakes."""

    threads: list[int]

    def do_handshake(self) -> None:
        self.threads.append(threading.get_ident())
        super().do_handshake()


@pytest.fixture
def steps(tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    threads: list[int] = []
    monkeypatch.setattr(tls, "sslobject_class", type("Steps", (Steps,), {"threads": threads}))
    return threads


@pytest.mark.parametrize("run", RUNS)
def test_the_event_loop_computes_no_handshake(run: Run, tls: ssl.SSLContext, steps: list[int]) -> None:
    async def test() -> None:
        async with serving(tls) as made:
            await asyncio.gather(*(ask(made) for _ in range(8)))

    run(test())
    assert len(steps) >= 16
    assert threading.get_ident() not in steps


def test_clients_of_one_address_are_served_in_the_order_in_which_they_came(
    tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKES_MAX", 1)
    monkeypatch.setattr(accepting, "HANDSHAKE_KEPT_SECONDS", 0.05)
    monkeypatch.setattr(accepting, "PATIENCE_SECONDS", 60.0)
    served: list[int] = []

    async def serve(number: int, client: socket.socket) -> None:
        if await asyncio.get_running_loop().sock_recv(client, 1):
            served.append(number)

    async def test() -> None:
        async with serving(tls) as made:
            clients = [silent(made, hello()) for _ in range(4)]
            await asyncio.gather(*(serve(*each) for each in enumerate(clients)))
            for client in clients:
                client.close()

    uvloop.run(test())
    assert served == [0, 1, 2, 3]


def test_no_handshake_is_computed_for_clients_that_have_given_up(
    tls: ssl.SSLContext, steps: list[int]
) -> None:
    async def test() -> None:
        async with serving(tls) as made:
            for _ in range(8):
                silent(made, hello()).close()
            await ask(made)

    uvloop.run(test())
    assert len(steps) == 2


@pytest.mark.parametrize("run", RUNS)
def test_a_client_that_does_not_authenticate_in_time_is_closed(
    run: Run, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SWEEP_SECONDS", 0.05)

    async def is_shown(seconds: float) -> bool:
        """False if the machine was so busy that a client who does authenticate was too late as well."""
        async with serving(tls, unauthenticated_seconds_max=seconds) as made:
            client = silent(made)
            try:
                stranger, user = await connected(made), await connected(made)
                user[1].write(GET.replace(b"/", b"/login", 1))
                await user[0].readuntil(b"ok")
            except (OSError, asyncio.IncompleteReadError):
                return False
            with contextlib.suppress(ConnectionError):
                assert await stranger[0].read() == b""
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(client, 1) == b""
            user[1].write(GET)
            await user[0].readuntil(b"ok")
            return True

    async def test() -> None:
        assert await is_shown(0.3) or await is_shown(3.0) or await is_shown(20.0)

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_connections_that_end_in_any_state_leave_no_open_file(run: Run, tls: ssl.SSLContext) -> None:
    async def test() -> None:
        first = hello()
        async with serving(tls) as made:
            await ask(made)
            await asyncio.sleep(0.1)
            before, counted = open_files(), made.connections.count
            for sent in (b"", first, b"GET / HTTP/1.1\r\n\r\n", first[:20]):
                for _ in range(8):
                    silent(made, sent).close()
            await ask(made)
            async with asyncio.timeout(60):
                while made.connections.count > counted or open_files() > before:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_handshakes_that_are_ended_before_they_begin_give_their_place_back(
    run: Run, tls: ssl.SSLContext
) -> None:
    async def test() -> None:
        first = hello()
        async with serving(tls, unauthenticated_per_address_max=2) as made:
            # Each closes the one before the last, which may just have got its turn.
            for _ in range(4 * accepting.HANDSHAKES_MAX):
                silent(made, first).close()
                await asyncio.sleep(0)
            await ask(made)

    run(test())


@pytest.mark.parametrize("run", RUNS)
def test_a_connection_that_is_closed_while_its_transport_is_made_is_lost_for_its_protocol(
    run: Run, tls: ssl.SSLContext
) -> None:
    """Otherwise the protocol writes to a closed transport, which ended the API server."""
    events: list[str] = []

    async def test() -> None:
        table = ConnectionTable(HttpLimits())

        class Evicted(asyncio.Protocol):
            def __init__(self, slot: ConnectionSlot) -> None:
                self._slot = slot
                slot.close()

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                self._slot.is_made = True
                events.append("made")

            def connection_lost(self, exc: Exception | None) -> None:
                table.closed(self._slot)
                events.append("lost")

        acceptor = accepting.Acceptor(Evicted, table, tls, HttpLimits(), ReadingTurns())
        acceptor.accept(await accepting.listen(["127.0.0.1"], 0))
        with contextlib.suppress(ConnectionError):
            reader, _ = await asyncio.open_connection("127.0.0.1", acceptor.port, ssl=trusting())
            await reader.read()
        async with asyncio.timeout(60):
            while table.count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        acceptor.close()

    run(test())
    assert events == ["made", "lost"]


def test_a_server_that_stops_closes_connections_in_any_state(tls: ssl.SSLContext) -> None:
    async def test() -> None:
        async with serving(tls) as made:
            clients = [silent(made, sent) for sent in (b"", hello())]
            await ask(made)
        loop = asyncio.get_running_loop()
        for client in clients:
            async with asyncio.timeout(60):
                try:
                    while await loop.sock_recv(client, 10_000):
                        pass
                except ConnectionError:
                    pass
        assert made.connections.count == 0

    uvloop.run(test())


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving(None) as made:
        with pytest.raises(OSError, match="in use"):
            async with HttpServer(lambda _request: HttpResponse(200, b""), "127.0.0.1", made.port):
                pass
