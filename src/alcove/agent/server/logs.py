"""GET of a container's log, with `follow`, `previous`, `tailLines` and the other options of kubelet."""

from __future__ import annotations

import asyncio
import time

from alcove.agent.logs import reader
from alcove.agent.logs.reader import LogOptions
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, RuntimeFailure
from alcove.agent.server.requests import NodeRequest
from alcove.agent.server.running_containers import PodHandle
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
    await connection.begin("text/plain")
    exited = asyncio.Event()
    tasks = [asyncio.create_task(reader.read(path, options, exited, connection.chunk))]
    if options.follow:
        tasks.append(asyncio.create_task(_wait_for_disconnect(connection)))
    waiting = (
        asyncio.create_task(_wait_for_exit(pod.runtime, container.id, exited)) if options.follow else None
    )
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
            await connection.end()
    finally:
        await stop(*tasks, *([waiting] if waiting is not None else []))


async def _wait_for_disconnect(connection: HttpServerStream) -> None:
    """Returns when the client has disconnected; anything it sends is ignored."""
    while await connection.read():
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
