"""Counting the usage from the cache, and when a count is due."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from alcove.api import meta, quantity
from alcove.api.encode import encode
from alcove.api.ids import Key, TenantId
from alcove.api.resources import CONFIG_MAPS, PODS
from alcove.apiserver.admission.resourcequota import account as accounts
from alcove.apiserver.admission.resourcequota.count import (
    COUNT_SECONDS,
    KNOWN_MAX,
    MEASURED_AT_ONCE_MAX,
    REFUSE_SECONDS,
    SETTLE_SECONDS,
    RecountSchedule,
    UsageCounter,
)
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.computing import ComputeThreads
from alcove.store.base import WriteOp
from alcove.store.sqlite import SqliteStore

ACME, OTHER = TenantId("acme"), TenantId("other")


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[Cache]:
    store = await SqliteStore.open(tmp_path / "store.db")
    async with Cache(store, lambda _events: None) as cache:
        for tenant, namespace, number in ((ACME, "a", 0), (ACME, "a", 1), (ACME, "b", 2), (OTHER, "a", 3)):
            name = f"o{number}"
            metadata = {"name": name, "namespace": namespace}
            spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{number + 1}"}}}]}
            if number == 1:
                spec["activeDeadlineSeconds"] = 5  # type: ignore[assignment]
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            maps = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await store.write([WriteOp(Key(PODS, tenant, namespace, name), encode(pod))])
            await store.write([WriteOp(Key(CONFIG_MAPS, tenant, namespace, name), encode(maps))])
        await cache.reached(await store.revision())
        yield cache
    await store.close()


def quota(namespace: str = "a", uid: str = "u", changed: float = 0, **spec: Any) -> accounts.QuotaAccount:
    metadata = {
        "name": "q",
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": "1",
        "creationTimestamp": meta.format_time(0),
        "managedFields": [{"manager": "m", "time": meta.format_time(changed)}],
    }
    return accounts.of_quota(ACME, {"metadata": metadata, "spec": spec, "status": {"used": spec["hard"]}})


async def test_only_what_is_in_the_namespace_and_scope_is_counted(cache: Cache) -> None:
    hard = {"pods": "1", "requests.cpu": "1", "configmaps": "1", "count/configmaps": "1", "secrets": "1"}

    async def counted(account: accounts.QuotaAccount) -> dict[str, str]:
        used = await UsageCounter(cache, ComputeThreads()).count(ACME, account)
        return {name: str(amount) for name, amount in used.items()}

    assert await counted(quota(hard=hard)) == {
        "pods": "2",
        "requests.cpu": "3",
        "configmaps": "2",
        "count/configmaps": "2",
        "secrets": "0",
    }
    short = quota(hard={"pods": "1", "requests.cpu": "1"}, scopes=["Terminating"])
    assert await counted(short) == {"pods": "1", "requests.cpu": "2"}
    assert await counted(quota("nowhere", hard={"pods": "1"})) == {"pods": "0"}
    metadata = {"name": "acme", "uid": "u", "resourceVersion": "1"}
    whole = accounts.of_tenant({"metadata": metadata, "spec": {"quota": {"hard": hard}}})
    assert whole is not None and (await counted(whole))["pods"] == "3"


async def test_counting_leaves_no_decoded_pods_behind(cache: Cache) -> None:
    await UsageCounter(cache, ComputeThreads()).count(ACME, quota(hard={"requests.cpu": "1"}))
    assert all(entry._object is None for entry in cache.entries(ACME, PODS))


class _ThreadsBesideWrites(ComputeThreads):
    """While the first computation runs, others write."""

    def __init__(self, write: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.write: Callable[[], Awaitable[None]] | None = write
        self.runs = 0

    async def run(self, tenant: TenantId, compute: Callable[[], Any]) -> Any:
        self.runs += 1
        result = await super().run(tenant, compute)
        if self.write is not None:
            write, self.write = self.write, None
            await write()
        return result


async def test_many_objects_are_measured_in_a_thread_and_those_that_change_meanwhile_anew(
    tmp_path: Path,
) -> None:
    store = await SqliteStore.open(tmp_path / "store.db")
    many = 2 * MEASURED_AT_ONCE_MAX

    def pod(number: int, cpu: int) -> WriteOp:
        name = f"p{number}"
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": f"{cpu}"}}}]}
        metadata = {"name": name, "namespace": "a"}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return WriteOp(Key(PODS, ACME, "a", name), encode(made))

    async with Cache(store, lambda _events: None) as cache:

        async def write_beside() -> None:
            await store.write([pod(0, 5)])
            await store.write([WriteOp(Key(PODS, ACME, "a", "p1"), None)])
            await store.write([pod(many, 1)])
            await cache.reached(await store.revision())

        for first in range(0, many, 50):
            await store.write([pod(number, 1) for number in range(first, first + 50)])
        await cache.reached(await store.revision())
        threads = _ThreadsBesideWrites(write_beside)
        used = await UsageCounter(cache, threads).count(ACME, quota(hard={"pods": "1", "requests.cpu": "1"}))
        # One has four more, one is gone, one is new.
        assert {name: str(amount) for name, amount in used.items()} == {
            "pods": str(many),
            "requests.cpu": str(many + 4),
        }
        assert threads.runs == 1
    await store.close()


def charges(
    settling: RecountSchedule, account: accounts.QuotaAccount, found: str = "1", times: int = 3
) -> list[bool]:
    """Whether each of several charges counted, finding `found` pods."""
    outcomes = []
    for _ in range(times):
        outcomes.append(settling.is_due(account))
        if outcomes[-1]:
            settling.counted(account, {**account.used, "pods": quantity.parse(found)})
    return outcomes


def test_a_quota_is_counted_until_it_has_settled_and_once_after() -> None:
    now = [100.0]
    settling = RecountSchedule(lambda: now[0])
    account = quota(hard={"pods": "1"}, changed=98)
    assert charges(settling, account) == [True, True, True]
    now[0] = 98 + SETTLE_SECONDS
    assert charges(settling, account) == [True, False, False]
    now[0] += 60
    assert charges(settling, quota(hard={"pods": "1", "services": "2"}, changed=now[0])) == [True, True, True]
    assert charges(settling, quota(hard={"pods": "1"}, uid="another")) == [True, False, False]


def test_a_quota_is_counted_now_and_then() -> None:
    now = [10_000.0]
    settling = RecountSchedule(lambda: now[0])
    account = quota(hard={"pods": "1"})
    assert charges(settling, account) == [True, False, False]
    now[0] += COUNT_SECONDS
    assert charges(settling, account) == [True, False, False]


def test_a_count_that_found_something_else_is_repeated_until_it_was_written() -> None:
    settling = RecountSchedule(lambda: 10_000.0)
    account = quota(hard={"pods": "1"})
    assert charges(settling, account, found="7") == [True, True, True]
    assert charges(settling, account) == [True, False, False]


def test_a_rejection_requires_a_recent_count() -> None:
    now = [10_000.0]
    settling = RecountSchedule(lambda: now[0])
    account = quota(hard={"pods": "1"})
    charges(settling, account)
    assert not settling.is_due(account, to_refuse=True)
    now[0] += REFUSE_SECONDS
    assert not settling.is_due(account)
    assert settling.is_due(account, to_refuse=True)


def test_a_quota_without_a_usage_is_always_due() -> None:
    settling = RecountSchedule(lambda: 10_000.0)
    metadata = {"name": "q", "namespace": "a", "uid": "u", "resourceVersion": "1"}
    account = accounts.of_quota(ACME, {"metadata": metadata, "spec": {"hard": {"pods": "1"}}, "status": {}})
    assert charges(settling, account) == [True, True, True]


def test_the_cache_is_bounded() -> None:
    settling = RecountSchedule(lambda: 10_000.0)
    for number in range(KNOWN_MAX + 5):
        charges(settling, quota(f"n{number}", hard={"pods": "1"}), times=1)
    assert len(settling._confirmed) == KNOWN_MAX
