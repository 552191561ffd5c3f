"""The hollow runtime: states of containers without any processes, for machines without the rights to run them,
and for tests with more nodes than a machine can hold.

Containers run until they are killed or their sandbox is, but for those whose configuration says that they
end at once (`ENDS`). Everything is forgotten when the agent stops: there is nothing to find again.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from alcove.agent.cgroups import CgroupUsage
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
            raise CreateFailed(f"there is no sandbox {spec.sandbox}")
        status = ContainerStatus(
            spec.id, spec.sandbox, ContainerPhase.CREATED, dict(spec.labels), self._clock()
        )
        self._containers[spec.id] = _Hollow(status, bool(spec.config.get(ENDS)), asyncio.Event())

    async def start(self, container: ContainerId) -> None:
        found = self._find(container)
        if found.status.phase is ContainerPhase.CREATED:
            found.status = structs.replace(
                found.status, phase=ContainerPhase.RUNNING, started_at=self._clock()
            )
            if found.ends:
                self._end(found, 0)

    async def status(self, container: ContainerId) -> ContainerStatus:
        return self._find(container).status

    async def list(self) -> Sequence[ContainerStatus]:
        return [found.status for found in self._containers.values()]

    async def wait(self, container: ContainerId) -> ContainerStatus:
        found = self._find(container)
        await found.ended.wait()
        return found.status

    async def kill(self, container: ContainerId, signal: int) -> None:
        found = self._find(container)
        for each in list(self._containers.values()) if found.status.is_sandbox else [found]:
            if each.status.sandbox == found.status.sandbox and each.status.phase is ContainerPhase.RUNNING:
                self._end(each, _SIGNALLED + signal)

    async def delete(self, container: ContainerId) -> None:
        found = self._containers.pop(container, None)
        if found is not None:
            self._end(found, _SIGNALLED + 9)

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        self._find(container)
        raise RuntimeFailure(f"{container} is hollow: there is nothing to run {process.args[0]} in")

    async def stats(self, container: ContainerId) -> CgroupUsage:
        self._find(container)
        return CgroupUsage()

    async def reopen_log(self, container: ContainerId) -> None:
        self._find(container)

    def _find(self, container: ContainerId) -> _Hollow:
        found = self._containers.get(container)
        if found is None:
            raise NoSuchContainer(container)
        return found

    def _end(self, found: _Hollow, code: int) -> None:
        if found.status.phase is not ContainerPhase.EXITED:
            ended = structs.replace(
                found.status, phase=ContainerPhase.EXITED, exit_code=code, finished_at=self._clock()
            )
            found.status = ended
        found.ended.set()
