"""A dedicated plane's API server that does to ring0's processes what a hostile tenant would make it do.

with HostilePlane(directory, "big") as plane:
    start controllers, scheduler and agents with `--plane big={plane.kubeconfig}`
    plane.be(Hostility.HUNG)        # every connection is closed, and new ones meet it so
    plane.served(Hostility.HUNG)    # who has come since, by user agent

Honest, it has no objects, accepts every write and answers with what was sent.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import orjson
from msgspec import Struct

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.apiserver.auth.certificates import CertificateAuthority, IssuedCertificate
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.testing.hostile_objects import END, FUTURE, MALFORMED, event, forged_pods, large_pod, plain_pod

CHUNK = b"x" * (256 << 10)
HUGE_BYTES = 1 << 30


class Hostility(Enum):
    HONEST = "honest"
    HUNG = "answers nothing"
    SLOW = "sends a byte now and then"
    CLOSING = "closes every connection"
    NOT_HTTP = "does not speak HTTP"
    REDIRECTING = "redirects every request to ring0"
    MALFORMED = "sends objects that are none"
    FORGING = "sends objects of others, and pods on nodes that nobody bound them to"
    ENDLESS_LIST = "sends new objects, and never ends the list"
    ENDLESS_WATCH = "changes an object without pause"
    LARGE_OBJECTS = "sends objects of a megabyte without end"
    HUGE_ANSWERS = "sends a gigabyte as answer to everything"
    IN_THE_FUTURE = "has a clock and revisions far ahead"
    OTHER_NAME = "has a certificate of another name"


class _Request(Struct, frozen=True):
    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return "watch" in self.query

    @property
    def resource(self) -> str:
        return self.path.rpartition("/")[2]


class HostilePlane:
    def __init__(self, directory: Path, tenant: str, home_url: str) -> None:
        """`home_url` is where it redirects to."""
        self.tenant = tenant
        self.kubeconfig = directory / f"{tenant}.kubeconfig"
        self._home_url = home_url
        self._authority = CertificateAuthority.new(f"ca-{tenant}", time.time())
        self._contexts = {
            name: _context(directory / f"{name}.pem", self._authority.serving([name], time.time()))
            for name in ("127.0.0.1", "elsewhere.example")
        }
        self._now = Hostility.HONEST
        self._served: Counter[tuple[Hostility, str]] = Counter()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True
        )
        self._objects: dict[str, Object] = {}
        self._revision = 1
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60)
        issued = self._authority.client(Subject(SYSTEM, "admin", ("system:masters",)), time.time())
        credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
        ca = self._authority.certificate_pem
        self.kubeconfig.write_text(render(f"https://127.0.0.1:{self.port}", ca, SYSTEM, "admin", credential))
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._loop.close()

    def be(self, hostility: Hostility) -> None:
        def change() -> None:
            self._now = hostility
            for writer in self._writers:
                writer.transport.abort()

        self._loop.call_soon_threadsafe(change)

    def served(self, hostility: Hostility) -> dict[str, int]:
        """Requests, or connections if it came to none, by the first word of the user agent."""
        return {agent: count for (then, agent), count in list(self._served.items()) if then is hostility}

    async def _serve(self) -> None:
        context = self._contexts["127.0.0.1"]
        context.sni_callback = self._choose
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stopping.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _choose(self, tls: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        """Called in each handshake."""
        if self._now is Hostility.OTHER_NAME:
            self._served[self._now, ""] += 1
            tls.context = self._contexts["elsewhere.example"]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        now = self._now
        try:
            if now is Hostility.CLOSING:
                self._served[now, ""] += 1
                return
            await self._converse(reader, writer, now)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # The client has had enough, or the hostility has changed.
        except asyncio.CancelledError:
            pass  # The server stops; asyncio would log a cancelled connection as a failure.
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, now: Hostility
    ) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {
                name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            method, target, _ = first.split(" ")
            url = urlsplit(target)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self._served[now, headers.get("user-agent", "")] += 1
            await self._answer(_Request(method, url.path, parse_qs(url.query), body), writer, now)

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter, now: Hostility) -> None:
        answer = _ANSWERS.get(now)
        if answer is not None:
            await answer(self, writer)
        elif request.is_watch:
            await self._watch(request, writer, now)
        elif now is Hostility.HUGE_ANSWERS:
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {HUGE_BYTES}\r\n\r\n".encode())
            await _flood(writer, lambda: CHUNK)
        elif now is Hostility.MALFORMED:
            await _send(writer, 200, MALFORMED[self._count() % len(MALFORMED)])
        else:
            await self._respond(request, writer)

    # Whole answers

    async def _hang(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        for byte in (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
            + b" " * 100_000
        ):
            writer.write(bytes((byte,)))
            await writer.drain()
            await asyncio.sleep(0.2)

    async def _babble(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\xff GARBAGE\r\n\r\n" * 1_000)
        await writer.drain()
        raise ConnectionError

    async def _redirect(self, writer: asyncio.StreamWriter) -> None:
        location = f"{self._home_url}/api/v1/tenants/good"
        writer.write(
            f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
        )
        await writer.drain()

    # Answers to single requests

    def _count(self) -> int:
        self._revision += 1
        return self._revision

    async def _respond(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        found = self._objects.get(request.path)
        if request.method == "GET" and found is None:
            missing = {
                "kind": "Status",
                "status": "Failure",
                "code": 404,
                "reason": "NotFound",
                "message": "none",
            }
            await _send(writer, 404, orjson.dumps(missing))
            return
        sent: Any = orjson.loads(request.body) if request.body else {}
        obj = found or {}
        if request.method != "GET":
            obj = sent if isinstance(sent, dict) else {}
            metadata = obj.setdefault("metadata", {})
            metadata |= {"resourceVersion": str(self._count()), "uid": "made-here"}
            path = f"{request.path}/{metadata.get('name')}" if request.method == "POST" else request.path
            if request.resource == "leases" or "/leases/" in request.path:
                self._objects[path] = obj
        await _send(writer, 201 if request.method == "POST" else 200, orjson.dumps(obj))

    # Watches

    async def _watch(self, request: _Request, writer: asyncio.StreamWriter, now: Hostility) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        is_pods = request.resource == "pods"
        match now:
            case Hostility.HUGE_ANSWERS:
                await _flood(writer, lambda: CHUNK)
            case Hostility.ENDLESS_LIST:
                await _flood(writer, lambda: event("ADDED", plain_pod(self.tenant, self._count())))
            case Hostility.LARGE_OBJECTS:
                await _flood(writer, lambda: event("ADDED", large_pod(self.tenant, self._count())))
            case Hostility.ENDLESS_WATCH:
                writer.write(event("ADDED", plain_pod(self.tenant, 1)) + END)
                await _flood(writer, lambda: event("MODIFIED", plain_pod(self.tenant, 1, self._count())))
            case Hostility.MALFORMED:
                for each in MALFORMED:
                    writer.write(b'{"type":"ADDED","object":' + each + b"}\n")
                writer.write(END)
                for each in MALFORMED[self._count() % len(MALFORMED) :]:
                    writer.write(b'{"type":"DELETED","object":' + each + b"}\n" + each + b"\n")
                await writer.drain()
                raise ConnectionError
            case Hostility.FORGING if is_pods:
                for pod in forged_pods(self.tenant):
                    writer.write(event("ADDED", pod))
            case Hostility.IN_THE_FUTURE:
                writer.write(
                    event("ADDED", plain_pod(self.tenant, 1) | {"metadata": FUTURE | {"tenant": self.tenant}})
                )
        writer.write(END)
        await writer.drain()
        await asyncio.Event().wait()


async def _flood(writer: asyncio.StreamWriter, next_bytes: Callable[[], bytes]) -> None:
    while True:
        writer.write(next_bytes())
        await writer.drain()
        await asyncio.sleep(0)  # The next connection wants its share too.


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )
    writer.write(body)
    await writer.drain()


def _context(path: Path, issued: IssuedCertificate) -> ssl.SSLContext:
    path.touch(mode=0o600)
    path.write_bytes(issued.certificate_pem + issued.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


_ANSWERS: dict[Hostility, Callable[[HostilePlane, asyncio.StreamWriter], Awaitable[None]]] = {
    Hostility.HUNG: HostilePlane._hang,
    Hostility.SLOW: HostilePlane._drip,
    Hostility.NOT_HTTP: HostilePlane._babble,
    Hostility.REDIRECTING: HostilePlane._redirect,
}
