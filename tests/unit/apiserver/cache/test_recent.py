"""Entries that are no longer recent are small, and read the same."""

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import NAMESPACES
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.cache.recent import RecentEntries


def entry(number: int, recent: RecentEntries) -> CacheEntry:
    key = Key(NAMESPACES, TenantId(f"tenant-{number}"), "", "default")
    body = (
        b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","tenant":"tenant-%d"}}' % number
    )
    made = CacheEntry(key, Revision(number), body, recent)
    recent.written(made)
    return made


def test_all_but_the_newest_are_packed_and_none_reads_otherwise() -> None:
    recent = RecentEntries(recent_max=10)
    entries = [entry(number, recent) for number in range(1, 101)]
    bodies = [each.body for each in entries]
    while recent.trim(0.0):
        pass
    assert [isinstance(each._body, bytes) for each in entries] == [True] + 89 * [False] + 10 * [True]
    assert [each.body for each in entries] == bodies
    assert all(abs(each.size - len(each.body)) <= 4 for each in entries)


def test_bodies_that_take_long_are_packed_one_in_a_turn() -> None:
    recent = RecentEntries(recent_max=10)
    entries = [entry(number, recent) for number in range(1, 21)]
    assert recent.trim(0.0) and recent.trim(0.0)
    assert [isinstance(each._body, bytes) for each in entries] == [True, False] + 18 * [True]


def test_only_the_newest_decoded_objects_are_kept() -> None:
    recent = RecentEntries(recent_max=10)
    entries = [entry(number, recent) for number in range(1, 101)]
    names = [each.object["metadata"]["tenant"] for each in entries]
    assert entries[0].object is entries[0].object
    while recent.trim(0.0):
        pass
    assert sum(each._object is not None for each in entries) == 10
    assert [each.object["metadata"]["tenant"] for each in entries] == names


def test_an_entry_of_no_cache_is_kept_by_nobody() -> None:
    recent = RecentEntries()
    made = entry(1, recent)
    alone = CacheEntry(made.key, made.revision, b'{"metadata":{}}')
    assert alone.object == {"metadata": {"resourceVersion": "1"}} and not recent._decoded


def test_decoded_objects_have_a_bound_in_bytes_that_holds_at_once() -> None:
    """Whoever reads all objects of a tenant would otherwise have them all decoded, which takes many times their size."""
    recent = RecentEntries(decoded_bytes_max=1_000)
    entries = [entry(number, recent) for number in range(1, 101)]
    names = [each.object["metadata"]["tenant"] for each in entries]
    kept = [each for each in entries if each._object is not None]
    assert kept == entries[-len(kept) :] and 0 < sum(each.size for each in kept) <= 1_000
    assert [each.object["metadata"]["tenant"] for each in entries] == names
    while recent.trim(0.0):
        pass
    assert recent._decoded_bytes == sum(size for _, size in recent._decoded)
