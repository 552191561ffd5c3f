"""Events: in the object's tenant, counted when they repeat, rate limited when there are too many."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client import events as module
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.event_memory import BURST_PER_OBJECT
from alcove.client.events import ControllerEvents, EventRecorder, PendingEvent, described, reference
from alcove.client.keys import HOME, PlaneId
from alcove.client.pool import HttpPool
from alcove.client.resources import EVENTS, Resource
from alcove.testing.clock import VirtualClock
from alcove.testing.server import LocalServer

_NUMBERS = count()


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[Client]:
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    yield Client(pool)
    await pool.close()


def pod(name: str, tenant: str = "system") -> Object:
    metadata = {"name": name, "namespace": "default", "tenant": tenant, "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


async def written(
    client: Client, record: Callable[[ControllerEvents], None], clock: Callable[[], float] = time.time
) -> tuple[EventRecorder, list[Object]]:
    """Records events about one pod; returns the recorder and the events that the server has."""
    name = f"events-{next(_NUMBERS)}"

    def client_of(_plane: PlaneId) -> Client:
        return client

    recorder = EventRecorder(client_of, clock)
    events = ControllerEvents(recorder, "tester")
    events_about = _About(events, pod(name))
    record(events_about)
    task = asyncio.create_task(recorder.run())
    async with asyncio.timeout(60):
        await recorder.drained()
    task.cancel()
    found = await client.list(SYSTEM, EVENTS, namespace="default", fields=f"involvedObject.name={name}")
    return recorder, found


class _About(ControllerEvents):
    """Records all events about one object."""

    def __init__(self, events: ControllerEvents, obj: Object) -> None:
        super().__init__(events._recorder, "tester")
        self._obj = obj

    def warn(self, reason: str, message: str = "m") -> None:
        self.warning(HOME, self._obj, reason, message)


async def test_equal_events_are_counted(client: Client) -> None:
    def record(events: ControllerEvents) -> None:
        assert isinstance(events, _About)
        for _ in range(5):
            events.warn("Failed")
        events.warn("Other")

    _, found = await written(client, record)
    assert {(each["reason"], each["count"]) for each in found} == {("Failed", 5), ("Other", 1)}
    assert found[0]["source"] == {"component": "tester"} and found[0]["type"] == "Warning"


async def test_an_object_with_too_many_events_is_rate_limited(client: Client) -> None:
    def record(events: ControllerEvents) -> None:
        assert isinstance(events, _About)
        for number in range(BURST_PER_OBJECT + 10):
            events.warn("Failed", f"number {number}")

    recorder, found = await written(client, record, clock=lambda: 1_700_000_000.0 + next(_TICKS) * 1e-3)
    assert len(found) == BURST_PER_OBJECT and recorder.dropped == 10


_TICKS = count()


async def test_one_tenants_flood_leaves_room_for_others() -> None:
    def client_of(_plane: PlaneId) -> Client:
        raise AssertionError("nobody writes yet")

    recorder = EventRecorder(client_of, time.time)
    events = ControllerEvents(recorder, "tester")
    for number in range(10_000):
        events.warning(HOME, pod(f"p{number}", "greedy"), "Failed", "m")
    before = recorder.dropped
    events.warning(HOME, pod("p", "small"), "Failed", "m")
    assert recorder.dropped == before == 10_000 - module.QUEUED_PER_TENANT_MAX


async def test_floods_of_many_tenants_leave_room_for_another() -> None:
    """Ten tenants with full queues took all room, and further tenants' events were dropped."""

    def nobody(_plane: PlaneId) -> Client:
        raise AssertionError("nothing is written")

    recorder = EventRecorder(nobody, time.time)
    events = ControllerEvents(recorder, "tester")
    for number in range(20 * module.QUEUED_PER_TENANT_MAX):
        events.warning(HOME, pod("p", f"flood-{number % 20}"), "Failed", str(number))
    for number in range(20):
        events.warning(HOME, pod("p", "quiet"), "Failed", str(number))
    pending = {tenant: len(queue) for (_, tenant), queue in recorder._queues.items()}
    assert pending[TenantId("quiet")] == 20
    assert sum(pending.values()) == recorder._queued == module.QUEUED_MAX
    assert {count for tenant, count in pending.items() if tenant != "quiet"} == {49}


async def test_an_event_that_cannot_be_written_is_dropped(client: Client) -> None:
    recorder = EventRecorder(lambda _plane: client, time.time)
    ControllerEvents(recorder, "tester").normal(HOME, pod("p", "no-such-tenant"), "Fine", "m")
    task = asyncio.create_task(recorder.run())
    async with asyncio.timeout(60):
        await recorder.drained()
    assert recorder.dropped == 1 and not task.done()
    task.cancel()


def test_an_event_refers_to_its_object() -> None:
    involved = reference(pod("x"))
    pending = PendingEvent(HOME, TenantId("a"), involved, "Normal", "Fine", "ü" * 2_000, "tester")
    event = described(pending, 1_700_000_000.25)
    assert event["metadata"]["namespace"] == "default" and event["metadata"]["name"].startswith("x.")
    assert event["involvedObject"]["kind"] == "Pod" and event["count"] == 1
    assert len(event["message"].encode()) <= module.MESSAGE_BYTES_MAX
    spaceless = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    pending = PendingEvent(HOME, SYSTEM, reference(spaceless), "Normal", "Fine", "m", "tester")
    assert described(pending, 0)["metadata"]["namespace"] == "default"


class _Slow(Client):
    """A client for which writing one tenant's events never ends."""

    def __init__(self) -> None:
        self.written: list[tuple[TenantId, str]] = []

    async def create(
        self, tenant: TenantId, resource: Resource, obj: Object, *, namespace: str = "", **_: object
    ) -> Object:
        if tenant == "slow":
            await asyncio.Event().wait()
        self.written.append((tenant, obj["reason"]))
        return obj


def test_a_slow_webhook_of_one_tenant_does_not_delay_events_of_others() -> None:
    client = _Slow()

    async def scenario() -> None:
        recorder = EventRecorder(lambda _plane: client, clock)
        events = ControllerEvents(recorder, "tester")
        for number in range(50):
            events.warning(HOME, pod(f"p{number}", "slow"), "Failed", "m")
        for number in range(3):
            events.warning(HOME, pod(f"p{number}", "quick"), f"Reason{number}", "m")
        task = asyncio.create_task(recorder.run())
        await asyncio.sleep(0.1)
        assert client.written == [("quick", f"Reason{number}") for number in range(3)], (
            "in the order recorded"
        )
        await asyncio.sleep(50 * module.WRITE_SECONDS_MAX + 1)
        assert recorder.dropped == 50 and not recorder._queues
        task.cancel()

    clock = VirtualClock()
    clock.run(scenario())


def test_many_tenants_are_written_for_at_once_and_of_each_one_at_a_time() -> None:
    busy: Counter[TenantId] = Counter()
    most: list[tuple[int, int]] = []

    class Counting(_Slow):
        async def create(
            self, tenant: TenantId, resource: Resource, obj: Object, *, namespace: str = "", **_: object
        ) -> Object:
            busy[tenant] += 1
            most.append((max(busy.values()), busy.total()))
            await asyncio.sleep(1)
            busy[tenant] -= 1
            return obj

    async def scenario() -> None:
        client = Counting()
        recorder = EventRecorder(lambda _plane: client, clock)
        for number in range(200):
            ControllerEvents(recorder, "tester").normal(
                HOME, pod(f"p{number}", f"t{number % 40}"), "Fine", "m"
            )
        task = asyncio.create_task(recorder.run())
        await recorder.drained()
        task.cancel()

    clock = VirtualClock()
    clock.run(scenario())
    assert max(most)[0] == 1 and max(total for _, total in most) == module.AT_ONCE_MAX
