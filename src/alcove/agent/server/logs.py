"""GET of a container's log, with `follow`, `previous`, `tailLines` and the other options of kubelet: as the
body of the response, or over a WebSocket."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from alcove.agent.logs import reader
from alcove.agent.logs.reader import LogOptions
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, RuntimeFailure
from alcove.agent.server import websocket
from alcove.agent.server.requests import NodeRequest
from alcove.agent.server.running_containers import PodHandle
from alcove.agent.server.websocket import WebSocket
from alcove.api import meta
from alcove.api.errors import BadRequest, NotFound
from alcove.component.tasks import stop
from alcove.http.streams import HttpServerStream

_STREAMS = {"": b"", "All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}


async def serve(connection: HttpServerStream, request: NodeRequest, pod: PodHandle, name: str) -> None:
    """Raises BadRequest and NotFound, before the response has begun."""
    options = _options(request)
    container = pod.containers.get(name)
    if container is None:
        raise NotFound(f'container "{name}" in pod "{pod.key.name}" has not started')
    path = container.log_path
    if request.flag("previous"):
        if container.previous_log_path is None:
            message = f'previous terminated container "{name}" in pod "{pod.key.name}" not found'
            raise BadRequest(message)
        path = container.previous_log_path
    output: LogOutput
    if websocket.is_upgrade_request(request):
        output = await WebSocketOutput.begin(connection, request)
    else:
        output = await ResponseOutput.begin(connection)
    exited = asyncio.Event()
    reading = asyncio.create_task(reader.read(path, options, exited, output.write))
    disconnecting = asyncio.create_task(output.wait_for_disconnect())
    tasks = [reading, disconnecting]
    if options.follow:
        tasks.append(asyncio.create_task(_wait_for_exit(pod.runtime, container.id, exited)))
    try:
        await asyncio.wait((reading, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()
            await output.end()
            await asyncio.wait((disconnecting,), timeout=output.close_seconds)
    finally:
        await stop(*tasks)


class LogOutput(Protocol):
    close_seconds: float
    """How long the client has to disconnect after the end."""

    async def write(self, data: bytes) -> None: ...

    async def end(self) -> None: ...

    async def wait_for_disconnect(self) -> None:
        """Returns when the client has disconnected; anything it sends is ignored."""
        ...


class ResponseOutput:
    close_seconds = 0.0

    def __init__(self, connection: HttpServerStream) -> None:
        self._connection = connection
        self.write = connection.chunk
        self.end = connection.end

    @classmethod
    async def begin(cls, connection: HttpServerStream) -> ResponseOutput:
        await connection.begin("text/plain")
        return cls(connection)

    async def wait_for_disconnect(self) -> None:
        while await self._connection.read():
            pass


class WebSocketOutput:
    """Messages with the log's bytes and nothing else, in base64 if the client chose that."""

    close_seconds = websocket.ANSWER_SECONDS_MAX

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.write = socket.send
        self.end = socket.close

    @classmethod
    async def begin(cls, connection: HttpServerStream, request: NodeRequest) -> WebSocketOutput:
        """Raises BadRequest."""
        protocol = websocket.chosen(request, websocket.ONE_WAY)
        socket = await WebSocket.accept(connection, request, protocol)
        await socket.send(b"")  # As Kubernetes does: clients may wait for the first message.
        return cls(socket)

    async def wait_for_disconnect(self) -> None:
        while await self._socket.receive() is not None:
            pass


async def _wait_for_exit(runtime: ContainerRuntime, container: ContainerId, exited: asyncio.Event) -> None:
    try:
        await runtime.wait(container)
    except RuntimeFailure:
        pass  # The container was deleted, so it has exited.
    finally:
        exited.set()


def _options(request: NodeRequest) -> LogOptions:
    since: float | None = None
    if (seconds := request.number("sinceSeconds")) is not None:
        since = time.time() - seconds
    elif text := request.first("sinceTime"):
        try:
            since = meta.parse_time(text)
        except ValueError as error:
            raise BadRequest(f'invalid sinceTime "{text}": must be an RFC 3339 time') from error
    stream = request.first("stream")
    if stream not in _STREAMS:
        raise BadRequest(f'invalid stream "{stream}": must be All, Stdout or Stderr')
    return LogOptions(
        request.flag("follow") and not request.flag("previous"),
        request.flag("timestamps"),
        since,
        request.number("tailLines"),
        request.number("limitBytes"),
        _STREAMS[stream],
    )
