"""History is bounded in bytes: per tenant, and in total by what the largest have."""

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS, PODS
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.collections import HISTORY_EVENTS_MAX, CacheCollection
from alcove.apiserver.cache.entries import CacheEntry, CacheEventType
from alcove.apiserver.cache.history import Histories, event_cost

MIB = 1 << 20


def change(collection: CacheCollection, tenant: str, revision: int, size: int) -> None:
    body = b'{"metadata":{},"data":"%b"}' % (b"x" * size)
    entry = CacheEntry(Key(CONFIG_MAPS, TenantId(tenant), "n", "x"), Revision(revision), body)
    collection.apply(CacheEventType.MODIFIED, entry)


def test_large_objects_shorten_only_their_tenants_history() -> None:
    buffers = TenantBuffers()
    collection = CacheCollection(Revision(0), Histories(buffers, per_tenant_max=4 * MIB))
    change(collection, "quiet", 1, 10)
    for revision in range(2, 40):
        change(collection, "loud", revision, MIB)
    assert collection.history(TenantId("loud"), Revision(1)) is None
    assert collection.history(TenantId("loud"), Revision(37)) is not None
    assert collection.history(TenantId("quiet"), Revision(0)) is not None
    assert buffers.of(TenantId("loud")) <= 4 * MIB


def test_the_bound_holds_over_all_resources_of_a_tenant() -> None:
    buffers = TenantBuffers()
    histories = Histories(buffers, per_tenant_max=4 * MIB)
    collections = [CacheCollection(Revision(0), histories) for _ in (CONFIG_MAPS, PODS)]
    for revision in range(1, 40):
        change(collections[revision % 2], "loud", revision, MIB)
        assert buffers.of(TenantId("loud")) <= 4 * MIB


def test_the_total_takes_from_those_with_most() -> None:
    histories = Histories(TenantBuffers(), per_tenant_max=8 * MIB, total_max=10 * MIB)
    collection = CacheCollection(Revision(0), histories)
    revision = 0
    for tenant, count in (("small", 3), ("large", 9), ("larger", 9)):
        for _ in range(count):
            revision += 1
            change(collection, tenant, revision, MIB // 2)
    for _ in range(20):
        revision += 1
        change(collection, "larger", revision, MIB)
        assert histories.bytes <= 10 * MIB
    assert collection.history(TenantId("small"), Revision(0)) is not None


def test_dropped_history_is_no_longer_counted() -> None:
    buffers = TenantBuffers()
    collection = CacheCollection(Revision(0), Histories(buffers))
    for revision in range(1, 2_000):
        change(collection, "t", revision, 1_000)
    collection.forget(Revision(2_000))
    assert buffers.total == 0


def test_an_event_is_counted_in_the_place_of_the_one_that_it_displaces() -> None:
    buffers, tenant = TenantBuffers(), TenantId("t")
    histories = Histories(buffers)
    collection = CacheCollection(Revision(0), histories)
    for revision in range(1, 2 * HISTORY_EVENTS_MAX):
        change(collection, tenant, revision, revision * 7 % 1_000)
    kept = collection.tenants[tenant].history
    assert len(kept) == HISTORY_EVENTS_MAX
    assert buffers.of(tenant) == histories.of(tenant).bytes == sum(map(event_cost, kept))
    assert histories.of(tenant).count == len(kept)


def test_the_oldest_events_of_all_resources_go_first() -> None:
    histories = Histories(TenantBuffers(), per_tenant_max=100 * MIB)
    collections = [CacheCollection(Revision(0), histories) for _ in range(3)]
    for revision in range(1, 31):
        change(collections[revision % 3], "t", revision, 10)
    tenant = histories.of(TenantId("t"))
    tenant.shrink(tenant.bytes // 2)
    left = [event.revision for each in collections for event in each.tenants[TenantId("t")].history]
    assert sorted(left) == list(range(31 - len(left), 31)) and 10 < len(left) < 20
    tenant.shrink(0)
    assert not any(each.tenants[TenantId("t")].history for each in collections) and histories.bytes == 0
