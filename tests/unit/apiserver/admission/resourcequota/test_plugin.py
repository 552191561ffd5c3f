"""The plugin on a real cache: the operations that it adds to a write, and the correction of a wrong usage."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from alcove.api import registry
from alcove.api.encode import encode
from alcove.api.errors import Forbidden
from alcove.api.ids import GroupResource, Key, TenantId
from alcove.api.resources import CONFIG_MAPS, RESOURCE_QUOTAS
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.resourcequota.count import REFUSE_SECONDS
from alcove.apiserver.admission.resourcequota.plugin import QUOTAS_MAX, KeyedLocks, ResourceQuota
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.identity import Identity
from alcove.store.base import ABSENT, WriteOp
from alcove.store.sqlite import SqliteStore

ACME = TenantId("acme")
KINDS = registry.load()
ADMIN = Identity(ACME, "admin")


class World:
    def __init__(self, store: SqliteStore, cache: Cache) -> None:
        self.store, self.cache = store, cache
        self.now = 10_000.0
        self.plugin = ResourceQuota(cache, lambda: self.now, ComputeThreads())

    async def put(self, resource: GroupResource, kind: str, name: str, **fields: Any) -> None:
        metadata = {
            "name": name,
            "namespace": "n",
            "uid": name,
            "creationTimestamp": "1970-01-01T00:00:00Z",
        }
        body = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}
        await self.store.write([WriteOp(Key(resource, ACME, "n", name), encode(body))])
        await self.cache.reached(await self.store.revision())

    async def quota(self, hard: dict[str, str], used: dict[str, str], name: str = "q") -> None:
        status = {"hard": hard, "used": used}
        await self.put(RESOURCE_QUOTAS, "ResourceQuota", name, spec={"hard": hard}, status=status)

    def create(self, name: str = "m", resource: str = "configmaps", dry_run: bool = False) -> Attributes:
        kind = KINDS.find("", "v1", resource)
        assert kind is not None
        obj = {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name}, "spec": {}}
        return Attributes(
            operation=Operation.CREATE,
            kind=kind,
            tenant=ACME,
            namespace="n",
            name=name,
            obj=obj,
            identity=ADMIN,
            dry_run=dry_run,
        )

    async def joined(self, attributes: Attributes) -> Sequence[WriteOp]:
        await self.plugin.validate(attributes)
        if not attributes.joins:
            return ()
        op = WriteOp(Key(attributes.resource, ACME, "n", attributes.name), b"{}", ABSENT)
        async with attributes.joins[0](op) as ops:
            return ops


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    store = await SqliteStore.open(tmp_path / "store.db")
    async with Cache(store, lambda _events: None) as cache:
        yield World(store, cache)
    await store.close()


def used(op: WriteOp) -> dict[str, str]:
    assert op.body is not None
    amounts: dict[str, str] = orjson.loads(op.body)["status"]["used"]
    return amounts


async def test_without_a_quota_nothing_joins(world: World) -> None:
    assert await world.joined(world.create()) == ()


async def test_a_quota_that_does_not_count_the_object_is_unchanged(world: World) -> None:
    await world.quota({"pods": "1"}, {"pods": "0"})
    assert await world.joined(world.create()) == ()


async def test_each_quota_of_the_namespace_is_charged(world: World) -> None:
    await world.quota({"configmaps": "2"}, {"configmaps": "0"}, "a")
    await world.quota({"count/configmaps": "2", "pods": "1"}, {"count/configmaps": "0", "pods": "0"}, "b")
    ops = await world.joined(world.create())
    assert [used(op) for op in ops] == [{"configmaps": "1"}, {"count/configmaps": "1", "pods": "0"}]
    assert all(op.expected for op in ops)


async def test_a_usage_that_is_too_high_does_not_refuse_for_long(world: World) -> None:
    await world.quota({"configmaps": "5"}, {"configmaps": "0"})
    assert await world.joined(world.create())
    # Something went past the quotas: it says five are used, and there are none.
    await world.quota({"configmaps": "5"}, {"configmaps": "5"})
    with pytest.raises(Forbidden, match="used: configmaps=5"):
        await world.joined(world.create())
    world.now += REFUSE_SECONDS
    assert [used(op) for op in await world.joined(world.create())] == [{"configmaps": "1"}]


async def test_a_recent_count_takes_precedence_over_the_status(world: World) -> None:
    for number in range(3):
        await world.put(CONFIG_MAPS, "ConfigMap", f"m{number}")
    await world.quota({"configmaps": "3"}, {"configmaps": "0"})
    for _ in range(2):
        with pytest.raises(Forbidden, match="used: configmaps=3"):
            await world.joined(world.create("more"))
        world.now += REFUSE_SECONDS
    with pytest.raises(Forbidden, match="used: configmaps=3"):
        await world.plugin.validate(world.create("more", dry_run=True))


async def test_a_namespace_has_only_so_many_quotas(world: World) -> None:
    for number in range(QUOTAS_MAX):
        await world.quota({"pods": "1"}, {"pods": "0"}, f"q{number}")
    with pytest.raises(Forbidden, match=f"at most {QUOTAS_MAX} quotas"):
        await world.plugin.validate(world.create("one-more", "resourcequotas"))


async def test_a_key_has_one_holder_and_is_removed_after_the_last() -> None:
    locks, inside, most = KeyedLocks(), 0, 0

    async def work() -> None:
        nonlocal inside, most
        async with locks.take("key"):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(20)))
    assert most == 1 and not locks._locks
    async with locks.take("a"), locks.take("b"):
        assert len(locks._locks) == 2


async def test_a_cancelled_waiter_leaves_no_lock() -> None:
    locks = KeyedLocks()
    async with locks.take("key"):
        waiting = asyncio.create_task(_wait(locks))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert not locks._locks


async def _wait(locks: KeyedLocks) -> None:
    async with locks.take("key"):
        pass
