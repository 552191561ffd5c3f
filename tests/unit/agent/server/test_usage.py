from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct

from alcove.agent.cgroups import CgroupUsage as Used
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import (
    ContainerId,
    ContainerPhase,
    ContainerRuntime,
    ContainerStatus,
    Isolation,
    NoSuchContainer,
)
from alcove.agent.server.running_containers import ContainerHandle, RunningContainers
from alcove.agent.server.usage import UsageMeter, machine
from alcove.api.ids import TenantId
from alcove.api.node_api import PodUsage
from alcove.client.keys import HOME, PlaneId

SECOND = 1_000_000_000


class Spending:
    """Containers that use CPU evenly, each so many cores, since the beginning of time."""

    def __init__(self, cores: Mapping[str, float]) -> None:
        self.cores = dict(cores)
        self.now = 1_000.0
        self.looks = 0
        self.isolation = Isolation.NAMESPACES

    async def status(self, container: ContainerId) -> ContainerStatus:
        if container not in self.cores:
            raise NoSuchContainer(container)
        return ContainerStatus(container, ContainerId("box"), ContainerPhase.RUNNING, {}, 0.0)

    async def stats(self, container: ContainerId) -> Used:
        if container not in self.cores:
            raise NoSuchContainer(container)
        self.looks += 1
        return Used(int(self.now * self.cores[container] * SECOND), 5_000, 4_096, 1)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def clock(self) -> float:
        return self.now

    def node(self) -> Used:
        return Used(int(self.now * SECOND * 2), 10_000, 9_000)


class Pod(Struct):
    key: PodKey
    runtime: ContainerRuntime
    containers: dict[str, ContainerHandle]


class Pods:
    def __init__(self) -> None:
        self.pods: list[Pod] = []

    def all(self) -> list[Pod]:
        return self.pods

    def find(self, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> Pod | None:
        names = (plane, tenant, namespace, name)
        found = (each.key for each in self.pods)
        keys = {(key.plane, key.tenant, key.namespace, key.name): key for key in found}
        return next((each for each in self.pods if each.key == keys.get(names)), None)


def pod(spending: Spending, name: str, plane: PlaneId = HOME) -> Pod:
    key = PodKey(plane, TenantId("acme"), "default", name, f"uid-{name}")
    handle = ContainerHandle(ContainerId(name), Path("/nonexistent"))
    return Pod(key, cast(ContainerRuntime, spending), {"main": handle})


def metered(spending: Spending, *pods: Pod) -> tuple[UsageMeter, Pods]:
    running = Pods()
    running.pods = list(pods)
    return UsageMeter(
        cast(RunningContainers, running), spending.node, spending.clock, spending.sleep
    ), running


async def test_cpu_is_a_rate_from_the_first_time_on() -> None:
    spending = Spending({"busy": 0.5, "lazy": 0.0})
    meter, _ = metered(spending, pod(spending, "busy"), pod(spending, "lazy"))
    summary = await meter.summary(HOME)
    cores = {each.name: each.containers[0].usage.cpu_nanocores for each in summary.pods}
    assert cores == {"busy": SECOND // 2, "lazy": 0}
    assert summary.pods[0].containers[0].usage.memory_bytes == 4_096
    assert summary.window_seconds == 1.0
    assert summary.node is not None and summary.node.cpu_nanocores == 2 * SECOND


async def test_the_next_time_measures_since_the_last() -> None:
    spending = Spending({"busy": 0.5})
    meter, _ = metered(spending, pod(spending, "busy"))
    await meter.summary(HOME)
    spending.now += 15
    before = spending.looks
    summary = await meter.summary(HOME)
    assert summary.window_seconds == 15.0
    assert spending.looks == before + 1
    await meter.summary(HOME)
    assert spending.looks == before + 1, "a second request at once gets the same figures"
    spending.now += 1_000
    assert (await meter.summary(HOME)).window_seconds == 1.0


async def test_a_new_container_is_measured_and_a_removed_one_is_not() -> None:
    spending = Spending({"old": 1.0, "new": 0.25})
    meter, running = metered(spending, pod(spending, "old"), pod(spending, "gone"))
    assert [each.name for each in (await meter.summary(HOME)).pods] == ["old"]
    spending.now += 15
    running.pods.append(pod(spending, "new"))
    summary = await meter.summary(HOME)
    assert {each.name: each.containers[0].usage.cpu_nanocores for each in summary.pods} == {
        "old": SECOND,
        "new": SECOND // 4,
    }


async def test_one_alone_in_a_sandbox_uses_what_the_sandbox_uses() -> None:
    spending = Spending({"box": 0.75, "only": 0.5, "other": 0.25})
    spending.isolation = Isolation.SANDBOX
    alone, pair = pod(spending, "only"), pod(spending, "only")
    alone.containers["ended"] = ContainerHandle(ContainerId("ended"), Path("/nonexistent"))
    summary = await metered(spending, alone)[0].summary(HOME)
    assert _cores(summary.pods[0]) == {"main": 3 * SECOND // 4}
    pair.containers["side"] = ContainerHandle(ContainerId("other"), Path("/nonexistent"))
    summary = await metered(spending, pair)[0].summary(HOME)
    assert _cores(summary.pods[0]) == {"main": SECOND // 2, "side": SECOND // 4}


def _cores(usage: PodUsage) -> dict[str, int]:
    return {each.name: each.usage.cpu_nanocores for each in usage.containers}


async def test_a_plane_sees_the_usage_of_its_own_pods_and_not_of_the_node() -> None:
    spending = Spending({"home": 1.0, "other": 1.0})
    other = PlaneId("acme")
    meter, _ = metered(spending, pod(spending, "home"), pod(spending, "other", other))
    summary = await meter.summary(other)
    assert [each.name for each in summary.pods] == ["other"]
    assert summary.node is None


def test_this_machine_uses_something() -> None:
    used = machine()
    assert used.cpu_nanoseconds > 0
    assert used.working_set_bytes > 1 << 20
