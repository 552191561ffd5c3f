"""The lifecycle of a pod, on virtual time: a runtime without processes, and an API that records requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from alcove.agent.network.attachment import Attachment, NetworkNotReady
from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.pods.adoption import view_of
from alcove.agent.pods.hollow_executor import HollowPodExecutor
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.worker import PodWorker
from alcove.agent.pods.worker_context import WorkerContext
from alcove.agent.runtime.base import ContainerId, ContainerSpec, ContainerStatus, CreateFailed, Isolation
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.volumes import downward
from alcove.agent.volumes.downward import DownwardMetadata
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.keys import HOME
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse
from alcove.testing.clock import VirtualClock

KEY = PodKey(HOME, TenantId("acme"), "default", "web", "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e")


class RecordingApi:
    """A transport that takes every write down."""

    def __init__(self) -> None:
        self.statuses: list[Object] = []
        self.deleted = False
        self.is_away = self.refuses = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if self.is_away:
            raise Unreachable("away", sent=False)
        if method == "PATCH" and self.refuses:
            invalid = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no"}
            return ReceivedResponse(422, {}, orjson.dumps(invalid))
        if method == "PATCH":
            self.statuses.append(orjson.loads(body)["status"])
        elif method == "DELETE":
            self.deleted = True
        return ReceivedResponse(200, {}, b"{}")

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        raise AssertionError("nobody watches")
        yield

    async def close(self) -> None:
        return


class Network:
    """Has an address for the pod once the test sets it."""

    def __init__(self) -> None:
        self.is_ready = True
        self.attached = 0

    async def attach(self, key: PodKey, pod: Object) -> Attachment:
        if not self.is_ready:
            raise NetworkNotReady("not yet")
        self.attached += 1
        return Attachment("", ("10.0.0.7",))

    async def detach(self, key: PodKey) -> None:
        self.attached -= 1


class Runtime(HollowRuntime):
    """Containers can be made to end, and to fail to start."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self.starts: list[str] = []
        self._started = asyncio.Event()
        self.kills: list[tuple[str, int]] = []
        self.fails = ""
        self.start_seconds = self.wait_seconds = 0.0
        self.exits_at_once = False
        self.ignores_term = self.ignores_all = False

    async def create(self, spec: ContainerSpec) -> None:
        if self.fails and not spec.is_sandbox:
            raise CreateFailed(self.fails)
        await super().create(spec)

    async def start(self, container: ContainerId) -> None:
        await asyncio.sleep(self.start_seconds)
        await super().start(container)
        name = container.removeprefix(f"{KEY.directory_name}.")
        self.starts.append(name)
        if self.exits_at_once and name != "0":
            self.end(name, 1)
        self._started.set()

    async def wait(self, container: ContainerId) -> ContainerStatus:
        status = await super().wait(container)
        await asyncio.sleep(self.wait_seconds)
        return status

    async def has_started(self, name: str) -> None:
        while name not in self.starts:
            self._started.clear()
            await self._started.wait()

    async def kill(self, container: ContainerId, signal: int) -> None:
        self.kills.append((container.removeprefix(f"{KEY.directory_name}."), signal))
        if not self.ignores_all and (signal == 9 or not self.ignores_term):
            await super().kill(container, signal)

    def end(self, name: str, code: int) -> None:
        self._end(self._find(ContainerId(f"{KEY.directory_name}.{name}")), code)


class Stage:
    def __init__(self, clock: VirtualClock, **spec: Any) -> None:
        self.clock = clock
        self.api = RecordingApi()
        self.network = Network()
        self.runtime = Runtime(clock)
        self.events: list[tuple[str, str]] = []
        containers = [{"name": "a", "image": "busybox"}]
        self.pod: Object = {
            "metadata": {"name": "web", "namespace": "default", "uid": KEY.uid, "annotations": {}},
            "spec": {"containers": containers, "terminationGracePeriodSeconds": 30, **spec},
        }

    def hire(self, found: bool = False) -> PodWorker:
        loop = asyncio.get_running_loop()
        around = WorkerContext(
            addresses=("192.0.2.1",),
            note=lambda _key, _type, reason, message: self.events.append((reason, message)),
            admission=NodeAdmission({"cpu": "4", "memory": "8Gi", "pods": "110"}),
            wall=self.clock,
            clock=loop.time,
        )
        statuses = [each.status for each in self.runtime._containers.values()] if found else []
        executor = HollowPodExecutor(KEY, self.runtime, self.network)
        writer = StatusWriter(KEY, lambda _plane: Client(self.api))
        return PodWorker(executor, self.pod, view_of(self.pod, statuses), writer, around)

    @property
    def status(self) -> Object:
        return self.api.statuses[-1]

    @property
    def state(self) -> Object:
        state: Object = self.status["containerStatuses"][0]["state"]
        return state

    def deleted(self, grace: int) -> Object:
        metadata = {**self.pod["metadata"], "deletionTimestamp": "x", "deletionGracePeriodSeconds": grace}
        return {**self.pod, "metadata": metadata}


def play(scene: Callable[[Stage], Awaitable[None]], **spec: Any) -> None:
    clock = VirtualClock()

    async def run() -> None:
        await scene(Stage(clock, **spec))

    clock.run(run())


@asynccontextmanager
async def working(worker: PodWorker) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(worker.run())
    try:
        await asyncio.sleep(0.05)
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


def test_a_pod_runs_and_its_status_is_updated() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            assert stage.status["phase"] == "Running" and stage.status["podIP"] == "10.0.0.7"
            assert [reason for reason, _ in stage.events] == ["Created", "Started"]
            assert len(stage.api.statuses) == 2, "once while it is made, once when it runs"

    play(scene)


def test_a_pod_is_deleted_with_everything() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker) as task:
            worker.change(stage.deleted(30))
            await asyncio.wait_for(task, 5)
        assert stage.api.deleted and not stage.runtime._containers and not stage.network.attached
        assert stage.status["phase"] == "Failed", "it ended by a signal"

    play(scene)


def test_one_that_does_not_heed_is_killed_when_its_grace_is_over() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.ignores_term = True
        worker = stage.hire()
        async with working(worker) as task:
            began = asyncio.get_running_loop().time()
            worker.change(stage.deleted(30))
            await asyncio.wait_for(task, 100)
            assert 30 <= asyncio.get_running_loop().time() - began < 31
        assert stage.runtime.kills == [("a.0", 15), ("a.0", 9)]

    play(scene)


def test_grace_can_be_cut_short_but_not_made_longer() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.ignores_term = True
        worker = stage.hire()
        async with working(worker) as task:
            began = asyncio.get_running_loop().time()
            worker.change(stage.deleted(30))
            await asyncio.sleep(1)
            worker.change(stage.deleted(2))
            await asyncio.sleep(0.5)
            worker.change(stage.deleted(30))
            await asyncio.wait_for(task, 100)
            assert 3 <= asyncio.get_running_loop().time() - began < 4

    play(scene)


def test_crashes_are_answered_with_back_off_and_forgiven_after_a_long_run() -> None:
    async def scene(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        async with working(stage.hire()):
            waits = []
            for number in range(4):
                stage.runtime.end(f"a.{number}", 1)
                ended = loop.time()
                await stage.runtime.has_started(f"a.{number + 1}")
                waits.append(round(loop.time() - ended))
            assert waits == [0, 10, 20, 40]
            await asyncio.sleep(700)
            assert stage.status["containerStatuses"][0]["restartCount"] == 4
            stage.runtime.end("a.4", 1)
            await asyncio.sleep(1)
            assert stage.runtime.starts[-1] == "a.5", "at once, as the first time"
            assert [message for reason, message in stage.events if reason == "BackOff"]

    play(scene)


def test_a_container_that_exits_as_it_starts_is_restarted_with_back_off() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.exits_at_once, stage.runtime.wait_seconds = True, 0.5
        async with working(stage.hire()):
            await asyncio.sleep(5)
            assert stage.runtime.starts == ["0", "a.0", "a.1"]
            assert stage.state["waiting"]["reason"] == "CrashLoopBackOff"
            await asyncio.sleep(10)
            assert stage.runtime.starts[3:] == ["a.2"]

    play(scene)


def test_only_the_previous_run_is_kept() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            for number in range(3):
                stage.runtime.end(f"a.{number}", 1)
                await asyncio.sleep(60)
            kept = sorted(each.removeprefix(f"{KEY.directory_name}.") for each in stage.runtime._containers)
            assert kept == ["0", "a.2", "a.3"]

    play(scene)


def test_a_command_that_cannot_be_run_crashes_like_any_other() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.fails = "executable file `x` not found in $PATH"
        async with working(stage.hire()):
            await asyncio.sleep(5)
            assert stage.state["waiting"]["reason"] == "CrashLoopBackOff"
            last = stage.status["containerStatuses"][0]["lastState"]["terminated"]
            assert (last["reason"], last["exitCode"]) == ("ContainerCannotRun", 127)

    play(scene)


def test_a_network_that_is_not_ready_is_waited_for_and_reported() -> None:
    async def scene(stage: Stage) -> None:
        stage.network.is_ready = False
        worker = stage.hire()
        async with working(worker):
            await asyncio.sleep(10)
            assert stage.state["waiting"]["reason"] == "ContainerCreating"
            assert ("FailedCreatePodSandBox", "not yet") in stage.events
            stage.network.is_ready = True
            ready = {"arktos.futurewei.com/network-readiness": "true"}
            metadata = {**stage.pod["metadata"], "annotations": ready}
            worker.change({**stage.pod, "metadata": metadata})
            await asyncio.sleep(0.1)
            assert stage.status["phase"] == "Running", "at once: the pod says that it is there"

    play(scene)


def test_a_sandbox_that_exits_is_created_again_with_its_containers() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            stage.runtime.end("0", 137)
            await asyncio.sleep(1)
            assert stage.runtime.starts == ["0", "a.0", "1", "a.1"]
            assert stage.status["containerStatuses"][0]["restartCount"] == 1
            assert stage.network.attached == 1
            assert "SandboxChanged" in [reason for reason, _ in stage.events]

    play(scene)


def test_a_slow_sandbox_is_created_once_whatever_changes_meanwhile() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.start_seconds = 5.0
        worker = stage.hire()
        async with working(worker):
            for _ in range(8):
                worker.change(stage.pod)
                await asyncio.sleep(0.5)
            assert not stage.runtime.starts
            await asyncio.sleep(10)
            assert stage.runtime.starts == ["0", "a.0"]

    play(scene)


def test_a_pod_deleted_while_its_sandbox_is_created_leaves_none() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.start_seconds = 5.0
        worker = stage.hire()
        async with working(worker) as task:
            worker.change(stage.deleted(30))
            await asyncio.wait_for(task, 20)
        assert not stage.runtime._containers and not stage.runtime.starts

    play(scene)


def test_a_deadline_ends_a_pod() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            await asyncio.sleep(59)
            assert stage.status["phase"] == "Running"
            await asyncio.sleep(2)
            assert (stage.status["phase"], stage.status["reason"]) == ("Failed", "DeadlineExceeded")

    play(scene, activeDeadlineSeconds=60)


def test_the_status_of_a_completed_pod_is_updated_before_its_removal_and_stays() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker):
            stage.api.is_away = True
            stage.runtime.end("a.0", 0)
            await asyncio.sleep(120)
            assert stage.runtime._containers, "nobody has heard how it ended"
            stage.api.is_away = False
            await asyncio.sleep(30)
            assert stage.status["phase"] == "Succeeded"
            assert not stage.runtime._containers
            count = len(stage.api.statuses)
            worker.change(stage.pod)
            await asyncio.sleep(30)
            assert len(stage.api.statuses) == count

    play(scene, restartPolicy="Never")


def test_an_api_that_is_away_for_minutes_changes_nothing_for_pods_that_run() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            stage.api.is_away = True
            stage.runtime.end("a.0", 1)
            await asyncio.sleep(300)
            assert stage.runtime.starts[-1] == "a.1", "crashes are answered all the same"
            stage.api.is_away = False
            await asyncio.sleep(20)
            assert stage.status["containerStatuses"][0]["restartCount"] == 1

    play(scene)


def test_a_status_that_is_refused_does_not_keep_the_pod_for_ever() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker) as task:
            stage.api.refuses = True
            worker.change(stage.deleted(1))
            await asyncio.wait_for(task, 60)
            assert stage.api.deleted

    play(scene)


def test_one_who_comes_later_takes_up_what_runs() -> None:
    async def scene(stage: Stage) -> None:
        async with working(stage.hire()):
            pass
        before = list(stage.runtime.starts)
        async with working(stage.hire(found=True)):
            await asyncio.sleep(1)
            assert stage.runtime.starts == before
            assert stage.status["phase"] == "Running"
            stage.runtime.end("a.0", 1)
            await asyncio.sleep(1)
            assert stage.runtime.starts == [*before, "a.1"]

    play(scene)


def test_a_process_that_cannot_be_killed_is_tried_again_and_holds_up_its_own_pod_only() -> None:
    async def scene(stage: Stage) -> None:
        stage.runtime.ignores_all = True
        worker = stage.hire()
        async with working(worker) as task:
            worker.change(stage.deleted(5))
            await asyncio.sleep(600)
            kills = [signal for _, signal in stage.runtime.kills]
            assert not task.done() and not stage.api.deleted
            assert 5 < kills.count(9) < 20, "again and again, but not all the time"
            stage.runtime.end("a.0", 137)
            await asyncio.wait_for(task, 60)
            assert stage.api.deleted

    play(scene)


def test_a_pod_whose_object_vanished_ends() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker) as task:
            stage.api.is_away = True
            worker.change(None)
            await asyncio.wait_for(task, 60)
            assert not stage.runtime._containers

    play(scene)


def test_a_pod_the_node_ends_does_not_come_back() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker):
            worker.fail("Evicted", "The node was low on resource: memory. ", 0.0)
            await asyncio.sleep(60)
            assert (stage.status["phase"], stage.status["reason"]) == ("Failed", "Evicted")
            assert stage.runtime.starts == ["0", "a.0"] and not stage.runtime._containers

    play(scene)


def test_a_ready_pod_that_another_writer_marks_unready_becomes_ready_again() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker):
            count = len(stage.api.statuses)
            wrong = [{"type": "Ready", "status": "False", "lastTransitionTime": "2023-01-01T00:00:00Z"}]
            metadata = {**stage.pod["metadata"], "resourceVersion": "999"}
            worker.change(
                {**stage.pod, "metadata": metadata, "status": {**stage.status, "conditions": wrong}}
            )
            await asyncio.sleep(1)
            assert len(stage.api.statuses) == count + 1
            ready = {each["type"]: each["status"] for each in stage.status["conditions"]}
            assert ready["Ready"] == "True"

    play(scene)


def test_hollow_pods_are_ready_without_probes() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.runtime.isolation is Isolation.NONE
        stage.pod["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}}
        async with working(stage.hire()):
            assert stage.status["containerStatuses"][0]["ready"]

    play(scene)


def resized(pod: Object, cpu: str) -> Object:
    container = {**pod["spec"]["containers"][0], "resources": {"requests": {"cpu": cpu}}}
    return {**pod, "spec": {**pod["spec"], "containers": [container]}}


def test_a_resize_that_does_not_fit_is_reported_until_it_is_taken_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.pod = resized(stage.pod, "1")
        worker = stage.hire()
        async with working(worker):
            worker.change(resized(stage.pod, "9"))
            await asyncio.sleep(1)
            (pending,) = (each for each in stage.status["conditions"] if each["type"] == "PodResizePending")
            assert (pending["status"], pending["reason"]) == ("True", "Infeasible")
            assert stage.status["containerStatuses"][0]["allocatedResources"] == {"cpu": "1"}
            assert [reason for reason, _ in stage.events].count("ResizeInfeasible") == 1
            worker.change(resized(stage.pod, "2"))
            await asyncio.sleep(1)
            assert {"$patch": "delete", "type": "PodResizePending"} in stage.status["conditions"]
            assert stage.status["containerStatuses"][0]["allocatedResources"] == {"cpu": "2"}
            count = len(stage.api.statuses)
            await asyncio.sleep(60)
            assert len(stage.api.statuses) == count, "removed once"

    play(scene)


def test_a_container_that_restarts_while_a_resize_is_pending_gets_what_was_allocated() -> None:
    async def scene(stage: Stage) -> None:
        stage.pod = resized(stage.pod, "1")
        worker = stage.hire()
        async with working(worker):
            worker.change(resized(stage.pod, "9"))
            await asyncio.sleep(1)
            stage.runtime.end("a.0", 1)
            await asyncio.sleep(20)
            status = stage.status["containerStatuses"][0]
            assert status["restartCount"] == 1 and status["resources"] == {"requests": {"cpu": "1"}}

    play(scene)


LABELS_VOLUME = {
    "name": "podinfo",
    "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
}


def test_a_label_that_changes_after_the_volumes_are_mounted_is_not_taken_for_shown() -> None:
    async def scene(stage: Stage) -> None:
        worker = stage.hire()
        async with working(worker):
            changed = {**stage.pod, "metadata": {**stage.pod["metadata"], "labels": {"key": "new"}}}
            worker.change(changed)
            await asyncio.sleep(0.05)
            assert worker.volume_metadata == downward.metadata(stage.pod)
            # The sandbox is made anew, and set up again: volumes keep their contents.
            stage.runtime.end("0", 1)
            await asyncio.sleep(0.05)
            assert stage.runtime.starts.count("0") + stage.runtime.starts.count("1") == 2
            assert worker.volume_metadata == downward.metadata(stage.pod)

    play(scene, volumes=[LABELS_VOLUME])


def test_what_the_volumes_of_an_adopted_pod_show_is_unknown() -> None:
    async def scene(stage: Stage) -> None:
        stage.pod["metadata"]["labels"] = {"key": "new"}
        async with working(stage.hire()):
            pass
        worker = stage.hire(found=True)
        async with working(worker):
            assert worker.view.is_set_up
            assert worker.volume_metadata == DownwardMetadata() != downward.metadata(stage.pod)

    play(scene, volumes=[LABELS_VOLUME])
