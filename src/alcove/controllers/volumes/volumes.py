"""The phases of volumes, and the reclaim policy of those whose claim was deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from alcove.api import local_volumes, meta
from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_if_unchanged
from alcove.controllers.volumes import facts, writes
from alcove.controllers.volumes.plan import PHASES, VolumePhase, for_volume

_NO_RECYCLER = "No recycler plugin found for the volume!"
_NO_DELETER = "no deletable volume plugin matched"


class VolumeController(Controller):
    name = "persistentvolume-keeper"
    resource = PERSISTENT_VOLUMES
    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._claims = self.mirror(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = self.mirror(PERSISTENT_VOLUMES, {facts.CLAIM: facts.claim_of})
        self.on(self._volumes)
        self.on(self._claims, self._of_claim)

    def _of_claim(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._volumes.find_keys(facts.CLAIM, key.plane, key.tenant, facts.namespaced_name(key))

    async def reconcile(self, key: ObjectKey) -> Result:
        volume = self._volumes.get(key)
        if volume is None:
            return DONE
        try:
            await self._sync(key, volume)
        except NotFound:
            pass
        return DONE

    async def _sync(self, key: ObjectKey, volume: Object) -> None:
        claim = self._claim(key, volume)
        phase = for_volume(volume, claim)
        if phase is VolumePhase.RELEASED:
            # Reclaiming cannot be undone, and the mirror of claims may lag behind that of volumes.
            claim = await self._read_claim(key, volume)
            phase = for_volume(volume, claim)
        match phase:
            case VolumePhase.FREE | VolumePhase.BOUND:
                await self._write_phase(key, volume, PHASES[phase])
            case VolumePhase.HELD:
                pass  # The claim's reconcile binds it.
            case VolumePhase.UNBOUND:
                await self.client(key).update(key.tenant, PERSISTENT_VOLUMES, writes.unclaimed(volume))
            case VolumePhase.RELEASED:
                if facts.phase(volume) not in ("Released", "Failed"):
                    volume = await self._write_phase(key, volume, PHASES[phase])
                await self._reclaim(key, volume)
            case _:
                assert_never(phase)

    def _claim(self, key: ObjectKey, volume: Object) -> Object | None:
        ref = get(volume, "spec", "claimRef", default={})
        return self._claims.get(key.of(ref.get("name") or "", ref.get("namespace") or ""))

    async def _read_claim(self, key: ObjectKey, volume: Object) -> Object | None:
        ref = volume["spec"]["claimRef"]
        try:
            return await self.client(key).get(
                key.tenant, PERSISTENT_VOLUME_CLAIMS, ref["name"], namespace=ref["namespace"]
            )
        except NotFound:
            return None

    async def _write_phase(self, key: ObjectKey, volume: Object, phase: str, message: str = "") -> Object:
        old_status = volume.get("status") or {}
        if old_status.get("phase") == phase:
            return volume
        since = meta.format_time(self.clock())
        volume["status"] = {"phase": phase, "lastPhaseTransitionTime": since} | (
            {"message": message} if message else {}
        )
        return await self.client(key).update(key.tenant, PERSISTENT_VOLUMES, volume, subresource="status")

    async def _reclaim(self, key: ObjectKey, volume: Object) -> None:
        if "deletionTimestamp" in volume["metadata"]:
            return
        match get(volume, "spec", "persistentVolumeReclaimPolicy", default="Retain"):
            case "Delete" if local_volumes.is_local(volume):
                await delete_if_unchanged(self.client(key), PERSISTENT_VOLUMES, key, volume["metadata"])
            case "Delete" if facts.PROVISIONED_BY not in (volume["metadata"].get("annotations") or {}):
                await self._fail(key, volume, "VolumeFailedDelete", _NO_DELETER)
            case "Recycle":
                await self._fail(key, volume, "VolumeFailedRecycle", _NO_RECYCLER)
            case _:
                pass  # It is retained, or its external provisioner deletes it.

    async def _fail(self, key: ObjectKey, volume: Object, reason: str, message: str) -> None:
        if facts.phase(volume) != "Failed":
            volume = await self._write_phase(key, volume, "Failed", message)
            self.events.warning(key.plane, volume, reason, message)
