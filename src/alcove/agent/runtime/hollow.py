"""The hollow runtime: container states without processes, for machines without the privileges to run
containers, and for tests with more nodes than a machine can hold.

Containers run until they or their sandbox are killed, except those whose configuration says that they exit
immediately (`ENDS`). All state is in memory, and lost when the agent stops.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from alcove.agent.cgroups import CgroupLimits, CgroupUsage
from alcove.agent.runtime.base import (
    ContainerExists,
    ContainerId,
    ContainerPhase,
    ContainerSpec,
    ContainerStatus,
    CreateFailed,
    ExecSession,
    HandlerName,
    Isolation,
    NoSuchContainer,
    RuntimeFailure,
)

HANDLER = HandlerName("hollow")
ENDS = "ends"
"""Key in the configuration: whether the container exits as soon as it is started."""
_SIGNALLED = 128


class _Hollow(Struct):
    status: ContainerStatus
    ends: bool
    ended: asyncio.Event


class HollowRuntime:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.handler = HANDLER
        self.isolation = Isolation.NONE
        self._clock = clock
        self._containers: dict[ContainerId, _Hollow] = {}

    async def create(self, spec: ContainerSpec) -> None:
        if spec.id in self._containers:
            raise ContainerExists(spec.id)
        if not spec.is_sandbox and spec.sandbox not in self._containers:
            raise CreateFailed(f"sandbox {spec.sandbox} not found")
        status = ContainerStatus(
            spec.id, spec.sandbox, ContainerPhase.CREATED, dict(spec.labels), self._clock()
        )
        self._containers[spec.id] = _Hollow(status, bool(spec.config.get(ENDS)), asyncio.Event())

    async def start(self, container: ContainerId) -> None:
        container_state = self._find(container)
        if container_state.status.phase is ContainerPhase.CREATED:
            container_state.status = structs.replace(
                container_state.status, phase=ContainerPhase.RUNNING, started_at=self._clock()
            )
            if container_state.ends:
                self._end(container_state, 0)

    async def status(self, container: ContainerId) -> ContainerStatus:
        return self._find(container).status

    async def list(self) -> Sequence[ContainerStatus]:
        return [container_state.status for container_state in self._containers.values()]

    async def wait(self, container: ContainerId) -> ContainerStatus:
        container_state = self._find(container)
        await container_state.ended.wait()
        return container_state.status

    async def kill(self, container: ContainerId, signal: int) -> None:
        container_state = self._find(container)
        for each in (
            list(self._containers.values()) if container_state.status.is_sandbox else [container_state]
        ):
            if (
                each.status.sandbox == container_state.status.sandbox
                and each.status.phase is ContainerPhase.RUNNING
            ):
                self._end(each, _SIGNALLED + signal)

    async def delete(self, container: ContainerId) -> None:
        container_state = self._containers.pop(container, None)
        if container_state is not None:
            self._end(container_state, _SIGNALLED + 9)

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        self._find(container)
        raise RuntimeFailure(f"{container} is hollow: cannot run {process.args[0]}")

    async def stats(self, container: ContainerId) -> CgroupUsage:
        self._find(container)
        return CgroupUsage()

    async def show_limits(self, container: ContainerId, limits: CgroupLimits) -> None:
        return

    async def reopen_log(self, container: ContainerId) -> None:
        self._find(container)

    def _find(self, container: ContainerId) -> _Hollow:
        container_state = self._containers.get(container)
        if container_state is None:
            raise NoSuchContainer(container)
        return container_state

    def _end(self, container_state: _Hollow, code: int) -> None:
        if container_state.status.phase is not ContainerPhase.EXITED:
            ended = structs.replace(
                container_state.status, phase=ContainerPhase.EXITED, exit_code=code, finished_at=self._clock()
            )
            container_state.status = ended
        container_state.ended.set()
