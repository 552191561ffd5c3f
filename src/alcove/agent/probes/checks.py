"""One check of a container: a command in it, or a connection to its pod by HTTP, TCP or gRPC.

Connections go where the pod's own network leads, and nowhere else: a pod cannot have its node knock on
others' doors. `host` of an HTTP check is only what the request says.
"""

from __future__ import annotations

import asyncio
import os
import ssl

from msgspec import Struct

from alcove.agent.pods.executor import PodExecutor
from alcove.agent.probes import grpc
from alcove.agent.runtime.base import ContainerId, ExecSession, RuntimeFailure
from alcove.api.objects import Object

OUTPUT_BYTES_MAX = 1_024
HEAD_BYTES_MAX = 16_384
USER_AGENT = "kube-probe/1.36"


class ProbeResult(Struct, frozen=True):
    is_good: bool
    message: str = ""


async def check(handler: Object, container: Object, executor: PodExecutor, id: ContainerId) -> ProbeResult:
    """`handler` is a probe or hook; whoever calls bounds its time."""
    try:
        if "exec" in handler:
            return await _exec(handler["exec"].get("command") or [], executor, id)
        if "httpGet" in handler:
            return await _http(handler["httpGet"], container, executor)
        if "tcpSocket" in handler:
            (await executor.dial(port_of(handler["tcpSocket"].get("port"), container))).close()
            return ProbeResult(True)
        if "grpc" in handler:
            asked = handler["grpc"]
            dialled = await executor.dial(int(asked["port"]))
            return ProbeResult(*(await grpc.is_serving(dialled, asked.get("service") or "")))
    except (OSError, RuntimeFailure, ValueError, EOFError, asyncio.LimitOverrunError) as error:
        return ProbeResult(False, str(error) or type(error).__name__)
    return ProbeResult(False, "missing probe handler")


def port_of(port: object, container: Object) -> int:
    """A number, or the name of one of the container's ports. ValueError: there is none."""
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
            said = os.read(reading, OUTPUT_BYTES_MAX)
        except BlockingIOError:
            said = b""
        os.close(reading)
    return ProbeResult(code == 0, said.decode(errors="replace").strip() or f"command ended with {code}")


async def _http(asked: Object, container: Object, executor: PodExecutor) -> ProbeResult:
    port = port_of(asked.get("port"), container)
    dialled = await executor.dial(port)
    address = executor.addresses[0] if executor.addresses else "localhost"
    is_tls = (asked.get("scheme") or "HTTP") == "HTTPS"
    reader, writer = await asyncio.open_connection(
        sock=dialled,
        limit=HEAD_BYTES_MAX,
        ssl=_unverified() if is_tls else None,
        server_hostname=(asked.get("host") or address) if is_tls else None,
    )
    try:
        writer.write(request(asked, asked.get("host") or f"{address}:{port}"))
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return ProbeResult(False, "malformed HTTP response")
    code = int(words[1])
    return ProbeResult(200 <= code < 400, f"HTTP probe failed with statuscode: {code}")


def request(asked: Object, host: str) -> bytes:
    headers = {"Host": host, "User-Agent": USER_AGENT, "Accept": "*/*", "Connection": "close"}
    for each in asked.get("httpHeaders") or ():
        headers = {name: value for name, value in headers.items() if name.lower() != each["name"].lower()}
        headers[each["name"]] = each.get("value") or ""
    path = asked.get("path") or "/"
    lines = [f"GET {path if path.startswith('/') else f'/{path}'} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a line break in the request")
    return "\r\n".join([*lines, "", ""]).encode()


def _unverified() -> ssl.SSLContext:
    """Probes ask whether somebody answers, not who."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
