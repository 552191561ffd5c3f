"""The promises of every `CacheReader`: the watch cache over a real store, and the in-memory one of tests."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from alcove.api.encode import encode
from alcove.api.ids import GroupResource, Key, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NAMESPACES, PODS
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.reader import CacheReader
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")


class Filled(Protocol):
    """A reader, and functions that change what it reads."""

    reader: CacheReader

    async def put(self, tenant: TenantId, resource: GroupResource, obj: Object) -> None: ...

    async def remove(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self._memory = MemoryReader()
        self.reader: CacheReader = self._memory

    async def put(self, tenant: TenantId, resource: GroupResource, obj: Object) -> None:
        self._memory.put(tenant, resource, obj)

    async def remove(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> None:
        self._memory.remove(tenant, resource, namespace, name)


class Cached:
    def __init__(self, store: SqliteStore, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self.reader: CacheReader = cache

    async def put(self, tenant: TenantId, resource: GroupResource, obj: Object) -> None:
        metadata = obj["metadata"]
        key = Key(resource, tenant, metadata.get("namespace", ""), metadata["name"])
        await self._write(WriteOp(key, encode(obj)))

    async def remove(self, tenant: TenantId, resource: GroupResource, namespace: str, name: str) -> None:
        await self._write(WriteOp(Key(resource, tenant, namespace, name), None))

    async def _write(self, op: WriteOp) -> None:
        await self._cache.reached(await self._store.write([op]))


@pytest.fixture(params=["memory", "cache"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Filled]:
    if request.param == "memory":
        yield InMemory()
        return
    store = await SqliteStore.open(tmp_path / "store.db")
    try:
        async with Cache(store, lambda events: None) as cache:
            yield Cached(store, cache)
    finally:
        await store.close()


def obj(name: str, namespace: str = "", value: int = 0) -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "v1", "kind": "Thing", "metadata": metadata, "value": value}


async def test_get_finds_what_is_there_and_nothing_else(world: Filled) -> None:
    await world.put(ACME, PODS, obj("a", "ns", 1))
    found = world.reader.get(ACME, PODS, "ns", "a")
    assert found is not None and found["value"] == 1
    assert world.reader.get(ACME, PODS, "ns", "b") is None
    assert world.reader.get(ACME, PODS, "other", "a") is None
    assert world.reader.get(OTHER, PODS, "ns", "a") is None
    assert world.reader.get(ACME, NAMESPACES, "ns", "a") is None
    await world.put(ACME, PODS, obj("a", "ns", 2))
    found = world.reader.get(ACME, PODS, "ns", "a")
    assert found is not None and found["value"] == 2


async def test_list_is_one_tenants_in_order(world: Filled) -> None:
    for tenant, namespace, name in (
        (ACME, "n2", "c"),
        (ACME, "n1", "b"),
        (ACME, "n1", "a"),
        (OTHER, "n1", "x"),
    ):
        await world.put(tenant, PODS, obj(name, namespace))

    def names(namespace: str | None = None) -> list[str]:
        return [found["metadata"]["name"] for found in world.reader.list(ACME, PODS, namespace)]

    assert names() == ["a", "b", "c"]
    assert names("n1") == ["a", "b"]
    assert names("n3") == []
    await world.put(ACME, NAMESPACES, obj("n1"))
    assert [found["metadata"]["name"] for found in world.reader.list(ACME, NAMESPACES)] == ["n1"]


async def test_removed_is_gone(world: Filled) -> None:
    await world.put(ACME, PODS, obj("a", "ns"))
    await world.remove(ACME, PODS, "ns", "a")
    assert world.reader.get(ACME, PODS, "ns", "a") is None
    assert list(world.reader.list(ACME, PODS)) == []


async def test_a_generation_changes_with_its_own_objects_and_only_with_them(world: Filled) -> None:
    seen = {world.reader.generation(ACME, PODS)}
    for value in range(3):
        await world.put(ACME, PODS, obj("a", "ns", value))
        now = world.reader.generation(ACME, PODS)
        assert now not in seen
        seen.add(now)
    await world.put(OTHER, PODS, obj("a", "ns"))
    await world.put(ACME, NAMESPACES, obj("n"))
    assert world.reader.generation(ACME, PODS) == now
    await world.remove(ACME, PODS, "ns", "a")
    assert world.reader.generation(ACME, PODS) not in seen
    await world.put(ACME, PODS, obj("a", "ns", 2))
    assert world.reader.generation(ACME, PODS) not in seen


async def test_pods_are_found_by_their_node(world: Filled) -> None:
    def on(node: str) -> list[str]:
        return sorted(found["metadata"]["name"] for found in world.reader.indexed(ACME, PODS, node))

    async def bind_pod(tenant: TenantId, name: str, node: str) -> None:
        await world.put(tenant, PODS, {**obj(name, "ns"), "spec": {"nodeName": node} if node else {}})

    await bind_pod(ACME, "a", "n1")
    await bind_pod(ACME, "b", "n1")
    await bind_pod(ACME, "c", "")
    await bind_pod(OTHER, "d", "n1")
    assert (on("n1"), on("n2"), on("")) == (["a", "b"], [], [])
    await bind_pod(ACME, "c", "n2")
    await bind_pod(ACME, "b", "n2")
    await bind_pod(ACME, "a", "n1")
    assert (on("n1"), on("n2")) == (["a"], ["b", "c"])
    await world.remove(ACME, PODS, "ns", "a")
    assert (on("n1"), on("n2")) == ([], ["b", "c"])
    assert list(world.reader.indexed(ACME, NAMESPACES, "n2")) == []


async def test_a_nodes_generation_changes_with_its_pods(world: Filled) -> None:
    def generation() -> int:
        return world.reader.indexed_generation(ACME, PODS, "n1")

    async def bind_pod(name: str, node: str, value: int = 0) -> None:
        await world.put(ACME, PODS, {**obj(name, "ns", value), "spec": {"nodeName": node}})

    assert generation() == 0
    seen = {0}
    for name, node, value in (("a", "n1", 0), ("a", "n1", 1), ("b", "n1", 0), ("b", "n2", 0), ("b", "n1", 0)):
        await bind_pod(name, node, value)
        assert generation() not in seen
        seen.add(generation())
    await world.remove(ACME, PODS, "ns", "b")
    assert generation() not in seen
    seen.add(generation())
    await world.remove(ACME, PODS, "ns", "a")
    assert generation() == 0
    await bind_pod("a", "n1", 1)
    assert generation() not in seen


async def test_a_snapshot_keeps_what_was_there(world: Filled) -> None:
    for name, namespace in (("b", "y"), ("a", "y"), ("c", "x")):
        await world.put(ACME, PODS, obj(name, namespace))
    await world.put(OTHER, PODS, obj("theirs", "y"))
    snapshot = world.reader.snapshot(ACME, [PODS, NAMESPACES])
    await world.put(ACME, PODS, obj("later", "x"))
    await world.remove(ACME, PODS, "y", "a")
    assert [each["metadata"]["name"] for each in snapshot.list(ACME, PODS)] == ["c", "a", "b"]
    assert [each["metadata"]["name"] for each in snapshot.list(ACME, PODS, "y")] == ["a", "b"]
    assert snapshot.get(ACME, PODS, "y", "a") is not None
    assert snapshot.get(ACME, PODS, "x", "later") is None
    assert not list(snapshot.list(ACME, NAMESPACES))
    assert set(snapshot.namespaces(ACME, PODS)) == {"x", "y"}


async def test_snapshots_tell_what_has_changed_and_whether_they_are_large(world: Filled) -> None:
    await world.put(ACME, PODS, obj("a", "x"))
    before = world.reader.snapshot(ACME, [PODS])
    await world.put(ACME, PODS, obj("b", "y"))
    after = world.reader.snapshot(ACME, [PODS])
    assert not after.is_same(before, ACME, PODS, "y")
    assert before.exceeds(0, 1_000) and before.exceeds(1, 10) and not after.exceeds(2, 1_000)
