"""The server side of a WebSocket: the handshake and messages over a connection. wsproto handles the frames.

Supported subprotocols are `v5.channel.k8s.io`, `v4.channel.k8s.io` and the older ones that clients still use:
with `channel.k8s.io`, or without a subprotocol, the outcome is an error message instead of a Status; with
`base64.` in the name, messages are text, for browsers: the digit of the channel, then base64. Logs have no
channels: with `binary.k8s.io`, or without a subprotocol, messages are the log's bytes, with
`base64.binary.k8s.io` they are base64 text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection

from msgspec import Struct
from wsproto.connection import Connection as Frames
from wsproto.connection import ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.utilities import RemoteProtocolError

from alcove.agent.server.requests import NodeRequest
from alcove.api.errors import BadRequest
from alcove.http.streams import HttpServerStream

V5, V4, OLDEST = "v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"
V4_TEXT, OLDEST_TEXT = "v4.base64.channel.k8s.io", "base64.channel.k8s.io"
UNNAMED = ""
BEFORE_V5 = (V4, V4_TEXT, OLDEST, OLDEST_TEXT, UNNAMED)
"""In order of preference."""
BINARY, BINARY_TEXT = "binary.k8s.io", "base64.binary.k8s.io"
ONE_WAY = (BINARY, BINARY_TEXT, UNNAMED)
"""For streams without channels, in order of preference."""
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_NORMAL = 1000
ANSWER_SECONDS_MAX = 5.0
"""How long a client has to answer a close frame. If the connection is cut before, clients may report lost
data."""


class WebSocketPiece(Struct, frozen=True):
    """A part of a message, or all of it."""

    data: bytes
    is_first: bool
    is_last: bool


def is_upgrade_request(request: NodeRequest) -> bool:
    return request.headers.get("upgrade", "").lower() == "websocket"


def offered(request: NodeRequest) -> list[str]:
    return [each.strip() for each in request.headers.get("sec-websocket-protocol", "").split(",")]


def chosen(request: NodeRequest, supported: Collection[str]) -> str:
    """The first of the `supported` protocols that the client offers. Raises BadRequest."""
    client_protocols = offered(request)
    for protocol in supported:
        if protocol in client_protocols:
            return protocol
    raise BadRequest(
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports {client_protocols}, server accepts {list(supported)}"
    )


class WebSocket:
    def __init__(self, connection: HttpServerStream) -> None:
        self._connection = connection
        self._frames = Frames(ConnectionType.SERVER)
        self._pieces: list[WebSocketPiece] = []
        self._is_first = True

    @classmethod
    async def accept(cls, connection: HttpServerStream, request: NodeRequest, protocol: str) -> WebSocket:
        """Raises BadRequest."""
        key = request.headers.get("sec-websocket-key", "")
        if request.headers.get("sec-websocket-version") != "13" or not _is_key(key):
            raise BadRequest(
                "unable to upgrade: Sec-WebSocket-Version 13 and a valid Sec-WebSocket-Key are required"
            )
        token = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC, usedforsecurity=False).digest())
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": token.decode(),
        }
        await connection.switch(headers | ({"Sec-WebSocket-Protocol": protocol} if protocol else {}))
        if protocol == BINARY_TEXT:
            return OneWayTextWebSocket(connection)
        return TextWebSocket(connection) if protocol in (V4_TEXT, OLDEST_TEXT) else cls(connection)

    async def receive(self) -> WebSocketPiece | None:
        """The next part of a message; None when the peer has closed, or violated the protocol."""
        while not self._pieces:
            data = await self._connection.read()
            if not data or not await self._receive_data(data):
                return None
        return self._pieces.pop(0)

    async def send(self, data: bytes) -> None:
        """One message. Raises ConnectionError."""
        if self._frames.state is not ConnectionState.OPEN:
            raise ConnectionResetError("the WebSocket is closed")
        await self._connection.write(self._frames.send(BytesMessage(data=data)))

    async def ping(self) -> None:
        """Raises ConnectionError."""
        if self._frames.state is ConnectionState.OPEN:
            await self._connection.write(self._frames.send(Ping()))

    async def close(self, code: int = _NORMAL) -> None:
        if self._frames.state is ConnectionState.OPEN:
            await self._connection.write(self._frames.send(CloseConnection(code=code)))

    async def _receive_data(self, data: bytes) -> bool:
        try:
            self._frames.receive_data(data)
            for event in self._frames.events():
                if isinstance(event, BytesMessage | TextMessage):
                    self._add_message(event)
                elif isinstance(event, Ping):
                    await self._connection.write(self._frames.send(event.response()))
                elif isinstance(event, CloseConnection):
                    if self._frames.state is ConnectionState.REMOTE_CLOSING:
                        await self._connection.write(self._frames.send(event.response()))
                    return False
        except (RemoteProtocolError, ConnectionError, binascii.Error):
            return False
        return True

    def _add_message(self, event: BytesMessage | TextMessage) -> None:
        data = event.data.encode() if isinstance(event, TextMessage) else bytes(event.data)
        self._pieces.append(WebSocketPiece(data, self._is_first, event.message_finished))
        self._is_first = event.message_finished


class TextWebSocket(WebSocket):
    """A WebSocket whose messages are base64 text."""

    def __init__(self, connection: HttpServerStream) -> None:
        super().__init__(connection)
        self._undecoded = ""
        """The end of an incomplete message: fewer than four base64 characters."""

    async def send(self, data: bytes) -> None:
        if self._frames.state is not ConnectionState.OPEN:
            raise ConnectionResetError("the WebSocket is closed")
        text = chr(ord("0") + data[0]) + base64.b64encode(data[1:]).decode()
        await self._connection.write(self._frames.send(TextMessage(data=text)))

    def _add_message(self, event: BytesMessage | TextMessage) -> None:
        text = event.data if isinstance(event, TextMessage) else bytes(event.data).decode("latin-1")
        channel = b""
        if self._is_first and text:
            channel, text = bytes([(ord(text[0]) - ord("0")) % 256]), text[1:]
        text = self._undecoded + text
        complete = len(text) if event.message_finished else len(text) - len(text) % 4
        self._undecoded = text[complete:]
        data = channel + base64.b64decode(text[:complete], validate=True)
        self._pieces.append(WebSocketPiece(data, self._is_first, event.message_finished))
        self._is_first = event.message_finished


class OneWayTextWebSocket(WebSocket):
    """A WebSocket that sends base64 text, without a channel."""

    async def send(self, data: bytes) -> None:
        if self._frames.state is not ConnectionState.OPEN:
            raise ConnectionResetError("the WebSocket is closed")
        text = base64.b64encode(data).decode()
        await self._connection.write(self._frames.send(TextMessage(data=text)))


class WebSocketTunnel:
    """A byte stream inside a WebSocket: message boundaries are ignored. Implements `Wire`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while (piece := await self._socket.receive()) is not None:
            if piece.data:
                return piece.data
        return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)


def _is_key(key: str) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False
