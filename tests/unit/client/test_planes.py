"""Mirrors over several planes, on a real server with injected faults: they converge to the server's state."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count

import pytest

from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.client import informer
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client, ListSelection
from alcove.client.errors import PlaneLeft
from alcove.client.keys import HOME, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, TENANTS
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse
from alcove.testing.faults import CALM, FaultyTransport, Odds

_NUMBERS = count()


@pytest.fixture
async def tenant(client: Client) -> TenantId:
    """With a namespace, `default`."""
    name = TenantId(f"planes-{next(_NUMBERS)}")
    await client.create(SYSTEM, TENANTS, {"metadata": {"name": name}})
    await client.create(name, NAMESPACES, {"metadata": {"name": "default"}})
    return name


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"planes-{next(_NUMBERS)}"
    await client.create(SYSTEM, NAMESPACES, {"metadata": {"name": name}})
    return name


def held(mirror: Mirror, namespace: str) -> dict[str, str]:
    objs = mirror.list(HOME, SYSTEM, namespace)
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in objs}


async def stored(client: Client, namespace: str) -> dict[str, str]:
    objs = await client.list(SYSTEM, CONFIG_MAPS, namespace=namespace)
    return {obj["metadata"]["name"]: obj["metadata"]["resourceVersion"] for obj in objs}


async def churn(
    client: Client, namespace: str, chance: random.Random, steps: int, is_enough: Callable[[], bool]
) -> None:
    """Creates, changes and deletes config maps at random: at least so often, and until it is enough."""
    there: dict[str, None] = {}
    for number in count():
        if number >= steps and is_enough():
            return
        if not there or chance.random() < 0.5:
            name = f"c{number}"
            await client.create(SYSTEM, CONFIG_MAPS, {"metadata": {"name": name}}, namespace=namespace)
            there[name] = None
            continue
        name = chance.choice(list(there))
        if chance.random() < 0.5:
            await client.delete(SYSTEM, CONFIG_MAPS, name, namespace=namespace)
            del there[name]
        else:
            change = {"data": {"at": str(number)}}
            await client.patch(SYSTEM, CONFIG_MAPS, name, change, namespace=namespace)


@pytest.mark.parametrize("seed", range(4))
async def test_a_mirror_converges_whatever_happens_to_its_watches(
    pool: HttpPool, client: Client, namespace: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "BACKOFF_SECONDS_MIN", 0.001)
    chance = random.Random(seed)
    faulty = FaultyTransport(pool, chance, Odds(stream_lost=0.1, stream_expired=0.05))
    async with Planes() as planes:
        mirror = planes.mirror(ListSelection(CONFIG_MAPS))
        last = asyncio.Event()
        mirror.subscribe(
            lambda change: last.set() if change.key.of("last", namespace) == change.key else None
        )
        planes.join(HOME, faulty)

        def has_suffered() -> bool:
            """Whether watches were resumed, and a list was read again: how many events a fault can hit is left to
            chance."""
            resumed = any("resourceVersion=" in each for each in faulty.requests)
            return resumed and sum("sendInitialEvents" in each for each in faulty.requests) > 1

        await churn(client, namespace, chance, 120, has_suffered)
        faulty.odds = CALM
        await client.create(SYSTEM, CONFIG_MAPS, {"metadata": {"name": "last"}}, namespace=namespace)
        expected = await stored(client, namespace)
        async with asyncio.timeout(60):
            await last.wait()
            # If it came with a new list, what is not in the list is removed at its end.
            while held(mirror, namespace) != expected:  # noqa: ASYNC110 - the mirror tells of no such moment
                await asyncio.sleep(0.01)


async def test_own_writes_are_seen_after_waiting(pool: HttpPool, namespace: str) -> None:
    async with Planes() as planes:
        mirror = planes.mirror(ListSelection(CONFIG_MAPS))
        client = planes.join(HOME, pool)
        await planes.synced()
        for number in range(20):
            made = await client.create(
                SYSTEM, CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace=namespace
            )
            await mirror.caught_up(HOME, SYSTEM)
            assert held(mirror, namespace)[f"c{number}"] == made["metadata"]["resourceVersion"]
            await client.delete(SYSTEM, CONFIG_MAPS, f"c{number}", namespace=namespace)
            await mirror.caught_up(HOME, SYSTEM)
            assert f"c{number}" not in held(mirror, namespace)


async def test_planes_join_and_leave_while_mirrors_run(pool: HttpPool, tenant: TenantId) -> None:
    other = PlaneId(tenant)
    changes: list[tuple[ChangeType, PlaneId]] = []
    async with Planes() as planes:
        early = planes.mirror(ListSelection(NAMESPACES))
        early.subscribe(lambda change: changes.append((change.kind, change.key.plane)))
        planes.join(HOME, pool)
        planes.join(other, pool)
        late = planes.mirror(ListSelection(CONFIG_MAPS))
        assert planes.mirror(ListSelection(NAMESPACES)) is early
        await planes.synced()
        assert early.keys(other, tenant) and early.is_synced(other) and late.is_synced(other)
        with pytest.raises(ValueError, match="already joined"):
            planes.join(other, pool)
        await planes.leave(other)
        assert (ChangeType.DELETED, other) in changes and (ChangeType.DELETED, HOME) not in changes
        assert not early.keys(other, tenant) and early.keys(HOME, SYSTEM)
        with pytest.raises(PlaneLeft):
            planes.client(other)
        planes.drop(late)
        assert planes.mirrors() == [early]


async def test_a_resource_that_is_dropped_and_requested_at_once_is_mirrored_again(
    pool: HttpPool, namespace: str
) -> None:
    """A CRD that is deleted and created again left the controllers without its objects, and the next deletion
    failed with a ValueError."""
    selection, changes = ListSelection(CONFIG_MAPS), list[ChangeType]()
    async with Planes() as planes:
        client = planes.join(HOME, pool)
        await client.create(SYSTEM, CONFIG_MAPS, {"metadata": {"name": "kept"}}, namespace=namespace)
        dropped = planes.mirror(selection)
        await planes.synced()
        assert "kept" in held(dropped, namespace)
        dropped.subscribe(lambda change: changes.append(change.kind))
        planes.drop(dropped)
        assert ChangeType.DELETED in changes and not held(dropped, namespace)
        again = planes.mirror(selection)
        assert again is not dropped
        await planes.synced()
        assert "kept" in held(again, namespace) and not held(dropped, namespace)
        planes.drop(again)
        assert planes.mirrors() == []


async def test_a_joining_plane_is_announced_only_when_it_is_synced(
    pool: HttpPool, client: Client, tenant: TenantId
) -> None:
    """Objects that are not yet listed would look deleted."""
    other = PlaneId(tenant)
    await client.create(tenant, CONFIG_MAPS, {"metadata": {"name": "early"}}, namespace="default")
    slow = SlowLists(pool, "/namespaces?")
    changes: list[tuple[ChangeType, str, bool]] = []
    gone = asyncio.Event()
    async with Planes() as planes:
        maps, spaces = planes.mirror(ListSelection(CONFIG_MAPS)), planes.mirror(ListSelection(NAMESPACES))

        def record(change: ObjectChange) -> None:
            if change.key.plane == other:
                changes.append((change.kind, change.key.name, planes.is_synced(other)))
                if change.kind is ChangeType.DELETED:
                    gone.set()

        maps.subscribe(record)
        joining = asyncio.create_task(planes.join_whole(other, slow))
        await asyncio.sleep(0)  # It has begun.
        async with asyncio.timeout(60):
            await maps.synced()
        late = planes.mirror(ListSelection(SERVICE_ACCOUNTS))
        late.subscribe(record)
        assert not changes and not joining.done() and not spaces.is_synced(other)
        slow.go_on.set()
        async with asyncio.timeout(60):
            await joining
        assert (ChangeType.ADDED, "early", True) in changes
        assert late.is_synced(other)
        await client.delete(tenant, CONFIG_MAPS, "early", namespace="default")
        async with asyncio.timeout(60):
            await gone.wait()
        assert [kind for kind, name, _ in changes if name == "early"] == [
            ChangeType.ADDED,
            ChangeType.DELETED,
        ]


async def test_objects_of_other_tenants_on_a_dedicated_plane_are_ignored(
    pool: HttpPool, client: Client, tenant: TenantId, namespace: str
) -> None:
    """The owner of a dedicated plane could create objects there in the name of any tenant."""
    other = PlaneId(tenant)
    async with Planes() as planes:
        maps, tenants = planes.mirror(ListSelection(CONFIG_MAPS)), planes.mirror(ListSelection(TENANTS))
        planes.join(other, pool)
        await planes.synced()
        for of, there in ((tenant, "default"), (SYSTEM, namespace)):
            made = await client.create(of, CONFIG_MAPS, {"metadata": {"name": "m"}}, namespace=there)
        maps.owe(other, SYSTEM, Revision(int(made["metadata"]["resourceVersion"])))
        await maps.caught_up(other, SYSTEM)  # What is not shown has been seen all the same.
        assert [key.tenant for key in maps.everything()] == [tenant]
        assert [key.name for key in tenants.everything()] == [tenant]


class SlowLists:
    """A transport that opens no watch of a path before `go_on` is set."""

    def __init__(self, pool: HttpPool, path: str) -> None:
        self._pool = pool
        self._path = path
        self.go_on = asyncio.Event()

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        return await self._pool.request(method, path, headers, body)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        if self._path in path:
            await self.go_on.wait()
        async with self._pool.stream(path, headers) as stream:
            yield stream

    async def close(self) -> None:
        pass


async def test_leaving_the_block_ends_all_informers(pool: HttpPool) -> None:
    before = len(asyncio.all_tasks())
    async with Planes() as planes:
        planes.mirror(ListSelection(NAMESPACES))
        planes.join(HOME, pool)
        await planes.synced()
        assert len(asyncio.all_tasks()) == before + 1
    assert len(asyncio.all_tasks()) == before


async def test_objects_of_a_tenant_that_moves_are_never_missing(
    pool: HttpPool, client: Client, tenant: TenantId
) -> None:
    """One server stands for both planes: each has the tenant's objects."""
    for number in range(3):
        await client.create(tenant, CONFIG_MAPS, {"metadata": {"name": f"c{number}"}}, namespace="default")
    plane, changes = PlaneId(tenant), list[tuple[ChangeType, PlaneId]]()
    async with Planes() as planes:
        mirror = planes.mirror(ListSelection(CONFIG_MAPS))
        planes.join(HOME, pool)
        await planes.synced()

        def note(change: ObjectChange) -> None:
            if change.key.tenant == tenant:
                changes.append((change.kind, change.key.plane))
                found = [mirror.keys(each, tenant) for each in (HOME, plane)]
                assert any(len(keys) == 3 for keys in found), found

        mirror.subscribe(note)
        changes.clear()
        await planes.join_whole(plane, pool)
        assert changes == [(ChangeType.ADDED, plane)] * 3 + [(ChangeType.DELETED, HOME)] * 3
        assert planes.serving(tenant) == plane and not mirror.keys(HOME, tenant)
        changes.clear()
        await planes.leave(plane)
        assert changes == [(ChangeType.ADDED, HOME)] * 3 + [(ChangeType.DELETED, plane)] * 3
        assert planes.serving(tenant) == HOME and len(mirror.keys(HOME, tenant)) == 3
        await client.delete(tenant, CONFIG_MAPS, "c0", namespace="default")
        async with asyncio.timeout(10):
            while len(mirror.keys(HOME, tenant)) == 3:  # noqa: ASYNC110 - the mirror tells of no such moment
                await asyncio.sleep(0.01)
