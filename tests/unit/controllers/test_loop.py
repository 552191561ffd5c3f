"""The loop: who is called when, what becomes of errors, and that nobody's trouble is another's."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from alcove.api.errors import Conflict, Details, Forbidden, NotFound, ServiceUnavailable, StatusCause
from alcove.api.ids import GroupResource, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.tenant_shards import TenantShard, shard_of
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.errors import NotPermitted, PlaneLeft, ServerBehind, Unreachable
from alcove.client.events import EventRecorder, PendingEvent
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.planes import Planes
from alcove.client.resources import CONFIG_MAPS
from alcove.controllers.controller import (
    DONE,
    RECONCILE_SECONDS_MAX,
    Controller,
    ControllerContext,
    Result,
    owner_of,
)
from alcove.controllers.loop import ControllerLoop, ReconcileOutcome, decide, subscribe, tenant_message
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.metrics import LoopMetrics
from alcove.testing.clock import VirtualClock

Reconcile = Callable[[ObjectKey], Awaitable[Result]]


class Listening(EventRecorder):
    """Keeps the events that it is given."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_no_client, clock)
        self.events: list[PendingEvent] = []

    def record(self, event: PendingEvent) -> None:
        self.events.append(event)


def _no_client(_plane: PlaneId) -> Client:
    raise AssertionError


class Rig:
    """A loop over a mirror that the test writes itself."""

    def __init__(self, reconcile: Reconcile, workers: int = 2, shard: TenantShard | None = None) -> None:
        self._shard = shard
        self._reconcile = reconcile
        self._workers = workers
        self.called: list[str] = []

    def run(self, scenario: Callable[["Rig"], Awaitable[None]]) -> None:
        clock = VirtualClock()

        async def body() -> None:
            async with Planes(shard=self._shard) as planes:
                self.recorder = Listening(clock)
                self.loop = self._loop(planes, clock)
                mirror = self.loop.controller.reads[0]
                self.part: PlaneMirror = mirror.add_plane(HOME)
                await subscribe([self.loop])
                running = asyncio.create_task(self.loop.run())
                await asyncio.sleep(0)
                await scenario(self)
                running.cancel()
                await asyncio.wait([running])

        clock.run(body())

    def _loop(self, planes: Planes, clock: VirtualClock) -> ControllerLoop:
        rig = self

        class Maps(Controller):
            name = "map"
            resource = CONFIG_MAPS
            workers = rig._workers

            def __init__(self, context: ControllerContext) -> None:
                super().__init__(context)
                self.on(self.mirror(CONFIG_MAPS))

            async def reconcile(self, key: ObjectKey) -> Result:
                rig.called.append(key.name)
                return await rig._reconcile(key)

        context = ControllerContext(
            planes=planes,
            metadata_cache=MetadataCache(planes),
            recorder=self.recorder,
            clock=clock,
            authorities={},
        )
        return ControllerLoop(Maps(context), LoopMetrics("map"))

    def change(self, tenant: str, name: str, revision: int = 1) -> None:
        meta = {"tenant": tenant, "namespace": "default", "name": name, "resourceVersion": str(revision)}
        self.part.put({"metadata": meta}, Revision(revision))


async def fine(_key: ObjectKey) -> Result:
    return DONE


def test_a_change_is_reconciled_once() -> None:
    async def scenario(rig: Rig) -> None:
        for revision in (1, 2, 3):
            rig.change("a", "x", revision)
        await asyncio.sleep(60)
        assert rig.called == ["x"]
        assert rig.loop.metrics.outcomes == {"done": 1}

    Rig(fine).run(scenario)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_shard_reconciles_its_own_tenants_only(index: int) -> None:
    """Even if a mirror has objects of others."""
    tenants = [TenantId(f"t{number}") for number in range(30)]

    async def scenario(rig: Rig) -> None:
        for tenant in tenants:
            rig.change(tenant, f"of-{tenant}")
        await asyncio.sleep(60)
        assert rig.called == [f"of-{tenant}" for tenant in tenants if shard_of(tenant, 3) == index]

    Rig(fine, shard=TenantShard(index, 3)).run(scenario)


def test_what_asks_for_later_is_called_then() -> None:
    times: list[float] = []

    async def later(_key: ObjectKey) -> Result:
        times.append(asyncio.get_running_loop().time())
        return Result(after_seconds=30)

    async def scenario(rig: Rig) -> None:
        rig.change("a", "x")
        await asyncio.sleep(65)

    Rig(later).run(scenario)
    assert times == [pytest.approx(0), pytest.approx(30), pytest.approx(60)]


def test_an_error_delays_nothing_but_its_own_key_and_is_reported_to_the_tenant() -> None:
    async def picky(key: ObjectKey) -> Result:
        if key.name == "bad":
            raise KeyError("secret of somebody else")
        return DONE

    async def scenario(rig: Rig) -> None:
        rig.change("a", "bad")
        for number in range(50):
            rig.change("a", f"good{number}")
            rig.change("b", f"good{number}")
        await asyncio.sleep(3_600)
        assert {f"good{number}" for number in range(50)} <= set(rig.called)
        attempts = rig.called.count("bad")
        assert 15 <= attempts <= 30  # Later each time, but never given up.
        recorded = rig.recorder.events
        assert len(recorded) == attempts
        assert (recorded[0].tenant, recorded[0].involved["name"], recorded[0].type) == ("a", "bad", "Warning")
        assert recorded[0].involved["kind"] == "ConfigMap" and "secret" not in recorded[0].message

    Rig(picky).run(scenario)


def test_a_reconciler_that_hangs_holds_neither_all_workers_nor_its_own_for_ever() -> None:
    async def hangs(key: ObjectKey) -> Result:
        if key.tenant == "slow":
            await asyncio.sleep(1_000_000)
        return DONE

    async def scenario(rig: Rig) -> None:
        for number in range(10):
            rig.change("slow", f"s{number}")
        rig.change("quick", "q")
        await asyncio.sleep(1)
        assert "q" in rig.called
        await asyncio.sleep(RECONCILE_SECONDS_MAX * 8)
        assert {f"s{number}" for number in range(10)} <= set(rig.called)
        assert any("did not finish" in event.message for event in rig.recorder.events)

    Rig(hangs, workers=4).run(scenario)


def test_a_controller_may_allow_its_reconciler_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(key: ObjectKey) -> Result:
        await asyncio.sleep(RECONCILE_SECONDS_MAX + 1)
        done.append(key.name)
        return DONE

    async def scenario(rig: Rig) -> None:
        monkeypatch.setattr(rig.loop.controller, "reconcile_seconds_max", 2 * RECONCILE_SECONDS_MAX)
        rig.change("a", "x")
        await asyncio.sleep(RECONCILE_SECONDS_MAX + 2)
        assert done == ["x"]

    done: list[str] = []
    Rig(slow).run(scenario)


def test_own_writes_are_seen_before_the_next_call() -> None:
    seen: list[bool] = []

    async def scenario(rig: Rig) -> None:
        mirror = rig.loop.controller.reads[0]
        mirror.owe(HOME, TenantId("a"), Revision(9))
        rig.loop.queue.add(ObjectKey(HOME, TenantId("a"), "default", "x"))
        await asyncio.sleep(1)
        assert rig.called == []
        rig.change("a", "own", 9)
        await asyncio.sleep(1)
        assert sorted(rig.called) == ["own", "x"]
        seen.append(True)

    Rig(fine).run(scenario)
    assert seen


def terminating() -> Forbidden:
    error = Forbidden("unable to create new content in namespace n because it is being terminated")
    error.details = Details(causes=(StatusCause("NamespaceTerminating", "it ends", "metadata.namespace"),))
    return error


VERDICTS: list[tuple[Result | Exception, ReconcileOutcome]] = [
    (DONE, ReconcileOutcome.DONE),
    (Result(after_seconds=0.0), ReconcileOutcome.LATER),
    (Conflict("changed"), ReconcileOutcome.OUTDATED),
    (ServerBehind("watch is late"), ReconcileOutcome.OUTDATED),
    (Unreachable("away", sent=True), ReconcileOutcome.AWAY),
    (ServiceUnavailable("busy"), ReconcileOutcome.AWAY),
    (Forbidden("no"), ReconcileOutcome.FAILED),
    (ValueError("bug"), ReconcileOutcome.FAILED),
    (TimeoutError(), ReconcileOutcome.FAILED),
    (PlaneLeft("b"), ReconcileOutcome.DROPPED),
    (NotPermitted("no lease"), ReconcileOutcome.AWAY),
    (terminating(), ReconcileOutcome.DROPPED),
    (NotFound.of(GroupResource("", "namespaces"), "n"), ReconcileOutcome.OUTDATED),
    (NotFound.of(GroupResource("", "tenants"), "t"), ReconcileOutcome.OUTDATED),
    (NotFound.of(GroupResource("", "pods"), "p"), ReconcileOutcome.FAILED),
]


@pytest.mark.parametrize(("outcome", "expected"), VERDICTS, ids=lambda value: type(value).__name__)
def test_verdicts(outcome: Result | Exception, expected: ReconcileOutcome) -> None:
    assert decide(outcome) is expected


def test_the_servers_refusal_is_reported_in_its_own_words() -> None:
    assert tenant_message("map", Forbidden("exceeded quota")) == "exceeded quota"
    assert (
        tenant_message("map", ValueError("x")) == "the map controller cannot handle this object (ValueError)"
    )


def _owned(owner: Object | None) -> Object:
    return {"metadata": {"ownerReferences": [owner] if owner else []}}


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "controller": True}, ["m"]),
        ({"apiVersion": "v1", "kind": "ConfigMap", "name": "m"}, []),
        ({"apiVersion": "x/v1", "kind": "ConfigMap", "name": "m", "controller": True}, []),
        ({"apiVersion": "v1", "kind": "Secret", "name": "m", "controller": True}, []),
        (None, []),
    ],
)
def test_owners_are_enqueued_for_their_objects(owner: Object | None, expected: Iterable[str]) -> None:
    key = ObjectKey(HOME, TenantId("a"), "web", "pod")
    change = ObjectChange(ChangeType.ADDED, key, _owned(owner))
    found = list(owner_of(CONFIG_MAPS)(change))
    assert found == [key.of(name) for name in expected]
