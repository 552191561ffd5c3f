"""Planes that come and go while a process runs: a folder with a kubeconfig for each dedicated tenant.

    DIR/TENANT.kubeconfig    the plane of that tenant, as long as the file is there

When a file goes, the process leaves the plane. On a node the plane's pods end then: nobody could tell it what becomes of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.pool import HttpPool
from alcove.client.transport import Response, Stream, Transport
from alcove.component.tasks import BackgroundTasks

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
FILE_SECONDS = 5.0
SUFFIX = ".kubeconfig"

OnPlaneChange = Callable[[PlaneId, KubeconfigUser | None], None]
"""A plane joined, with what reaches it, or left."""


class PlaneJoins(Protocol):
    """What follows planes: a node's set of them, or the scheduler."""

    def ids(self) -> list[PlaneId]: ...

    def join(self, plane: PlaneId, transport: Transport) -> object: ...

    async def leave(self, plane: PlaneId) -> None: ...


class SwappableTransport:
    """A transport that can be exchanged under those who use it: a plane's certificate is renewed, its pods go on."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        return await self._pool.request(method, path, headers, body)

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        return self._pool.stream(path, headers)

    async def exchange(self, pool: HttpPool) -> None:
        """Watches over the old one end, and are resumed over the new."""
        before, self._pool = self._pool, pool
        await before.close()

    async def close(self) -> None:
        await self._pool.close()


async def follow_file(path: Path, way: SwappableTransport) -> None:
    """Exchanges the way whenever the kubeconfig changes: its certificate was renewed. Until cancelled."""
    known = await asyncio.to_thread(path.read_bytes)
    while True:
        await asyncio.sleep(FILE_SECONDS)
        try:
            content = await asyncio.to_thread(path.read_bytes)
            if content != known:
                await way.exchange(HttpPool(kubeconfig.load(path)))
                known = content
                log.info("kubeconfig read anew", extra={"path": str(path)})
        except (OSError, BadKubeconfig) as error:
            # It is being written, or was removed: what is known is good until it ends.
            log.warning("kubeconfig not read", extra={"path": str(path), "error": str(error)})


class DedicatedPlane(Struct, frozen=True):
    """The planes that a process is told of when it starts, and where more may come and go."""

    planes: Mapping[PlaneId, KubeconfigUser]
    folder: Path | None

    @classmethod
    def load(cls, paths: Mapping[TenantId, Path], folder: Path | None) -> DedicatedPlane:
        """Of kubeconfigs. Raises BadKubeconfig."""
        return cls({PlaneId(tenant): kubeconfig.load(path) for tenant, path in paths.items()}, folder)

    def follow(
        self, joins: PlaneJoins, tasks: BackgroundTasks, heard: OnPlaneChange = lambda _plane, _account: None
    ) -> None:
        """By tasks of the group, until they are cancelled."""
        tasks.fatal("dedicated planes", self._join(joins, heard))
        if self.folder is not None:
            tasks.fatal("planes folder", PlaneFollower(self.folder, joins, heard).run())

    async def _join(self, joins: PlaneJoins, heard: OnPlaneChange) -> None:
        ways = [HttpPool(user) for user in self.planes.values()]
        try:
            for (plane, user), way in zip(self.planes.items(), ways, strict=True):
                heard(plane, user)
                joins.join(plane, way)
            await asyncio.Event().wait()
        finally:
            for way in ways:
                await way.close()


class PlaneFollower:
    """`run` until cancelled."""

    def __init__(self, folder: Path, planes: PlaneJoins, on_plane_change: OnPlaneChange) -> None:
        self._folder = folder
        self._planes = planes
        self._heard = on_plane_change
        self._joined: dict[PlaneId, tuple[SwappableTransport, bytes]] = {}

    async def run(self) -> None:
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for way, _ in self._joined.values():
                await way.close()

    async def look(self) -> None:
        found = await asyncio.to_thread(_read, self._folder)
        for plane in [each for each in self._joined if each not in found]:
            await self._leave(plane)
        for plane, content in found.items():
            before = self._joined.get(plane)
            is_new = before is None and plane not in self._planes.ids()
            has_changed = before is not None and before[1] != content
            if is_new or has_changed:
                await self._join(plane, content)

    async def _join(self, plane: PlaneId, content: bytes) -> None:
        try:
            user = kubeconfig.load(self._folder / f"{plane}{SUFFIX}")
            pool = HttpPool(user)
        except BadKubeconfig as error:
            log.warning("plane not joined", extra={"plane": plane, "error": str(error)})
            return
        self._heard(plane, user)
        if plane in self._joined:
            way, _ = self._joined[plane]
            await way.exchange(pool)
        else:
            way = SwappableTransport(pool)
            self._planes.join(plane, way)
        self._joined[plane] = (way, content)
        log.info("joined", extra={"plane": plane})

    async def _leave(self, plane: PlaneId) -> None:
        way, _ = self._joined.pop(plane)
        await self._planes.leave(plane)
        self._heard(plane, None)
        await way.close()
        log.info("left", extra={"plane": plane})


def _read(folder: Path) -> dict[PlaneId, bytes]:
    found: dict[PlaneId, bytes] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else ():
        plane = PlaneId(path.name.removesuffix(SUFFIX))
        if plane != HOME:
            found[plane] = path.read_bytes()
    return found
