"""The history keeps only the encoded bytes of a published event."""

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType

KEY = Key(GroupResource("", "pods"), TenantId("acme"), "default", "web")


def entry(revision: int) -> CacheEntry:
    return CacheEntry(KEY, Revision(revision), b'{"metadata":{"name":"web"}}')


@pytest.mark.parametrize("kind", [CacheEventType.MODIFIED, CacheEventType.DELETED])
def test_a_published_event_keeps_only_its_bytes(kind: CacheEventType) -> None:
    before, now = entry(1), entry(2)
    event = CacheEvent(kind, now, before)
    seen = [before.object, now.object]
    event.encoded = {"memo": b"line"}
    event.settle()
    assert not event.encoded
    assert before._object is None
    # What is still there is read again and again.
    assert (now._object is None) is (kind is CacheEventType.DELETED)
    assert [before.object, now.object] == seen
