"""Tenants that are gone lose their images: one that comes later under the same name has none of them.

Who a name's owner was is kept beside the names, by the tenant's uid: also a tenant that came and went while
no agent was running is told from the one before.
"""

import asyncio
from pathlib import Path

import msgspec

from alcove.agent.images.store import EVERYBODY, ImageStore
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
        self._path = store.folder / "owners.json"
        self._mirror = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
        self._changed = asyncio.Event()
        self._mirror.subscribe(self._hear)

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._mirror.synced()
        while True:
            self._changed.clear()
            self.round()
            try:
                async with asyncio.timeout(ROUND_SECONDS_MAX):
                    await self._changed.wait()
            except TimeoutError:
                pass  # Who has names by now is written down with its uid.

    def round(self) -> None:
        """Forgets those who are not who they were."""
        known = _read(self._path)
        kept: _Uids = {}
        for owner in self._store.owners() - {EVERYBODY, SYSTEM}:
            # A dedicated plane that speaks of others: what it has goes with the plane's own tenant.
            tenant = TenantId(owner.partition(":")[0])
            found = self._mirror.get(ObjectKey(HOME, SYSTEM, "", tenant))
            uid = found["metadata"]["uid"] if found is not None else ""
            if not uid or known.get(owner, uid) != uid:
                self._store.forget_tenant(owner)
            else:
                kept[owner] = uid
        if kept != known:
            _write(self._path, kept)

    def _hear(self, _change: ObjectChange) -> None:
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
