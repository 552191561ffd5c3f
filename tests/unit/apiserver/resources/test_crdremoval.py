"""Only CRDs that are being deleted wake the task that deletes them."""

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CRDS
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.crds.removal import FINALIZER
from alcove.apiserver.resources.crdremoval import CrdRemoval


def event(kind: CacheEventType, tenant: str, metadata: str = "{}") -> CacheEvent:
    key = Key(CRDS, TenantId(tenant), "", "widgets.example.com")
    body = b'{"apiVersion":"v1","kind":"X","metadata":%b}' % metadata.encode()
    return CacheEvent(kind, CacheEntry(key, Revision(1), body), None)


async def test_definitions_of_other_tenants_are_not_looked_at() -> None:
    removal = CrdRemoval()
    removal.notice([event(CacheEventType.ADDED, f"t{number}") for number in range(100)])
    assert not removal._woken.is_set() and not removal._terminating
    going = f'{{"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["{FINALIZER}"]}}'
    removal.notice([event(CacheEventType.MODIFIED, "t7", going)])
    assert removal._woken.is_set() and [each.tenant for each in removal._terminating] == ["t7"]
    removal.notice([event(CacheEventType.DELETED, "t7", going)])
    assert not removal._terminating
