"""The streams of exec in every protocol version, against a real WebSocket client."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest

from alcove.agent.server import channels
from alcove.agent.server.channels import STDERR, STDOUT, RequestedStreams, StreamChannels, TerminalSize
from alcove.agent.server.inbox import Inbox
from alcove.agent.server.requests import NodeRequest, read_request, refuse
from alcove.api.errors import ApiError, BadRequest
from alcove.http.streams import HttpServerStream

Work = Callable[[StreamChannels], Awaitable[None]]
ALL = RequestedStreams(True, True, True)


@asynccontextmanager
async def serving(work: Work, wanted: RequestedStreams = ALL) -> AsyncIterator[str]:
    """The address of a server that does `work` with each client's streams."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = HttpServerStream(reader, writer)
        try:
            request = await read_request(connection)
            async with channels.opened(connection, request, wanted) as client:

                async def do() -> None:
                    await work(client.channels)

                await client.during(do())
        except ApiError as error:
            await refuse(connection, error)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec"


async def echo(client: StreamChannels) -> None:
    while data := await client.stdin.get():
        await client.write(STDOUT, data)
    await client.write(STDERR, b"over")
    await client.finish(channels.exited(3))


async def test_version_5_ends_its_input_and_still_hears_the_outcome() -> None:
    async with (
        serving(echo) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v4.channel.k8s.io", "v5.channel.k8s.io"]) as socket,
    ):
        assert socket.protocol == "v5.channel.k8s.io"
        await socket.send_bytes(b"\x00hello")
        assert await socket.receive_bytes() == b"\x01hello"
        await socket.send_bytes(b"\xff\x00")
        assert await socket.receive_bytes() == b"\x02over"
        error = await socket.receive_bytes()
        assert error[0] == 3
        status = orjson.loads(error[1:])
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_version_4_has_no_message_for_the_end_of_input() -> None:
    async with (
        serving(echo) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v4.channel.k8s.io"]) as socket,
    ):
        await socket.send_bytes(b"\xff\x00")
        await socket.send_bytes(b"\x00still")
        assert await socket.receive_bytes() == b"\x01still"


@pytest.mark.parametrize("protocol", ["channel.k8s.io", ""])
async def test_the_oldest_protocols_get_the_status_as_text(protocol: str) -> None:
    async with (
        serving(three_bytes) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=[protocol] if protocol else ()) as socket,
    ):
        assert (socket.protocol or "") == protocol
        await socket.send_bytes(b"\x00abc")
        assert await socket.receive_bytes() == b"\x01abc"
        assert (await socket.receive_bytes()).endswith(b"exit status 3")
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def three_bytes(client: StreamChannels) -> None:
    got = b""
    while len(got) < 3 and (part := await client.stdin.get()):
        got += part
    await client.write(STDOUT, got)
    await client.finish(channels.exited(3))


@pytest.mark.parametrize(
    ("protocol", "outcome"),
    [("v4.base64.channel.k8s.io", b'{"metadata"'), ("base64.channel.k8s.io", b"command terminated")],
)
async def test_browsers_speak_text(protocol: str, outcome: bytes) -> None:
    async with (
        serving(three_bytes) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=[protocol]) as socket,
    ):
        assert socket.protocol == protocol
        await socket.send_str("0" + base64.b64encode(b"ab").decode())
        await socket.send_str("0" + base64.b64encode(b"c").decode())
        assert await socket.receive_str() == "1" + base64.b64encode(b"abc").decode()
        message = await socket.receive_str()
        assert message[0] == "3" and base64.b64decode(message[1:]).startswith(outcome)


async def test_text_that_is_no_base64_ends_it() -> None:
    async with (
        serving(three_bytes) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v4.base64.channel.k8s.io"]) as socket,
    ):
        await socket.send_str("0***")
        async with asyncio.timeout(60):
            messages = [message.data async for message in socket]
        assert messages[0] == "1", "something was taken for input"


async def test_a_ping_is_answered_while_nothing_else_happens() -> None:
    async with (
        serving(echo) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=["v5.channel.k8s.io"], autoping=False) as socket,
    ):
        await socket.ping(b"there?")
        answer = await socket.receive()
        assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"there?")


async def test_a_client_that_leaves_ends_the_work() -> None:
    ended = asyncio.Event()

    async def long(_client: StreamChannels) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.set()

    async with serving(long) as url, aiohttp.ClientSession() as session:
        socket = await session.ws_connect(url, protocols=["v5.channel.k8s.io"])
        await socket.close()
        async with asyncio.timeout(60):
            await ended.wait()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upgrade": "websocket", "Connection": "Upgrade"},
        {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dG9vIHNob3J0",
            "Sec-WebSocket-Protocol": "v5.channel.k8s.io",
        },
        {"Upgrade": "SPDY/3.1", "Connection": "Upgrade", "X-Stream-Protocol-Version": "channel.k8s.io"},
        {"Upgrade": "h2c", "Connection": "Upgrade"},
    ],
)
async def test_an_unsupported_protocol_is_refused_with_a_message(headers: dict[str, str]) -> None:
    async with (
        serving(echo) as url,
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers) as answer,
    ):
        assert answer.status == 400
        assert "unable to upgrade" in (await answer.json(content_type=None))["message"]


async def test_sizes_come_in_any_pieces() -> None:
    inbox = Inbox()
    for part in (
        b'{"Width":80,"Hei',
        b'ght":24}\n{"Width":',
        b'100,"Height":50}nonsense}{"Width":-1,"Height":0}',
    ):
        await inbox.put(part)
    inbox.end()
    assert [size async for size in channels.sizes_of(inbox)] == [TerminalSize(80, 24), TerminalSize(100, 50)]


def test_a_terminal_has_no_errors_of_its_own() -> None:
    request = NodeRequest("GET", (), {name: ["true"] for name in ("tty", "stdin", "stdout", "stderr")}, {})
    assert RequestedStreams.from_request(request) == RequestedStreams(True, True, False, True)
    with pytest.raises(BadRequest, match="at least one"):
        RequestedStreams.from_request(NodeRequest("GET", (), {}, {}))
