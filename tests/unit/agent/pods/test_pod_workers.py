"""All pods of a node: which worker a change reaches, and the removal of leftovers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from alcove.agent.network.attachment import Attachment
from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels, pod_workers
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.hollow_executor import HollowPodExecutor
from alcove.agent.pods.pod_workers import Found, PodWorkers
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.worker_context import WorkerContext
from alcove.agent.runtime.base import ContainerId, ContainerSpec, ContainerStatus
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import Client
from alcove.client.errors import PlaneLeft
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.dataplane.errors import KernelRefused
from alcove.testing.clock import VirtualClock

KEY = ObjectKey(HOME, TenantId("acme"), "default", "web")
FIRST, SECOND = (f"0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3{digit}" for digit in "01")


class Network:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def attach(self, key: PodKey, pod: Object) -> Attachment:
        return Attachment("", ("10.0.0.7",))

    async def detach(self, key: PodKey) -> None:
        if self.failure is not None:
            raise self.failure


def pod(uid: str) -> Object:
    metadata = {"name": "web", "namespace": "default", "uid": uid}
    return {"metadata": metadata, "spec": {"containers": [{"name": "a"}]}}


def nobody(_tenant: TenantId) -> Client:
    raise PlaneLeft("nobody listens")


class SlowRuntime(HollowRuntime):
    start_seconds = 0.0

    async def start(self, container: ContainerId) -> None:
        await asyncio.sleep(self.start_seconds)
        await super().start(container)


class Node:
    def __init__(self, clock: VirtualClock) -> None:
        self.runtime = SlowRuntime(clock)
        self.network = Network()
        self._clock = clock

    def roster(self, left: Found) -> PodWorkers:
        loop = asyncio.get_running_loop()
        around = WorkerContext(
            addresses=(),
            note=lambda *_: None,
            admission=NodeAdmission({"cpu": "4", "memory": "8Gi", "pods": "110"}),
            wall=self._clock,
            clock=loop.time,
        )

        def site_of(key: PodKey, found: Sequence[ContainerStatus]) -> HollowPodExecutor:
            executor = HollowPodExecutor(key, self.runtime, self.network)
            executor._containers |= {each.id for each in found}
            return executor

        return PodWorkers(site_of, lambda key: StatusWriter(key, nobody), around, left)

    async def box(self, key: PodKey) -> ContainerStatus:
        """A sandbox that was left running."""
        id = container_labels.sandbox_id(key, 0)
        await self.runtime.create(ContainerSpec(id, id, {}, None, ContainerMark(key, "", 0).labels()))  # type: ignore[arg-type]
        await self.runtime.start(id)
        return await self.runtime.status(id)

    async def running(self) -> set[str]:
        return {each.id.partition(".")[0] for each in await self.runtime.list()}


def test_a_pod_created_again_under_its_name_replaces_the_old_one() -> None:
    clock = VirtualClock()

    async def scene() -> None:
        node = Node(clock)
        workers = node.roster({})
        workers.offer(ObjectChange(ChangeType.ADDED, KEY, pod(FIRST)))
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(1)
        assert await node.running() == {FIRST}
        workers.offer(ObjectChange(ChangeType.UPDATED, KEY, pod(SECOND)))
        await asyncio.sleep(60)
        assert await node.running() == {SECOND}
        found = workers.find(KEY)
        assert found is not None and found.key.uid == SECOND and len(workers) == 1
        workers.offer(ObjectChange(ChangeType.DELETED, KEY, pod(SECOND)))
        await asyncio.sleep(60)
        assert not await node.running() and not len(workers) and workers.find(KEY) is None
        task.cancel()

    clock.run(scene())


def test_leftovers_of_deleted_pods_are_removed_once_their_plane_has_synced() -> None:
    clock = VirtualClock()

    async def scene() -> None:
        node = Node(clock)
        gone, away = PodKey.of(KEY, pod(FIRST)), PodKey(PlaneId("beta"), TenantId("beta"), "n", "p", SECOND)
        left: Found = {key: [await node.box(key)] for key in (gone, away)}
        workers = node.roster(left)
        task = asyncio.create_task(workers.run())
        await workers.sweep(lambda _plane: False)
        assert await node.running() == {gone.directory_name, away.directory_name}
        await workers.sweep(lambda key: key.plane == HOME)
        assert await node.running() == {away.directory_name} and workers.has_left
        await workers.sweep(lambda _plane: True)
        assert not await node.running() and not workers.has_left
        task.cancel()

    clock.run(scene())


def test_what_a_pod_claims_is_its_own() -> None:
    clock = VirtualClock()

    async def scene() -> None:
        node = Node(clock)
        key = PodKey.of(KEY, pod(FIRST))
        box = await node.box(key)
        workers = node.roster({key: [box]})
        workers.offer(ObjectChange(ChangeType.ADDED, KEY, pod(FIRST)))
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(1)
        await workers.sweep(lambda _plane: True)
        assert (await node.runtime.status(box.id)).started_at == box.started_at, "it was taken over as it was"
        assert len(await node.runtime.list()) == 2
        task.cancel()

    clock.run(scene())


@pytest.mark.parametrize(
    "failure", [KernelRefused("delete link", 16), VolumeFailure("busy"), OSError("full")], ids=repr
)
def test_leftovers_that_cannot_be_removed_now_are_removed_later(failure: Exception) -> None:
    """The failure once ended the agent, again after each restart."""
    clock = VirtualClock()

    async def scene() -> None:
        node = Node(clock)
        key = PodKey.of(KEY, pod(FIRST))
        workers = node.roster({key: [await node.box(key)]})
        node.network.failure = failure
        await workers.sweep(lambda _plane: True)
        assert workers.has_left
        node.network.failure = None
        await workers.sweep(lambda _plane: True)
        assert not workers.has_left and not await node.running()

    clock.run(scene())


def test_pods_of_one_tenant_that_start_slowly_do_not_delay_anothers() -> None:
    """They all waited in one queue, in the order in which they came."""
    clock = VirtualClock()

    async def scene() -> None:
        node = Node(clock)
        node.runtime.start_seconds = 50.0
        workers = node.roster({})
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(0)
        for number in range(100):
            key = ObjectKey(HOME, TenantId("greedy"), "default", f"web-{number}")
            workers.offer(ObjectChange(ChangeType.ADDED, key, pod(f"greedy-{number}")))
        await asyncio.sleep(1)
        workers.offer(ObjectChange(ChangeType.ADDED, KEY, pod(FIRST)))
        await asyncio.sleep(2 * 50.0 + 1)  # The sandbox and its container, one after the other.
        assert len([each for each in await node.runtime.list() if each.id.startswith(FIRST)]) == 2
        worker = workers.find(KEY)
        assert worker is not None and worker.view.observed("a").is_running
        task.cancel()

    clock.run(scene())


def test_a_plane_that_binds_pods_without_end_gets_some_and_others_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_workers, "PLANE_UNFINISHED_PODS_MAX", 3)
    monkeypatch.setattr(pod_workers, "PLANE_PODS_MAX", 5)
    clock = VirtualClock()

    async def scene() -> None:
        workers = Node(clock).roster({})
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(0)
        plane = PlaneId("beta")
        for number in range(8):
            key = ObjectKey(plane, TenantId("beta"), "n", f"p{number}")
            workers.offer(ObjectChange(ChangeType.ADDED, key, pod(f"beta-{number}")))
        assert len(workers) == 3
        for number in range(8):
            key = ObjectKey(plane, TenantId("beta"), "n", f"done{number}")
            finished = {**pod(f"done-{number}"), "status": {"phase": "Succeeded"}}
            workers.offer(ObjectChange(ChangeType.ADDED, key, finished))
        assert len(workers) == 5
        workers.offer(ObjectChange(ChangeType.ADDED, KEY, pod(FIRST)))
        assert len(workers) == 6
        task.cancel()

    clock.run(scene())


def test_a_pod_whose_tenant_moves_to_another_plane_goes_on() -> None:
    clock = VirtualClock()
    there = ObjectKey(PlaneId("acme"), TenantId("acme"), "default", "web")

    async def scene() -> None:
        node = Node(clock)
        workers = node.roster({})
        workers.offer(ObjectChange(ChangeType.ADDED, KEY, pod(FIRST)))
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(1)
        for before, after in ((KEY, there), (there, KEY), (KEY, there)):
            workers.offer(ObjectChange(ChangeType.ADDED, after, pod(FIRST)))
            workers.offer(ObjectChange(ChangeType.DELETED, before, pod(FIRST)))
            await asyncio.sleep(60)
            assert await node.running() == {FIRST} and len(workers) == 1
            found = workers.find(after)
            assert found is not None and found.key == PodKey.of(KEY, pod(FIRST)), (
                "its key is where it came from"
            )
            assert workers.find(before) is None
        workers.offer(ObjectChange(ChangeType.DELETED, there, pod(FIRST)))
        await asyncio.sleep(60)
        assert not await node.running() and not len(workers)
        task.cancel()

    clock.run(scene())


def test_a_pod_of_ring0_that_is_deleted_ends() -> None:
    """Its plane has the name of its tenant: it is not on another plane, too."""
    clock = VirtualClock()
    ring0 = ObjectKey(HOME, SYSTEM, "default", "web")

    async def scene() -> None:
        node = Node(clock)
        workers = node.roster({})
        workers.offer(ObjectChange(ChangeType.ADDED, ring0, pod(FIRST)))
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(1)
        assert await node.running() == {FIRST}
        workers.offer(ObjectChange(ChangeType.DELETED, ring0, pod(FIRST)))
        await asyncio.sleep(60)
        assert not await node.running() and not len(workers)
        task.cancel()

    clock.run(scene())


def test_what_an_agent_finds_of_a_pod_whose_tenant_has_moved_is_adopted() -> None:
    clock = VirtualClock()
    there = ObjectKey(PlaneId("acme"), TenantId("acme"), "default", "web")

    async def scene() -> None:
        node = Node(clock)
        key = PodKey.of(KEY, pod(FIRST))
        workers = node.roster({key: [await node.box(key)]})
        task = asyncio.create_task(workers.run())
        await asyncio.sleep(0)
        workers.offer(ObjectChange(ChangeType.ADDED, there, pod(FIRST)))
        await asyncio.sleep(60)
        assert await node.running() == {FIRST} and not workers.has_left
        found = workers.find(there)
        assert found is not None and found.key == key
        task.cancel()

    clock.run(scene())
