"""One probe of a container: a command in it, or a connection to its pod by HTTP, TCP or gRPC.

Connections are made to the pod through its own network, so a pod cannot make its node connect elsewhere. A `host` in
the probe of one of ring0's pods is reached from the node; in a tenant's pod the probe fails.

As in the kubelet, redirects to the same host are followed; one to another host is a success.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Sequence
from functools import cache
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes import grpc
from alcove.agent.runtime.base import ContainerId, ExecSession, RuntimeFailure
from alcove.api.objects import Object
from alcove.api.schema.kubernetes_schemas import VERSION
from alcove.http.errors import HttpError
from alcove.http.tls_transport import TlsTransport

OUTPUT_BYTES_MAX = 1_024
HEAD_BYTES_MAX = 16_384
REDIRECTS_MAX = 10
USER_AGENT = f"kube-probe/{VERSION.rpartition('.')[0]}"
_DEFAULT_PORTS = {"http": 80, "https": 443}


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
            probe = handler["tcpSocket"]
            port = port_of(probe.get("port"), container)
            (await _dial(executor, probe.get("host") or "", port)).close()
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


async def _dial(executor: PodExecutor, host: str, port: int) -> socket.socket:
    """Connects to the pod, or to another `host`. Raises OSError."""
    if not host or host in executor.addresses:
        return await executor.dial(port)
    return await executor.dial_host(host, port)


async def _http(http_get: Object, container: Object, executor: PodExecutor) -> ProbeResult:
    host = http_get.get("host") or (executor.addresses[0] if executor.addresses else "localhost")
    path = http_get.get("path") or "/"
    if any(each in path for each in "\r\n\t"):
        raise ValueError("invalid request: control character in path")  # `urlsplit` would drop it.
    port = port_of(http_get.get("port"), container)
    scheme = (http_get.get("scheme") or "HTTP").lower()
    url = f"{scheme}://{_authority(host, port)}{path if path.startswith('/') else f'/{path}'}"
    for _ in range(REDIRECTS_MAX):
        code, location = await _response(url, http_get.get("httpHeaders") or (), executor)
        target = urlsplit(urljoin(url, location)) if location and 300 <= code < 400 else None
        if target is None or target.hostname != urlsplit(url).hostname or target.scheme not in _DEFAULT_PORTS:
            return ProbeResult(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")
        url = target.geturl()
    return ProbeResult(False, f"stopped after {REDIRECTS_MAX} redirects")


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _response(url: str, headers: Sequence[Object], executor: PodExecutor) -> tuple[int, str]:
    """The status code and `Location` of a response. Raises ValueError, OSError and others."""
    target = urlsplit(url)
    host, port = target.hostname or "", target.port or _DEFAULT_PORTS[target.scheme]
    sock = await _dial(executor, "" if host == "localhost" and not executor.addresses else host, port)
    if target.scheme == "https":
        reader, writer = await _open_tls(sock, executor, host)
    else:
        reader, writer = await asyncio.open_connection(sock=sock, limit=HEAD_BYTES_MAX)
    try:
        writer.write(request(target, headers))
        await writer.drain()
        return await _read_head(reader)
    finally:
        writer.close()


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, str]:
    status_line = (await reader.readline()).split()
    if len(status_line) < 2 or not status_line[0].startswith(b"HTTP/") or not status_line[1].isdigit():
        raise ValueError("malformed HTTP response")
    code, bytes_read = int(status_line[1]), 0
    while 300 <= code < 400 and bytes_read < HEAD_BYTES_MAX:
        line = await reader.readline()
        bytes_read += len(line)
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"location":
            return code, value.strip().decode("latin-1")
        if not line.strip():
            break
    return code, ""


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


def request(url: SplitResult, headers: Sequence[Object]) -> bytes:
    """The request with the probe's headers, of which a name may occur repeatedly. They replace those of the node."""
    given = {each["name"].lower() for each in headers}
    own = {"Host": url.netloc, "User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    lines = [f"GET {url.path or '/'}{f'?{url.query}' if url.query else ''} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in own.items() if name.lower() not in given]
    lines += [f"{each['name']}: {each.get('value') or ''}" for each in headers]
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
