"""Joins and leaves planes while a process runs: a directory with a kubeconfig for each dedicated tenant.

    DIR/TENANT.kubeconfig    the plane of that tenant, as long as the file exists

When a file is removed, the process leaves the plane. A node then stops the plane's pods: it would get no more
updates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
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
from alcove.client.transport import Stream, Transport
from alcove.component.tasks import BackgroundTasks
from alcove.http.client import ReceivedResponse

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
FILE_SECONDS = 5.0
SUFFIX = ".kubeconfig"

OnPlaneChange = Callable[[PlaneId, KubeconfigUser | None], None]
"""Called when a plane joined (with its user) or left (None)."""


class PlaneJoins(Protocol):
    """A set of planes to join and leave: that of a node, of the controllers, or of the scheduler."""

    def ids(self) -> list[PlaneId]: ...

    def join(self, plane: PlaneId, transport: Transport) -> object: ...

    async def leave(self, plane: PlaneId) -> None: ...


class SwappableTransport:
    """A transport whose connection pool can be replaced in use, when the plane's client certificate was
    renewed."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        return await self._pool.request(method, path, headers, body)

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        return self._pool.stream(path, headers)

    async def exchange(self, pool: HttpPool) -> None:
        """Replaces the pool. Watches on the old one end; clients resume them on the new one."""
        before, self._pool = self._pool, pool
        await before.close()

    async def close(self) -> None:
        await self._pool.close()


async def follow_file(path: Path, transport: SwappableTransport) -> None:
    """Replaces the transport's pool whenever the kubeconfig changes, until cancelled."""
    current = await asyncio.to_thread(path.read_bytes)
    while True:
        await asyncio.sleep(FILE_SECONDS)
        try:
            content = await asyncio.to_thread(path.read_bytes)
            if content != current:
                await transport.exchange(HttpPool(kubeconfig.load(path)))
                current = content
                log.info("kubeconfig reloaded", extra={"path": str(path)})
        except (OSError, BadKubeconfig) as error:
            # It is being written, or was removed: keep the current credentials until they expire.
            log.warning("failed to read kubeconfig", extra={"path": str(path), "error": str(error)})


class DedicatedPlane(Struct, frozen=True):
    """The dedicated planes of a process: those configured at start, and a directory of further ones."""

    planes: Mapping[PlaneId, KubeconfigUser]
    directory: Path | None

    @classmethod
    def load(cls, paths: Mapping[TenantId, Path], directory: Path | None) -> DedicatedPlane:
        """Reads the kubeconfigs. Raises BadKubeconfig."""
        return cls({PlaneId(tenant): kubeconfig.load(path) for tenant, path in paths.items()}, directory)

    async def follow(
        self,
        joins: PlaneJoins,
        tasks: BackgroundTasks,
        on_plane_change: OnPlaneChange = lambda _plane, _account: None,
    ) -> None:
        """Joins the planes, and starts tasks that follow the directory and close connections when they are
        cancelled. When it returns, `joins` has every plane there is: a plane that a process does not know
        would look like one that was removed."""
        transports = [HttpPool(user) for user in self.planes.values()]
        tasks.fatal("dedicated planes", _close_at_end(transports))
        for (plane, user), transport in zip(self.planes.items(), transports, strict=True):
            on_plane_change(plane, user)
            joins.join(plane, transport)
        if self.directory is not None:
            follower = PlaneFollower(self.directory, joins, on_plane_change)
            await follower.poll()
            tasks.fatal("planes folder", follower.run())


async def _close_at_end(transports: Sequence[HttpPool]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for transport in transports:
            await transport.close()


class PlaneFollower:
    """Joins the planes of the directory and leaves removed ones. `run` until cancelled."""

    def __init__(self, directory: Path, planes: PlaneJoins, on_plane_change: OnPlaneChange) -> None:
        self._directory = directory
        self._planes = planes
        self._on_plane_change = on_plane_change
        self._joined: dict[PlaneId, tuple[SwappableTransport, bytes]] = {}

    async def run(self) -> None:
        try:
            while True:
                await self.poll()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for transport, _ in self._joined.values():
                await transport.close()

    async def poll(self) -> None:
        found = await asyncio.to_thread(_read, self._directory)
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
            user = kubeconfig.load(self._directory / f"{plane}{SUFFIX}")
            pool = HttpPool(user)
        except BadKubeconfig as error:
            log.warning("failed to join plane; retrying", extra={"plane": plane, "error": str(error)})
            return
        self._on_plane_change(plane, user)
        if plane in self._joined:
            transport, _ = self._joined[plane]
            await transport.exchange(pool)
        else:
            transport = SwappableTransport(pool)
            self._planes.join(plane, transport)
        self._joined[plane] = (transport, content)
        log.info("plane joined", extra={"plane": plane})

    async def _leave(self, plane: PlaneId) -> None:
        transport, _ = self._joined.pop(plane)
        await self._planes.leave(plane)
        self._on_plane_change(plane, None)
        await transport.close()
        log.info("plane left", extra={"plane": plane})


def _read(directory: Path) -> dict[PlaneId, bytes]:
    found: dict[PlaneId, bytes] = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")) if directory.is_dir() else ():
        plane = PlaneId(path.name.removesuffix(SUFFIX))
        if plane != HOME:
            found[plane] = path.read_bytes()
    return found
