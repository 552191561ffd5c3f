"""Wipes deleted local persistent volumes on this node, then removes their finalizer.

The finalizer keeps a PersistentVolume until the node has wiped its data. Data whose object is missing
nevertheless is wiped after ORPHAN_SECONDS, during which the object must have been missing all the time. The
object of a dedicated plane that has left is missing if ring0 has no dedicated tenant of its name any more.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.local import LocalVolume
from alcove.agent.volumes.volumes import PodVolumes
from alcove.api import local_volumes, objects
from alcove.api.errors import ApiError, Conflict, Forbidden, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.core.control_planes import has_own_plane
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.errors import ClientError
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import PERSISTENT_VOLUMES, TENANTS

ROUND_SECONDS_MAX = 10.0
ORPHAN_SECONDS = 600.0

log = logging.getLogger(__name__)


class VolumeWiper:
    def __init__(
        self, volumes: PodVolumes, planes: Planes, node: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._volumes = volumes
        self._planes = planes
        self._node = node
        self._clock = clock
        self._mirror = planes.mirror(
            ListSelection(PERSISTENT_VOLUMES, labels=f"{local_volumes.NODE_LABEL}={node}")
        )
        self._tenants = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._changed = asyncio.Event()
        self._mirror.subscribe(self._on_change)
        self._missing: dict[str, float] = {}
        """When the object of each volume on this node was first found missing."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            self._changed.clear()
            await self.round()
            try:
                async with asyncio.timeout(ROUND_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                pass  # Retry: volumes that were in use may be free now.

    async def round(self) -> None:
        """Wipes everything that can be wiped now."""
        for key in list(self._mirror.everything()):
            volume = self._mirror.get(key)
            if volume is not None and self._is_terminating(volume):
                await self._guarded(key.name, self._finalize(key, volume))
        for local in self._volumes.local.all():
            if self._is_orphan(local):
                await self._guarded(local.name, self._wipe_orphan(local))

    def _on_change(self, change: ObjectChange) -> None:
        if "deletionTimestamp" in change.obj["metadata"]:
            self._changed.set()

    def _is_terminating(self, volume: Object) -> bool:
        metadata = volume["metadata"]
        is_held = local_volumes.FINALIZER in (metadata.get("finalizers") or ())
        return is_held and "deletionTimestamp" in metadata and local_volumes.node_of(volume) == self._node

    async def _finalize(self, key: ObjectKey, volume: Object) -> None:
        id = LocalVolume(key.tenant, key.name, volume["metadata"]["uid"], 0).id
        local = self._volumes.local.find(id)
        if local is None or await self._wipe(local):
            await self._remove_finalizer(key, volume)

    async def _wipe(self, volume: LocalVolume) -> bool:
        is_wiped = await self._volumes.wipe(volume)
        if is_wiped:
            self._missing.pop(volume.id, None)
            log.info("volume wiped", extra={"volume": volume.name, "tenant": volume.tenant})
        return is_wiped

    async def _wipe_orphan(self, volume: LocalVolume) -> None:
        """Wipes only after a GET has confirmed that the object is missing, since the mirror may be
        outdated."""
        if not await self._exists(volume):
            await self._wipe(volume)

    async def _exists(self, volume: LocalVolume) -> bool:
        """Whether its object exists, or may exist on a plane that has not joined. Raises ApiError and
        ClientError."""
        serving = self._planes.serving(volume.tenant)
        if serving == HOME:
            try:
                if has_own_plane(await self._planes.client(HOME).get(SYSTEM, TENANTS, volume.tenant)):
                    return True
            except NotFound:
                return False
        try:
            obj = await self._planes.client(serving).get(volume.tenant, PERSISTENT_VOLUMES, volume.name)
        except (NotFound, Forbidden):
            return False
        return bool(objects.get(obj, "metadata", "uid") == volume.uid)

    async def _remove_finalizer(self, key: ObjectKey, volume: Object) -> None:
        metadata = volume["metadata"]
        finalizers = [each for each in metadata["finalizers"] if each != local_volumes.FINALIZER]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        try:
            await self._planes.client(key.plane).patch(key.tenant, PERSISTENT_VOLUMES, key.name, patch)
        except (Conflict, NotFound):
            pass  # It was changed or deleted meanwhile; the mirror will report it.

    def _is_orphan(self, local: LocalVolume) -> bool:
        """Whether the volume's object has been missing for ORPHAN_SECONDS and no pod uses the volume."""
        if self._may_exist(local) or self._volumes.is_used(local.id):
            self._missing.pop(local.id, None)
            return False
        since = self._missing.setdefault(local.id, self._clock())
        return self._clock() - since >= ORPHAN_SECONDS

    def _may_exist(self, local: LocalVolume) -> bool:
        """Whether the mirrors show the volume's object, or cannot tell."""
        serving = self._planes.serving(local.tenant)
        tenant = self._tenants.get(ObjectKey(HOME, SYSTEM, "", local.tenant))
        if serving == HOME and (
            not self._tenants.is_synced(HOME) or (tenant is not None and has_own_plane(tenant))
        ):
            return True
        obj = self._mirror.get(ObjectKey(serving, local.tenant, "", local.name))
        exists = obj is not None and objects.get(obj, "metadata", "uid") == local.uid
        return exists or not self._mirror.is_synced(serving)

    async def _guarded(self, name: str, work: Awaitable[object]) -> None:
        """Logs failures, so that one volume does not stop the others; the next round retries."""
        try:
            await work
        except (VolumeFailure, ApiError, ClientError, OSError) as error:
            log.warning("failed to wipe volume; retrying", extra={"volume": name, "error": str(error)})
