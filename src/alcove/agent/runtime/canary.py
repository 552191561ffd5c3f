"""A canary: a small pod that is really run before a node says that it has a runtime.

It proves making, starting, streams, exit codes and removal; a runtime that cannot do all of it has none.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from alcove.agent.cgroups import CgroupLimits, Cgroups
from alcove.agent.runtime import seccomp, security
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, ContainerSpec, RuntimeFailure
from alcove.agent.runtime.config import (
    ContainerContext,
    ImageConfig,
    NamespacePaths,
    container_config,
    sandbox_config,
    shared_namespaces,
)
from alcove.agent.runtime.resources import PROCESSES_MAX
from alcove.agent.runtime.users import User
from alcove.dataplane import namespaces

WORD, EXIT_CODE = "tweet", 7
_SANDBOX = ContainerId("canary-sandbox")
_CONTAINER = ContainerId("canary")


class CanaryDied(RuntimeFailure):
    pass


class Canary:
    def __init__(self, rootfs: Path, folder: Path, group: str = "/alcove-canary") -> None:
        self._group = group
        """The control group that everything of it is in."""
        self._rootfs = rootfs
        """The built-in image's files; nothing is written to them."""
        self._folder = folder
        self._network = f"alcove-canary-{os.getpid()}"

    async def __call__(self, runtime: ContainerRuntime) -> None:
        """CanaryDied, or the runtime's own failure."""
        os.close(namespaces.make(self._network))
        try:
            await self._clean(runtime)
            await self._fly(runtime)
        finally:
            await self._clean(runtime)
            namespaces.remove(self._network)
            Cgroups.of_machine().remove(self._group)

    async def _clean(self, runtime: ContainerRuntime) -> None:
        for container in (_CONTAINER, _SANDBOX):
            await runtime.delete(container)

    async def _fly(self, runtime: ContainerRuntime) -> None:
        network = str(namespaces.path_of(self._network))
        context = self._place(runtime, _SANDBOX, NamespacePaths(network=network))
        await self._run(runtime, _SANDBOX, sandbox_config({}, context, "canary"))
        process = (await runtime.status(_SANDBOX)).process
        shared = shared_namespaces({}, runtime.isolation, network, process, None)
        container = {"command": ["sh", "-c", f"echo {WORD}; exit {EXIT_CODE}"]}
        image = ImageConfig(env=("PATH=/bin",))
        context = self._place(runtime, _CONTAINER, shared)
        log = await self._run(
            runtime, _CONTAINER, container_config({}, container, image, (), User(0, 0), (), context)
        )
        status = await runtime.wait(_CONTAINER)
        said = [line.split(" ", 3)[3:] for line in _lines(log)]
        if status.exit_code != EXIT_CODE or [WORD] not in said:
            raise CanaryDied(f"a container ended with {status.exit_code} and said {said}")

    async def _run(self, runtime: ContainerRuntime, id: ContainerId, config: dict[str, object]) -> Path:
        log = self._folder / f"{id}.log"
        await runtime.create(ContainerSpec(id, _SANDBOX, config, log))
        await runtime.start(id)
        return log

    def _place(self, runtime: ContainerRuntime, id: ContainerId, shared: NamespacePaths) -> ContainerContext:
        return ContainerContext(
            isolation=runtime.isolation,
            policy=security.TENANT,
            rootfs=str(self._rootfs),
            cgroup=f"{self._group}/{id}",
            limits=CgroupLimits(1_000, 1_024, 256 << 20, PROCESSES_MAX),
            seccomp=seccomp.load(),
            namespaces=shared,
            oom_score=int(Path("/proc/self/oom_score_adj").read_text()),
        )


def _lines(path: Path) -> Sequence[str]:
    return path.read_text().splitlines() if path.exists() else ()
