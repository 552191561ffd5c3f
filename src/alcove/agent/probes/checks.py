"""One probe of a container: a command in it, or a connection to its pod by HTTP, TCP or gRPC.

Connections are made to the pod through its own network only, so a pod cannot make its node connect elsewhere.
The `host` of an HTTP probe only sets the Host header.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import cache

from msgspec import Struct

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes import grpc
from alcove.agent.runtime.base import ContainerId, ExecSession, RuntimeFailure
from alcove.api.objects import Object
from alcove.http.errors import HttpError
from alcove.http.tls_transport import TlsTransport

OUTPUT_BYTES_MAX = 1_024
HEAD_BYTES_MAX = 16_384
USER_AGENT = "kube-probe/1.36"


class ProbeResult(Struct, frozen=True):
    is_good: bool
    message: str = ""


async def check(handler: Object, container: Object, executor: PodExecutor, id: ContainerId) -> ProbeResult:
    """Runs the `handler`, which is a probe or a lifecycle hook. The caller applies a timeout."""
    try:
        if "exec" in handler:
            return await _exec(handler["exec"].get("command") or [], executor, id)
        if "httpGet" in handler:
            return await _http(handler["httpGet"], container, executor)
        if "tcpSocket" in handler:
            (await executor.dial(port_of(handler["tcpSocket"].get("port"), container))).close()
            return ProbeResult(True)
        if "grpc" in handler:
            grpc_probe = handler["grpc"]
            sock = await executor.dial(int(grpc_probe["port"]))
            return ProbeResult(*(await grpc.is_serving(sock, grpc_probe.get("service") or "")))
    except (OSError, RuntimeFailure, ValueError, EOFError, HttpError, asyncio.LimitOverrunError) as error:
        return ProbeResult(False, str(error) or type(error).__name__)
    return ProbeResult(False, "missing probe handler")


def port_of(port: object, container: Object) -> int:
    """Resolves a port number or the name of one of the container's ports. Raises ValueError."""
    if isinstance(port, int):
        return port
    for each in container.get("ports") or ():
        if each.get("name") == port:
            return int(each["containerPort"])
    if isinstance(port, str) and port.isdigit():
        return int(port)
    raise ValueError(f"couldn't find port: {port}")


async def _exec(command: list[str], executor: PodExecutor, id: ContainerId) -> ProbeResult:
    reading, writing = os.pipe()
    try:
        code = await executor.runtime.exec(id, ExecSession(command, stdout=writing, stderr=writing))
    finally:
        os.close(writing)
        os.set_blocking(reading, False)
        try:
            output = os.read(reading, OUTPUT_BYTES_MAX)
        except BlockingIOError:
            output = b""
        os.close(reading)
    return ProbeResult(code == 0, output.decode(errors="replace").strip() or f"command exited with {code}")


async def _http(http_get: Object, container: Object, executor: PodExecutor) -> ProbeResult:
    port = port_of(http_get.get("port"), container)
    sock = await executor.dial(port)
    address = executor.addresses[0] if executor.addresses else "localhost"
    if (http_get.get("scheme") or "HTTP") == "HTTPS":
        reader, writer = await _open_tls(sock, executor, http_get.get("host") or address)
    else:
        reader, writer = await asyncio.open_connection(sock=sock, limit=HEAD_BYTES_MAX)
    try:
        writer.write(request(http_get, http_get.get("host") or f"{address}:{port}"))
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    status_line = line.split()
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/") or not status_line[1].isdigit():
        return ProbeResult(False, "malformed HTTP response")
    code = int(status_line[1])
    return ProbeResult(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")


async def _open_tls(
    sock: socket.socket, executor: PodExecutor, server_name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(HEAD_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        session = await executor.handshake(sock, _unverified_tls, server_name)
        _, transport = await loop.create_connection(lambda: TlsTransport(session, protocol), sock=sock)
    except BaseException:
        sock.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def request(http_get: Object, host: str) -> bytes:
    headers = {"Host": host, "User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    for each in http_get.get("httpHeaders") or ():
        headers = {name: value for name, value in headers.items() if name.lower() != each["name"].lower()}
        headers[each["name"]] = each.get("value") or ""
    path = http_get.get("path") or "/"
    lines = [f"GET {path if path.startswith('/') else f'/{path}'} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("invalid request: line break in path or header")
    return "\r\n".join([*lines, "", ""]).encode()


@cache
def _unverified_tls() -> ssl.SSLContext:
    """Probes do not verify certificates, as in kubelet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
