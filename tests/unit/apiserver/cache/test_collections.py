"""Order, paging and history of the watch cache's collections, against a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import Key, Revision, TenantId
from alcove.api.resources import CONFIG_MAPS, PODS
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.cache.collections import HISTORY_EVENTS_MAX, CacheCollection
from alcove.apiserver.cache.entries import CacheEntry, CacheEventType, IndexedValue
from alcove.apiserver.cache.history import Histories

BODY = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}'
names = st.sampled_from(["a", "b", "c", "d"])
changes = st.lists(st.tuples(names, names, names, st.booleans()), max_size=60)


def collection_of() -> CacheCollection:
    return CacheCollection(Revision(0), Histories(TenantBuffers()))


def entry(tenant: str, namespace: str, name: str, revision: int) -> CacheEntry:
    return CacheEntry(Key(CONFIG_MAPS, TenantId(tenant), namespace, name), Revision(revision), BODY)


def run(
    collection: CacheCollection, steps: list[tuple[str, str, str, bool]]
) -> dict[tuple[str, str, str], int]:
    """Applies the steps; returns the expected content."""
    model: dict[tuple[str, str, str], int] = {}
    for revision, (tenant, namespace, name, deletes) in enumerate(steps, start=1):
        path = (tenant, namespace, name)
        if deletes and path in model:
            collection.apply(CacheEventType.DELETED, entry(*path, revision))
            del model[path]
        elif not deletes:
            collection.apply(
                CacheEventType.MODIFIED if path in model else CacheEventType.ADDED, entry(*path, revision)
            )
            model[path] = revision
    return model


@given(changes, st.tuples(names, names, names))
def test_entries_come_in_order_from_any_position(
    steps: list[tuple[str, str, str, bool]], after: tuple[str, str, str]
) -> None:
    collection = collection_of()
    model = run(collection, steps)

    def listed(
        tenant: TenantId | None, namespace: str | None, start: tuple[str, str, str]
    ) -> list[tuple[str, str, str]]:
        found = collection.ordered(tenant, namespace, start)
        return [(each.key.tenant, each.key.namespace, each.key.name) for each in found]

    assert listed(None, None, ("", "", "")) == sorted(model)
    assert listed(None, None, after) == sorted(path for path in model if path > after)
    own = [path for path in sorted(model) if path[0] == after[0]]
    assert listed(TenantId(after[0]), None, after) == [path for path in own if path > after]
    assert listed(TenantId(after[0]), after[1], ("", "", "")) == [path for path in own if path[1] == after[1]]


@given(changes, st.integers(0, 60), st.integers(0, 60))
def test_history_is_whole_or_refused(
    steps: list[tuple[str, str, str, bool]], since: int, forgotten: int
) -> None:
    collection = collection_of()
    run(collection, steps)
    everything = collection.history(None, Revision(0)) or []
    collection.forget(Revision(forgotten))
    for tenant in (None, TenantId("a")):
        history = collection.history(tenant, Revision(since))
        wanted = [
            event
            for event in everything
            if event.revision > since and (tenant is None or event.entry.key.tenant == tenant)
        ]
        assert history is None or history == wanted
        if since >= forgotten:
            assert history == wanted


def pod(tenant: str, namespace: str, name: str, revision: int, node: str) -> CacheEntry:
    body = b'{"metadata":{},"spec":{"nodeName":"%b"}}' % node.encode()
    return CacheEntry(Key(PODS, TenantId(tenant), namespace, name), Revision(revision), body)


@given(st.lists(st.tuples(names, names, names, st.sampled_from(["n1", "n2", "", None])), max_size=60))
def test_objects_are_found_by_an_indexed_field(steps: list[tuple[str, str, str, str | None]]) -> None:
    collection = collection_of()
    model: dict[tuple[str, str, str], str] = {}
    for revision, (tenant, namespace, name, node) in enumerate(steps, start=1):
        path = (tenant, namespace, name)
        if node is not None:
            kind = CacheEventType.MODIFIED if path in model else CacheEventType.ADDED
            collection.apply(kind, pod(*path, revision, node))
            model[path] = node
        elif path in model:
            collection.apply(CacheEventType.DELETED, pod(*path, revision, model.pop(path)))
    assert collection.size == len(model)
    for node in ("n1", "n2"):
        on_node = sorted(path for path in model if model[path] == node)
        for whose in (None, TenantId("a")):
            found = collection.indexed(whose, IndexedValue(0, node))
            paths = [(each.key.tenant, each.key.namespace, each.key.name) for each in found]
            assert paths == [path for path in on_node if whose in (None, path[0])]
    for owner, objects in collection.tenants.items():
        nodes = {node for path, node in model.items() if path[0] == owner and node}
        assert set(objects.indexed_values(0)) == nodes


def test_forgetting_history_does_not_depend_on_how_many_tenants_there_are() -> None:
    collection = collection_of()
    for number in range(1, 101):
        collection.apply(CacheEventType.ADDED, entry(f"t{number}", "n", "x", number))
    collection.forget(Revision(100))
    assert len(collection.tenants) == 100 and not collection.with_history
    collection.apply(CacheEventType.MODIFIED, entry("t5", "n", "x", 101))
    assert list(collection.with_history) == ["t5"]
    assert [each.revision for each in collection.history(None, Revision(100)) or []] == [101]


def test_objects_that_were_there_at_the_start_have_no_history() -> None:
    collection = CacheCollection(Revision(7), Histories(TenantBuffers()))
    collection.load(entry("t", "n", "x", 3))
    assert collection.history(TenantId("t"), Revision(6)) is None
    assert collection.history(None, Revision(7)) == [] and not collection.with_history
    assert collection.size == 1 and collection.tenants[TenantId("t")].count("n") == 1


def test_a_flood_in_one_tenant_does_not_shorten_anothers_history() -> None:
    collection = collection_of()
    collection.apply(CacheEventType.ADDED, entry("quiet", "n", "x", 1))
    for revision in range(2, HISTORY_EVENTS_MAX + 10):
        collection.apply(CacheEventType.MODIFIED, entry("loud", "n", "x", revision))
    assert collection.history(TenantId("loud"), Revision(1)) is None
    quiet = collection.history(TenantId("quiet"), Revision(0))
    assert quiet is not None and len(quiet) == 1


def test_a_deleted_tenant_leaves_only_its_last_revision() -> None:
    collection = collection_of()
    collection.apply(CacheEventType.ADDED, entry("t", "n", "x", 1))
    collection.apply(CacheEventType.DELETED, entry("t", "n", "x", 2))
    collection.forget(Revision(2))
    assert not collection.tenants
    collection.apply(CacheEventType.ADDED, entry("t", "n", "x", 5))
    assert collection.history(TenantId("t"), Revision(1)) is None
    assert collection.history(TenantId("t"), Revision(2)) is not None
