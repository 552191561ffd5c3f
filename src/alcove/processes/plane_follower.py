"""Joins and leaves planes while a process runs. Planes come from two sources:

    Tenants                  a dedicated tenant whose API server has been ready: `status.endpoint`; a foreign one whose
                             plane ring0 has a Secret of (`api/foreign_planes.py`)
    DIR/TENANT.kubeconfig    the plane of that tenant, as long as the file exists

On dedicated tenants' planes a process uses the client certificate that it has at home: a plane's API server trusts
ring0's authority for ring0's components, and never sees their keys. On foreign planes it uses the credential in the Secret.

When the tenant is deleted or the file is removed, the process leaves the plane. A node then stops the plane's pods: it
would get no more updates.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from alcove.api import foreign_planes, objects
from alcove.api.foreign_planes import KUBELET_USER, ForeignPlane
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import is_dedicated, is_foreign
from alcove.api.kinds.core.plane_sleep import is_stopped
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard
from alcove.client import kubeconfig
from alcove.client.client import ListSelection
from alcove.client.errors import BadKubeconfig, PlaneStopped
from alcove.client.keys import HOME, PlaneId
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.planes import Planes
from alcove.client.pool import DEDICATED, STOCK, HttpPool, RequestLimits
from alcove.client.resources import SECRETS, TENANTS
from alcove.client.stock_transport import StockTransport
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
    renewed, and that sends nothing while the plane's API server is stopped."""

    def __init__(self, pool: Transport) -> None:
        self._pool = pool
        self._running = asyncio.Event()
        self._running.set()

    def set_running(self, is_running: bool) -> None:
        """While the API server does not run, watches wait for it, and requests raise PlaneStopped."""
        (self._running.set if is_running else self._running.clear)()

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if not self._running.is_set():
            raise PlaneStopped
        return await self._pool.request(method, path, headers, body)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        await self._running.wait()
        async with self._pool.stream(path, headers) as stream:
            yield stream

    async def exchange(self, pool: Transport) -> None:
        """Replaces the pool. Watches on the old one end; clients resume them on the new one."""
        before, self._pool = self._pool, pool
        await before.close()

    async def close(self) -> None:
        await self._pool.close()


async def follow_file(path: Path, transport: SwappableTransport, limits: RequestLimits) -> None:
    """Replaces the transport's pool whenever the kubeconfig changes, until cancelled."""
    current = await asyncio.to_thread(path.read_bytes)
    while True:
        await asyncio.sleep(FILE_SECONDS)
        try:
            content = await asyncio.to_thread(path.read_bytes)
            if content != current:
                await transport.exchange(HttpPool(kubeconfig.load(path), limits))
                current = content
                log.info("kubeconfig reloaded", extra={"path": str(path)})
        except (OSError, BadKubeconfig) as error:
            # It is being written, or was removed: keep the current credentials until they expire.
            log.warning("failed to read kubeconfig", extra={"path": str(path), "error": str(error)})


class FoundPlane(Struct, frozen=True):
    version: bytes
    """Changes with the plane's address or credentials."""
    load: Callable[[], KubeconfigUser]
    """Raises BadKubeconfig."""
    is_running: bool = True
    """Whether its API server is to be reached: it is stopped while its tenant is asleep."""
    is_stock: bool = False
    """Whether its API server is Kubernetes' own."""

    def connect(self, plane: PlaneId) -> tuple[KubeconfigUser, Transport]:
        """Raises BadKubeconfig."""
        user = self.load()
        if self.is_stock:
            return user, StockTransport(HttpPool(user, STOCK), TenantId(plane))
        return user, HttpPool(user, DEDICATED)


class PlaneSource(Protocol):
    """Where planes are found: a directory, or ring0's tenants."""

    async def read(self) -> Mapping[PlaneId, FoundPlane]: ...


class DirectoryPlanes:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def read(self) -> Mapping[PlaneId, FoundPlane]:
        return await asyncio.to_thread(self._read)

    def _read(self) -> dict[PlaneId, FoundPlane]:
        found: dict[PlaneId, FoundPlane] = {}
        for path in sorted(self._directory.glob(f"*{SUFFIX}")) if self._directory.is_dir() else ():
            plane = PlaneId(path.name.removesuffix(SUFFIX))
            if plane != HOME:
                found[plane] = FoundPlane(path.read_bytes(), partial(kubeconfig.load, path))
        return found


class TenantPlanes:
    """The planes that ring0's tenants say they have."""

    def __init__(self, planes: Planes, own: Path) -> None:
        """`own` is the process's kubeconfig for the home plane."""
        selection = ListSelection(TENANTS)
        indexes = {_SERVED: _served, _FOREIGN: _foreign}
        self._tenants = planes.mirror(selection, indexes, tenant=SYSTEM, only=HOME)
        secrets = ListSelection(SECRETS, foreign_planes.NAMESPACE)
        self._secrets = planes.mirror(secrets, tenant=SYSTEM, only=HOME)
        self._own = own

    async def read(self) -> Mapping[PlaneId, FoundPlane]:
        """Waits until the tenants and the Secrets of foreign planes have been listed."""
        await self._tenants.synced()
        await self._secrets.synced()
        served = list(self._tenants.find(_SERVED, HOME, SYSTEM, _SERVED))
        own = await asyncio.to_thread(self._own.read_bytes) if served else b""
        found = {PlaneId(objects.name(each)): self._found(each, own) for each in served}
        joined = foreign_planes.by_tenant(self._secrets.list(HOME, SYSTEM))
        for tenant in self._tenants.find(_FOREIGN, HOME, SYSTEM, _FOREIGN):
            if plane := joined.get(TenantId(objects.name(tenant))):
                found[PlaneId(plane.tenant)] = _found_foreign(plane)
        return found

    def _found(self, tenant: Object, own: bytes) -> FoundPlane:
        server = tenant["status"]["endpoint"]
        authority = objects.get(tenant, "status", "controlPlane", "certificateAuthority").encode()

        def load() -> KubeconfigUser:
            return structs.replace(kubeconfig.load(self._own), server=server, ca_pem=authority, tenant="")

        version = b"\0".join((server.encode(), authority, own))
        return FoundPlane(version, load, is_running=not is_stopped(tenant))


def _found_foreign(plane: ForeignPlane) -> FoundPlane:
    user = KubeconfigUser(
        plane.server,
        plane.authority,
        plane.certificate,
        plane.key,
        plane.token,
        caller_ca_pem=plane.kubelet_authority,
        caller_name=plane.kubelet_user or KUBELET_USER,
    )
    return FoundPlane(msgspec.json.encode(plane), lambda: user, is_stock=True)


_SERVED, _FOREIGN = "served", "foreign"


def _served(tenant: Object) -> Iterable[str]:
    """An index of the tenants whose own API server has an address."""
    status = tenant.get("status") or {}
    has_address = status.get("endpoint") and objects.get(status, "controlPlane", "certificateAuthority")
    return (_SERVED,) if is_dedicated(tenant) and has_address else ()


def _foreign(tenant: Object) -> Iterable[str]:
    """An index of the tenants whose API server ring0 does not run."""
    return (_FOREIGN,) if is_foreign(tenant) and "deletionTimestamp" not in tenant["metadata"] else ()


class DedicatedPlanes(Struct, frozen=True):
    """The dedicated planes of a process: those configured at start, those of a directory, and those of tenants."""

    own: Path
    """The process's kubeconfig for the home plane."""
    planes: Mapping[PlaneId, KubeconfigUser]
    directory: Path | None

    @classmethod
    def load(cls, own: Path, paths: Mapping[TenantId, Path], directory: Path | None) -> DedicatedPlanes:
        """Reads the kubeconfigs. Raises BadKubeconfig."""
        users = {PlaneId(tenant): kubeconfig.load(path) for tenant, path in paths.items()}
        return cls(own, users, directory)

    async def follow(
        self,
        home: Planes,
        joins: PlaneJoins,
        tasks: BackgroundTasks,
        on_plane_change: OnPlaneChange = lambda _plane, _account: None,
        shard: TenantShard | None = None,
    ) -> None:
        """Joins the planes of all tenants, or of those of a shard, and starts tasks that follow further ones and close connections when they are
        cancelled. `home` has joined the home plane. When it returns, `joins` has every plane there is: a plane that a
        process does not know would look like one that was removed."""
        planes = {plane: user for plane, user in self.planes.items() if _is_in(plane, shard)}
        transports = [HttpPool(user, DEDICATED) for user in planes.values()]
        tasks.fatal("dedicated planes", _close_at_end(transports))
        for (plane, user), transport in zip(planes.items(), transports, strict=True):
            on_plane_change(plane, user)
            joins.join(plane, transport)
        sources: list[PlaneSource] = [] if self.directory is None else [DirectoryPlanes(self.directory)]
        for source in (*sources, TenantPlanes(home, self.own)):
            follower = PlaneFollower(source, joins, on_plane_change, shard)
            await follower.poll()
            tasks.fatal("planes", follower.run())


def _is_in(plane: PlaneId, shard: TenantShard | None) -> bool:
    return shard is None or TenantId(plane) in shard


async def _close_at_end(transports: Sequence[HttpPool]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        for transport in transports:
            await transport.close()


class PlaneFollower:
    """Joins the planes of the source and leaves removed ones. `run` until cancelled."""

    def __init__(
        self,
        source: PlaneSource,
        planes: PlaneJoins,
        on_plane_change: OnPlaneChange,
        shard: TenantShard | None = None,
    ) -> None:
        """`shard`: the tenants whose planes are joined; None for all."""
        self._shard = shard
        self._source = source
        self._planes = planes
        self._on_plane_change = on_plane_change
        self._joined: dict[PlaneId, tuple[SwappableTransport, bytes]] = {}
        self.polled = asyncio.Event()
        """Set when the planes that there were at the start have been joined."""

    async def run(self) -> None:
        try:
            while True:
                await self.poll()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for transport, _ in self._joined.values():
                await transport.close()

    async def poll(self) -> None:
        found = {
            plane: each for plane, each in (await self._source.read()).items() if _is_in(plane, self._shard)
        }
        for plane in [each for each in self._joined if each not in found]:
            await self._leave(plane)
        for plane, each in found.items():
            before = self._joined.get(plane)
            is_new = before is None and plane not in self._planes.ids()
            has_changed = before is not None and before[1] != each.version
            if is_new or has_changed:
                await self._join(plane, each)
            if plane in self._joined:
                self._joined[plane][0].set_running(each.is_running)
        self.polled.set()

    async def _join(self, plane: PlaneId, found: FoundPlane) -> None:
        try:
            user, pool = found.connect(plane)
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
        self._joined[plane] = (transport, found.version)
        log.info("plane joined", extra={"plane": plane})

    async def _leave(self, plane: PlaneId) -> None:
        transport, _ = self._joined.pop(plane)
        await self._planes.leave(plane)
        self._on_plane_change(plane, None)
        await transport.close()
        log.info("plane left", extra={"plane": plane})
