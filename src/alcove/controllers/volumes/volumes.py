"""The volumes' side of binding: their phases, and what becomes of those whose claim is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from alcove.api import local_volumes
from alcove.api.errors import NotFound
from alcove.api.objects import Object, get
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.deletion import delete_as_known
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
            await self._settle(key, volume)
        except NotFound:
            pass
        return DONE

    async def _settle(self, key: ObjectKey, volume: Object) -> None:
        claim = self._claim(key, volume)
        fate = for_volume(volume, claim)
        if fate is VolumePhase.RELEASED:
            # What follows cannot be undone, and our watch of claims may be behind that of volumes.
            claim = await self._asked(key, volume)
            fate = for_volume(volume, claim)
        match fate:
            case VolumePhase.FREE | VolumePhase.BOUND:
                await self._write_phase(key, volume, PHASES[fate])
            case VolumePhase.HELD:
                pass  # The claim's own turn.
            case VolumePhase.UNBOUND:
                await self.client(key).update(key.tenant, PERSISTENT_VOLUMES, writes.unclaimed(volume))
            case VolumePhase.RELEASED:
                if facts.phase(volume) not in ("Released", "Failed"):
                    volume = await self._write_phase(key, volume, PHASES[fate])
                await self._reclaim(key, volume)
            case _:
                assert_never(fate)

    def _claim(self, key: ObjectKey, volume: Object) -> Object | None:
        ref = get(volume, "spec", "claimRef", default={})
        return self._claims.get(key.of(ref.get("name") or "", ref.get("namespace") or ""))

    async def _asked(self, key: ObjectKey, volume: Object) -> Object | None:
        ref = volume["spec"]["claimRef"]
        try:
            return await self.client(key).get(
                key.tenant, PERSISTENT_VOLUME_CLAIMS, ref["name"], namespace=ref["namespace"]
            )
        except NotFound:
            return None

    async def _write_phase(self, key: ObjectKey, volume: Object, phase: str, why: str = "") -> Object:
        there = volume.get("status") or {}
        if there.get("phase") == phase:
            return volume
        volume["status"] = {"phase": phase, **({"message": why} if why else {})}
        return await self.client(key).update(key.tenant, PERSISTENT_VOLUMES, volume, subresource="status")

    async def _reclaim(self, key: ObjectKey, volume: Object) -> None:
        if "deletionTimestamp" in volume["metadata"]:
            return
        match get(volume, "spec", "persistentVolumeReclaimPolicy", default="Retain"):
            case "Delete" if local_volumes.is_local(volume):
                await delete_as_known(self.client(key), PERSISTENT_VOLUMES, key, volume["metadata"])
            case "Delete" if facts.PROVISIONED_BY not in (volume["metadata"].get("annotations") or {}):
                await self._fail(key, volume, "VolumeFailedDelete", _NO_DELETER)
            case "Recycle":
                await self._fail(key, volume, "VolumeFailedRecycle", _NO_RECYCLER)
            case _:
                pass  # It is retained, or whoever made it deletes it.

    async def _fail(self, key: ObjectKey, volume: Object, reason: str, why: str) -> None:
        if facts.phase(volume) != "Failed":
            volume = await self._write_phase(key, volume, "Failed", why)
            self.events.warning(key.plane, volume, reason, why)
