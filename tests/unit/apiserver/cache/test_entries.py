"""What history keeps of an event once everybody was told: bytes, and no second form of them."""

import pytest

from alcove.api.ids import GroupResource, Key, Revision, TenantId
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType

KEY = Key(GroupResource("", "pods"), TenantId("acme"), "default", "web")


def entry(revision: int) -> CacheEntry:
    return CacheEntry(KEY, Revision(revision), b'{"metadata":{"name":"web"}}')


@pytest.mark.parametrize("kind", [CacheEventType.MODIFIED, CacheEventType.DELETED])
def test_what_was_told_is_kept_as_bytes_alone(kind: CacheEventType) -> None:
    before, now = entry(1), entry(2)
    event = CacheEvent(kind, now, before)
    seen = [before.object, now.object]
    event.encoded["memo"] = b"line"
    event.settle()
    assert not event.encoded
    assert before._object is None
    # What is still there is read again and again.
    assert (now._object is None) is (kind is CacheEventType.DELETED)
    assert [before.object, now.object] == seen
