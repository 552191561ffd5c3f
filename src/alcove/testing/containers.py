"""Containers for tests: sandboxes and containers of the built-in image in any runtime, removed at the end.

async with ContainerLab(runtime, folder) as lab:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sh", "-c", "exit 3"]})
"""

import fcntl
import os
import socket
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from struct import pack
from tempfile import TemporaryDirectory

from msgspec import structs

from alcove.agent.cgroups import CgroupLimits, Cgroups
from alcove.agent.images import builtin
from alcove.agent.images.model import ToolMissing
from alcove.agent.images.snapshots import OverlaySnapshots
from alcove.agent.runtime import node_processes, seccomp, security
from alcove.agent.runtime.base import (
    ContainerId,
    ContainerRuntime,
    ContainerSpec,
    HandlerName,
    Isolation,
    RuntimeFailure,
    SpecRefused,
)
from alcove.agent.runtime.canary import Canary
from alcove.agent.runtime.config import (
    BindMount,
    ContainerContext,
    IdMapping,
    NamespacePaths,
    container_config,
    sandbox_config,
    sandbox_namespaces,
    shared_namespaces,
)
from alcove.agent.runtime.flavors import RuntimeFlavor
from alcove.agent.runtime.handlers import TRIED
from alcove.agent.runtime.oci import OciRuntime
from alcove.agent.runtime.resources import PROCESSES_MAX, NodeCapacity, container_limits_of, rlimits
from alcove.agent.runtime.users import Accounts, resolve
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.testing import needs

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_NUMBERS = count(1)
_FLAVORS: dict[str, tuple[RuntimeFlavor | None, str]] = {}


def lacking() -> str:
    """Why containers cannot run on this machine. Empty if they can."""
    try:
        builtin.find()
        seccomp.load()
    except (ToolMissing, SpecRefused) as error:
        return f"needs busybox and a seccomp profile: {error}"
    return needs.namespaces()


async def working_flavor(handler: str) -> tuple[RuntimeFlavor | None, str]:
    """The working flavor of the handler's runtime; or None, and why it is not available. Raises
    RuntimeFailure if it is installed but does not work."""
    if handler not in _FLAVORS:
        _FLAVORS[handler] = await _find(handler)
    return _FLAVORS[handler]


async def _find(handler: str) -> tuple[RuntimeFlavor | None, str]:
    reason = lacking()
    if reason:
        return None, reason
    if TRIED[HandlerName(handler)][0].find() is None:
        return None, f"{TRIED[HandlerName(handler)][0].binary} is not installed"
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "image").mkdir()
        builtin.build(builtin.find(), folder / "image")
        return await _prove(handler, folder), ""


async def _prove(handler: str, folder: Path) -> RuntimeFlavor:
    # Its own cgroup: another process may run a canary at the same time.
    canary = Canary(folder / "image", folder / "canary", f"/alcove-canary-{os.getpid()}")
    reasons: list[str] = []
    for flavor in TRIED[HandlerName(handler)]:
        try:
            await canary(OciRuntime(flavor, folder, Cgroups.of_machine()))
        except (RuntimeFailure, OSError) as error:
            reasons.append(str(error))
            continue
        return flavor
    raise RuntimeFailure(f"{handler} is installed but does not work: {'; '.join(reasons)}")


class ContainerLab:
    def __init__(
        self,
        runtime: ContainerRuntime,
        folder: Path,
        policy: security.SecurityPolicy | None = None,
        name: str = "",
    ) -> None:
        self.runtime = runtime
        self.folder = folder
        self.policy = policy or security.policy_of(False, runtime.isolation)
        self.name = name or f"alcove-test-{os.getpid()}-{next(_NUMBERS)}"
        """Name prefix of everything that is created."""
        self.cgroups = Cgroups.of_machine()
        self.snapshots = OverlaySnapshots(folder / "snapshots")
        self.rootfs = folder / "image"
        self._profile = seccomp.load()

    async def __aenter__(self) -> "ContainerLab":
        if not self.rootfs.exists():
            self.rootfs.mkdir()
            builtin.build(builtin.find(), self.rootfs)
        return self

    async def __aexit__(self, *_: object) -> None:
        statuses = await self.runtime.list()
        for status in sorted(statuses, key=lambda each: each.is_sandbox):
            await self.runtime.delete(status.id)
        for id in self.snapshots.ids():
            self.snapshots.remove(id)
        self.cgroups.kill(self.name)
        self.cgroups.remove(self.name)
        for network in namespaces.names(f"{self.name}-"):
            namespaces.remove(network)

    def container_cgroups(self) -> list[str]:
        """Names of the containers' cgroups. That of the node's processes is removed with the pod's."""
        return [each for each in self.cgroups.children(self.name) if each != node_processes.GROUP]

    def log(self, container: ContainerId) -> Path:
        return self.folder / "logs" / f"{container}.log"

    def lines(self, container: ContainerId, stream: str = "stdout") -> list[str]:
        """The container's log lines, without time and stream."""
        messages = self.log(container).read_text().splitlines() if self.log(container).exists() else []
        lines = [""]
        for _, each, tag, text in (line.split(" ", 3) for line in messages):
            if each == stream:
                lines[-1] += text
                if tag == "F":  # Otherwise the line continues in the next entry.
                    lines.append("")
        return lines[:-1]

    async def sandbox(
        self,
        pod: Object | None = None,
        mapping: IdMapping | None = None,
        memory_bytes_max: int = 0,
        processes_max: int = PROCESSES_MAX,
    ) -> ContainerId:
        """A running sandbox with its own network namespace."""
        id = ContainerId(f"{self.name}-s{next(_NUMBERS)}")
        if self.runtime.isolation is not Isolation.NONE:
            _make_network(id)
        network = str(namespaces.path_of(id))
        shared = sandbox_namespaces(pod or {}, network)
        context = self._place(id, shared, mapping, CgroupLimits(0, 256, memory_bytes_max, processes_max))
        config = sandbox_config(pod or {}, context, "pod")
        await self.runtime.create(ContainerSpec(id, id, config, self.log(id), {"pod": id}))
        await self.runtime.start(id)
        return id

    async def spec(
        self,
        sandbox: ContainerId,
        container: Object,
        pod: Object | None = None,
        mounts: Sequence[BindMount] = (),
        mapping: IdMapping | None = None,
        variables: Sequence[tuple[str, str]] = (),
        processes_max: int = PROCESSES_MAX,
    ) -> ContainerSpec:
        id = ContainerId(f"{self.name}-c{next(_NUMBERS)}")
        shared = await self._shared(sandbox, pod or {}, mapping)
        limits = structs.replace(container_limits_of(container, {}), processes=processes_max)
        context = self._place(id, shared, mapping, limits)
        user = resolve(pod or {}, container, "", self._accounts())
        config = container_config(pod or {}, container, builtin.CONFIG, variables, user, mounts, context)
        stdin = bool(container.get("stdin"))
        return ContainerSpec(
            id, sandbox, config, self.log(id), {"pod": sandbox}, stdin, bool(container.get("stdinOnce"))
        )

    def _accounts(self) -> Accounts:
        etc = self.rootfs / "etc"
        return Accounts((etc / "passwd").read_text(), (etc / "group").read_text())

    async def container(
        self,
        sandbox: ContainerId,
        container: Object,
        pod: Object | None = None,
        mounts: Sequence[BindMount] = (),
        mapping: IdMapping | None = None,
    ) -> ContainerId:
        """Creates and starts a container."""
        spec = await self.spec(sandbox, container, pod, mounts, mapping)
        await self.runtime.create(spec)
        await self.runtime.start(spec.id)
        return spec.id

    async def output(self, sandbox: ContainerId, command: str, container: Object | None = None) -> list[str]:
        """Output of a shell command in a new container (both streams), with its exit code last."""
        id = await self.container(sandbox, {**(container or {}), "command": ["sh", "-c", command]})
        status = await self.runtime.wait(id)
        return [*self.lines(id), *self.lines(id, "stderr"), str(status.exit_code)]

    async def _shared(self, sandbox: ContainerId, pod: Object, mapping: IdMapping | None) -> NamespacePaths:
        network = str(namespaces.path_of(sandbox))
        process = (await self.runtime.status(sandbox)).process
        return shared_namespaces(pod, self.runtime.isolation, network, process, mapping)

    def _place(
        self,
        id: ContainerId,
        shared: NamespacePaths,
        mapping: IdMapping | None,
        limits: CgroupLimits,
    ) -> ContainerContext:
        # A hollow runtime ignores these, and must be testable without root.
        is_hollow = self.runtime.isolation is Isolation.NONE
        rootfs = self.rootfs if is_hollow else self.snapshots.mount(id, self.rootfs, shared.user)
        return ContainerContext(
            isolation=self.runtime.isolation,
            policy=self.policy,
            rootfs=str(rootfs),
            cgroup=f"/{self.name}/{id}",
            limits=limits,
            seccomp=self._profile,
            namespaces=shared,
            mapping=mapping,
            oom_score=int(Path("/proc/self/oom_score_adj").read_text()),
            rlimits=rlimits(NodeCapacity(0, open_files_max=getrlimit(RLIMIT_NOFILE)[1])),
            capabilities=_held(),
        )


def _held() -> tuple[str, ...]:
    fields = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    return security.held(int(fields["CapBnd"], 16))


def _make_network(name: str) -> None:
    """A network namespace with only a loopback device, which is up."""
    namespace = namespaces.make(name)
    try:
        with namespaces.inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFFLAGS, pack("16sh22x", b"lo", _IFF_UP))
    finally:
        os.close(namespace)
