"""The abuser's side of a cluster: its credential, its connections, and what it was answered."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import ssl
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
from msgspec import Struct

from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.errors import ClientError
from alcove.client.pool import HttpPool, RequestLimits

CORE = "/api/v1/namespaces/default"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
WORKERS = 4
"""Concurrent requests of each kind of abuse."""
REFUSED_PAUSE_SECONDS = 0.05


class Target(Struct, frozen=True):
    """What the abuser knows: its credential, and the network namespace of a pod of its own."""

    kubeconfig: Path
    node: str = "n1"
    namespace: str = ""
    dns: str = ""
    runtime_class: str = ""


class Attacker:
    def __init__(self, target: Target) -> None:
        self.target = target
        user = kubeconfig.load(target.kubeconfig)
        self._user = user
        self._pool = HttpPool(user, RequestLimits(connections_max=64))
        self.outcomes: Counter[str] = Counter()
        """Answers by kind and status."""
        self.numbers = itertools.count(1)
        self.chance = random.Random(7)
        self._tls = ssl.create_default_context(cadata=user.ca_pem.decode())
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(user.certificate_pem + user.key_pem)
            pair.flush()
            self._tls.load_cert_chain(pair.name)
        self._anonymous = ssl.create_default_context(cadata=user.ca_pem.decode())
        host, _, port = user.server.removeprefix("https://").partition("/")[0].partition(":")
        self._where = (host, int(port))

    async def send(self, kind: str, method: str, path: str, body: Object | None = None) -> int:
        """The status of the answer; 0 if there was none."""
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": patch} if body is not None else {}
        data = b"" if body is None else orjson.dumps(body)
        try:
            status = (await self._pool.request(method, path, headers, data)).status
        except ClientError:
            status = 0
        self.outcomes[f"{kind} {status}"] += 1
        if status in (0, 429, 503):
            await asyncio.sleep(REFUSED_PAUSE_SECONDS)
        return status

    async def connect(self, *, anonymous: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of its own. Raises OSError."""
        tls = self._anonymous if anonymous else self._tls
        return await asyncio.open_connection(*self._where, ssl=tls, server_hostname="localhost")

    async def hold(self, kind: str, count: int, sent: bytes, drip: bytes = b"", **options: bool) -> None:
        """Keeps `count` connections that were sent something and are never read; lost ones are opened again."""

        async def one() -> None:
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await self.connect(**options)
                    self.outcomes[f"{kind} opened"] += 1
                    writer.write(sent)
                    while not writer.is_closing():
                        await asyncio.sleep(1.0)
                        writer.write(drip)
                await asyncio.sleep(REFUSED_PAUSE_SECONDS)

        await asyncio.gather(*(one() for _ in range(count)))

    async def repeat(self, work: Callable[[int], Awaitable[object]], workers: int = WORKERS) -> None:
        """Calls `work` with new numbers, several at the same time."""

        async def one() -> None:
            while True:
                await work(next(self.numbers))

        await asyncio.gather(*(one() for _ in range(workers)))


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()


def config_map(name: str, size: int, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "data": {"x": "y" * size}}
