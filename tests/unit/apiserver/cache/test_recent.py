"""Entries that are no longer recent are small, and read the same."""

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import NAMESPACES
from alcove.apiserver.cache.entries import CacheEntry
from alcove.apiserver.cache.recent import RecentEntries


def entry(number: int, recent: RecentEntries, tenant: str = "") -> CacheEntry:
    key = Key(NAMESPACES, TenantId(tenant or f"tenant-{number}"), "", "default")
    body = (
        b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","tenant":"tenant-%d"}}' % number
    )
    made = CacheEntry(key, Revision(number), body, recent)
    recent.keep_whole(made)
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


def test_an_entry_that_is_read_again_and_again_is_unpacked_once() -> None:
    recent = RecentEntries(recent_max=10)
    entries = [entry(number, recent) for number in range(1, 21)]
    body = entries[1].body
    while recent.trim(0.0):
        pass
    assert entries[1].unpack() == body and entries[1].unpack() is entries[1].unpack()
    assert len(recent._whole) == 11, "it is one of the recent ones, once"
    while recent.trim(0.0):
        pass
    assert entries[1]._body == body, "others were written before"
    for number in range(21, 31):
        entry(number, recent)
    while recent.trim(0.0):
        pass
    assert not isinstance(entries[1]._body, bytes) and entries[1].body == body


def test_only_the_newest_decoded_objects_are_kept() -> None:
    recent = RecentEntries(recent_max=10)
    entries = [entry(number, recent, "acme") for number in range(1, 101)]
    names = [each.object["metadata"]["tenant"] for each in entries]
    assert entries[0].object is entries[0].object
    assert sum(each._object is not None for each in entries) == 10
    assert [each.object["metadata"]["tenant"] for each in entries] == names


def test_an_entry_of_no_cache_is_kept_by_nobody() -> None:
    recent = RecentEntries()
    made = entry(1, recent)
    alone = CacheEntry(made.key, made.revision, b'{"metadata":{}}')
    assert alone.object == {"metadata": {"resourceVersion": "1"}} and not recent._decoded.weight


def test_decoded_objects_have_a_bound_in_bytes_that_holds_at_once() -> None:
    """Whoever reads all objects of a tenant would otherwise have them all decoded, which takes many times their size."""
    recent = RecentEntries(decoded_bytes_max=1_000)
    entries = [entry(number, recent, "acme") for number in range(1, 101)]
    names = [each.object["metadata"]["tenant"] for each in entries]
    kept = [each for each in entries if each._object is not None]
    assert kept == entries[-len(kept) :] and 0 < sum(each.size for each in kept) <= 1_000
    assert [each.object["metadata"]["tenant"] for each in entries] == names
    assert recent._decoded.weight <= 1_000


def test_who_reads_all_its_objects_has_no_others_decoded_again() -> None:
    recent = RecentEntries(recent_max=10, decoded_bytes_max=10_000)
    quiet = [entry(number, recent, "quiet") for number in range(1, 4)]
    loud = [entry(number, recent, "loud") for number in range(4, 104)]
    objects = [each.object for each in quiet]
    for each in loud:
        assert each.object["metadata"]["name"] == "default"
    assert [each.object is known for each, known in zip(quiet, objects, strict=True)] == [True] * 3
    assert sum(each._object is not None for each in loud) == 7
