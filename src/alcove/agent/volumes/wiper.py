"""Persistent volumes that are deleted: wiped on this node, and then let go in the API.

A volume's object waits, by its finalizer, until the node has wiped the data. Data whose object is gone
nevertheless is wiped after a while, in which every look at the API must find the same.
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
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.errors import ClientError
from alcove.client.keys import ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import PERSISTENT_VOLUMES

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
        self._changed = asyncio.Event()
        self._mirror.subscribe(self._hear)
        self._missing: dict[str, float] = {}
        """Since when a volume here has had no object."""

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._changed.clear()
            await self.round()
            try:
                async with asyncio.timeout(ROUND_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                pass  # What was open a while ago may be closed by now.

    async def round(self) -> None:
        """Wipes everything that can be wiped now."""
        for key in list(self._mirror.everything()):
            volume = self._mirror.get(key)
            if volume is not None and self._is_going(volume):
                await self._guarded(key.name, self._end(key, volume))
        for known in self._volumes.local.all():
            if self._is_orphan(known):
                await self._guarded(known.name, self._wipe_orphan(known))

    def _hear(self, change: ObjectChange) -> None:
        if "deletionTimestamp" in change.obj["metadata"]:
            self._changed.set()

    def _is_going(self, volume: Object) -> bool:
        metadata = volume["metadata"]
        is_held = local_volumes.FINALIZER in (metadata.get("finalizers") or ())
        return is_held and "deletionTimestamp" in metadata and local_volumes.node_of(volume) == self._node

    async def _end(self, key: ObjectKey, volume: Object) -> None:
        id = LocalVolume(key.plane, key.tenant, key.name, volume["metadata"]["uid"], 0).id
        known = self._volumes.local.find(id)
        if known is None or await self._wipe(known):
            await self._let_go(key, volume)

    async def _wipe(self, volume: LocalVolume) -> bool:
        is_wiped = await self._volumes.wipe(volume)
        if is_wiped:
            self._missing.pop(volume.id, None)
            log.info("volume wiped", extra={"volume": volume.name, "tenant": volume.tenant})
        return is_wiped

    async def _wipe_orphan(self, volume: LocalVolume) -> None:
        """Not before the API has been asked itself: what we hear of it could be old."""
        client = self._planes.client(volume.plane)
        try:
            found = await client.get(volume.tenant, PERSISTENT_VOLUMES, volume.name)
        except (NotFound, Forbidden):
            found = {}
        if objects.get(found, "metadata", "uid") != volume.uid:
            await self._wipe(volume)

    async def _let_go(self, key: ObjectKey, volume: Object) -> None:
        metadata = volume["metadata"]
        rest = [each for each in metadata["finalizers"] if each != local_volumes.FINALIZER]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": rest}}
        try:
            await self._planes.client(key.plane).patch(key.tenant, PERSISTENT_VOLUMES, key.name, patch)
        except (Conflict, NotFound):
            pass  # It changed meanwhile, or is gone: the mirror will tell.

    def _is_orphan(self, known: LocalVolume) -> bool:
        """Only what the API, when asked, has denied for long enough."""
        found = self._mirror.get(known.key)
        is_there = found is not None and objects.get(found, "metadata", "uid") == known.uid
        if is_there or not self._mirror.is_synced(known.plane) or self._volumes.is_used(known.id):
            self._missing.pop(known.id, None)
            return False
        since = self._missing.setdefault(known.id, self._clock())
        return self._clock() - since >= ORPHAN_SECONDS

    async def _guarded(self, name: str, work: Awaitable[object]) -> None:
        """One volume's trouble is not the others': it is tried again in the next round."""
        try:
            await work
        except (VolumeFailure, ApiError, ClientError, OSError) as error:
            log.warning("volume not wiped", extra={"volume": name, "why": str(error)})
