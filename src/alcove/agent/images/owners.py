"""Removes the image names of deleted tenants, so that a later tenant of the same name does not get their
images.

The uid of each owner is stored beside the names, so that a tenant which was deleted and created again while
no agent was running is recognized as a new one.
"""

import asyncio
from pathlib import Path

import msgspec

from alcove.agent.images.store import ALL_TENANTS, ImageStore
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.resources import TENANTS

ROUND_SECONDS_MAX = 60.0

_Uids = dict[TenantId, str]


class ImageOwners:
    def __init__(self, store: ImageStore, planes: Planes) -> None:
        self._store = store
        self._path = store.directory / "owners.json"
        self._mirror = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._changed = asyncio.Event()
        self._mirror.subscribe(self._on_change)

    async def run(self) -> None:
        """Runs until cancelled."""
        await self._mirror.synced()
        while True:
            self._changed.clear()
            self.round()
            try:
                async with asyncio.timeout(ROUND_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                pass  # Run a round anyway: it stores the uids of new owners.

    def round(self) -> None:
        """Removes the names of tenants that were deleted or replaced."""
        stored = _read(self._path)
        current: _Uids = {}
        for owner in self._store.owners() - {ALL_TENANTS, SYSTEM}:
            # `plane:tenant`, names used by a dedicated plane for another tenant: removed with the plane's
            # tenant.
            tenant = TenantId(owner.partition(":")[0])
            obj = self._mirror.get(ObjectKey(HOME, SYSTEM, "", tenant))
            uid = obj["metadata"]["uid"] if obj is not None else ""
            if not uid or stored.get(owner, uid) != uid:
                self._store.forget_tenant(owner)
            else:
                current[owner] = uid
        if current != stored:
            _write(self._path, current)

    def _on_change(self, _change: ObjectChange) -> None:
        self._changed.set()


def _read(path: Path) -> _Uids:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Uids)
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def _write(path: Path, uids: _Uids) -> None:
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(uids))
    draft.rename(path)
