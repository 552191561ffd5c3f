"""The canary: a small pod that is run before the node offers a runtime handler.

It proves that the runtime can create and start containers, connect their streams, report exit codes and
remove them.
"""

import os
import secrets
import shutil
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

OUTPUT, EXIT_CODE = "tweet", 7


class CanaryFailed(RuntimeFailure):
    pass


class Canary:
    def __init__(self, rootfs: Path, directory: Path, group: str = "/alcove-canary") -> None:
        self._group = group
        """The cgroup of the canary's containers."""
        self._rootfs = rootfs
        """The root file system of the built-in image; nothing is written to it."""
        self._directory = directory
        """For the logs of its containers; removed after each run."""
        self._network = f"alcove-canary-{os.getpid()}"

    async def __call__(self, runtime: ContainerRuntime) -> None:
        """Raises CanaryFailed, or another RuntimeFailure of the runtime."""
        os.close(namespaces.make(self._network))
        try:
            await self._clean(runtime)
            await self._run_pod(runtime)
        finally:
            await self._clean(runtime)
            shutil.rmtree(self._directory, ignore_errors=True)
            namespaces.remove(self._network)
            Cgroups.of_machine().remove(self._group)

    async def _clean(self, runtime: ContainerRuntime) -> None:
        """Deletes the containers of this and of earlier canaries."""
        for status in sorted(await runtime.list(), key=lambda each: each.is_sandbox):
            await runtime.delete(status.id)

    async def _run_pod(self, runtime: ContainerRuntime) -> None:
        # Not the ids of an earlier canary: a runtime that did not delete it in time may still have them.
        token = secrets.token_hex(3)
        sandbox, id = ContainerId(f"canary-{token}-sandbox"), ContainerId(f"canary-{token}")
        network = str(namespaces.path_of(self._network))
        context = self._context(runtime, sandbox, NamespacePaths(network=network))
        await self._run(runtime, sandbox, sandbox, sandbox_config({}, context, "canary"))
        process = (await runtime.status(sandbox)).process
        shared = shared_namespaces({}, runtime.isolation, network, process, None)
        container = {"command": ["sh", "-c", f"echo {OUTPUT}; exit {EXIT_CODE}"]}
        image = ImageConfig(env=("PATH=/bin",))
        context = self._context(runtime, id, shared)
        config = container_config({}, container, image, (), User(0, 0), (), context)
        log = await self._run(runtime, id, sandbox, config)
        status = await runtime.wait(id)
        output = [line.split(" ", 3)[3:] for line in _lines(log)]
        if status.exit_code != EXIT_CODE or [OUTPUT] not in output:
            raise CanaryFailed(f"canary container exited with code {status.exit_code} and output {output}")

    async def _run(
        self, runtime: ContainerRuntime, id: ContainerId, sandbox: ContainerId, config: dict[str, object]
    ) -> Path:
        log = self._directory / f"{id}.log"
        await runtime.create(ContainerSpec(id, sandbox, config, log))
        await runtime.start(id)
        return log

    def _context(
        self, runtime: ContainerRuntime, id: ContainerId, shared: NamespacePaths
    ) -> ContainerContext:
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
