"""The driver for OCI runtimes: `crun`, `runc` and `runsc` behind the `ContainerRuntime` interface.

A container's state is in its directory, not in this process: a restarted agent continues with all containers.
"""

import asyncio
import logging
import os
import shutil
import signal as signals
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from alcove.agent.cgroups import CgroupLimits, Cgroups, CgroupUsage
from alcove.agent.runtime import conmon, node_processes, proxy_start
from alcove.agent.runtime.base import (
    ContainerId,
    ContainerPhase,
    ContainerSpec,
    ContainerStatus,
    CreateFailed,
    ExecSession,
    Isolation,
    NoSuchContainer,
    RuntimeFailure,
)
from alcove.agent.runtime.bundle import Bundle, ContainerRecord, process_exited
from alcove.agent.runtime.child_process import CapturedOutput, ChildProcess
from alcove.agent.runtime.exec_process import ExecProcesses, remove_leftovers
from alcove.agent.runtime.flavors import CRUN, WAIT_CGROUPS_VARIABLE, RuntimeFlavor, plain_command, script
from alcove.agent.runtime.resources import QOS, oci_resources, visible_resources
from alcove.agent.runtime.seccomp_filters import SeccompFilters

log = logging.getLogger(__name__)

CALL_SECONDS_MAX = 30.0
MONITOR_SECONDS_MAX = 30.0
"""For conmon to write the rest of a log and exit; long, as others may keep the machine busy. Then it is killed."""


class OciRuntime:
    """All its files are below `directory`, which must not survive a reboot."""

    def __init__(self, flavor: RuntimeFlavor, directory: Path, cgroups: Cgroups) -> None:
        program, monitor = flavor.find(), shutil.which(conmon.PROGRAM)
        if program is None or monitor is None:
            raise RuntimeFailure(f"{flavor.binary if program is None else conmon.PROGRAM} is not installed")
        self.flavor = flavor
        self.handler = flavor.handler
        self.isolation = flavor.isolation
        self._cgroups = cgroups
        self._program = program
        self._monitor = monitor
        self._bundles = directory / "containers"
        self._bundles.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._script = directory / flavor.binary
        self._state = directory / "state"
        _install(self._script, script(flavor, program, self._state, cgroups))
        self._filters = SeccompFilters()
        self._creating: set[ContainerId] = set()
        self._unstarted: set[ContainerId] = set()
        """Created by this process and not started yet, so their status need not be read."""
        self._exec_processes = ExecProcesses(flavor, self._script, cgroups, self._call)
        remove_leftovers()

    async def create(self, spec: ContainerSpec) -> None:
        spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        bundle = Bundle.make(self._bundles, self._with_filter(spec))
        self._creating.add(spec.id)
        try:
            variables = {WAIT_CGROUPS_VARIABLE: node_processes.joined(self._node_processes(bundle))}
            await conmon.create(self._monitor, self._script, bundle, spec, variables)
            bundle.process()
            if self.flavor.binary == CRUN.binary:
                self._filters.learn(spec.config, self._state / bundle.runtime_id)
            self._unstarted.add(spec.id)
        except BaseException:
            await asyncio.shield(self._delete(bundle))
            raise
        finally:
            self._creating.discard(spec.id)

    def _with_filter(self, spec: ContainerSpec) -> ContainerSpec:
        return self._filters.with_filter(spec) if self.flavor.binary == CRUN.binary else spec

    async def start(self, container: ContainerId) -> None:
        bundle = self._find(container)
        if (
            container not in self._unstarted
            and (await self._status(bundle)).phase is not ContainerPhase.CREATED
        ):
            return
        self._unstarted.discard(container)
        if self.isolation is Isolation.SANDBOX:
            try:
                async with asyncio.timeout(CALL_SECONDS_MAX):
                    await proxy_start.start(bundle)
            except TimeoutError:
                raise CreateFailed(f"start timed out after {CALL_SECONDS_MAX:.0f} seconds") from None
            record, config = bundle.record(), bundle.config()
            # Of a best-effort pod there is nothing to show.
            if record.id != record.sandbox and config["annotations"].get(QOS) != "BestEffort":
                await self._show(bundle, visible_resources(config["linux"]["resources"]))
        else:
            await self._call("start", bundle.runtime_id)
            bundle.set_started()

    async def show_limits(self, container: ContainerId, limits: CgroupLimits) -> None:
        if self.isolation is Isolation.SANDBOX:
            await self._show(self._find(container), visible_resources(oci_resources(limits)))

    async def _show(self, bundle: Bundle, controls: Mapping[str, int]) -> None:
        """Writes to the control groups of gVisor's own kernel, which limit nothing: the sandbox's on the host does."""
        group = f"/{bundle.runtime_id}"
        calls = [
            self._call("write-control", bundle.runtime_id, name.partition(".")[0], group, name, str(value))
            for name, value in controls.items()
        ]
        for failure in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(failure, CreateFailed):
                # The container has exited, or this version of gVisor has no such control.
                log.debug("failed to show limits", extra={"container": bundle.id, "error": str(failure)})
            elif isinstance(failure, BaseException):
                raise failure

    async def status(self, container: ContainerId) -> ContainerStatus:
        return await self._status(self._find(container))

    async def list(self) -> Sequence[ContainerStatus]:
        statuses = []
        for path in sorted(self._bundles.iterdir()):
            bundle = Bundle(self._bundles, ContainerId(path.name))
            if bundle.id in self._creating:
                continue
            try:
                statuses.append(await self._status(bundle))
            except NoSuchContainer:
                await self._delete(bundle)  # The agent was stopped before it wrote the record.
        return statuses

    async def wait(self, container: ContainerId) -> ContainerStatus:
        bundle = self._find(container)
        # Here, as it takes some milliseconds, for which no start should wait.
        await asyncio.to_thread(self._charge_monitor, bundle)
        while True:
            status = await self._status(bundle)
            if status.phase in (ContainerPhase.EXITED, ContainerPhase.BROKEN):
                return status
            process = bundle.process()
            await process_exited(bundle.monitor() or (process.id if process is not None else 0))

    async def kill(self, container: ContainerId, signal: int) -> None:
        bundle = self._find(container)
        if (await self._status(bundle)).phase is not ContainerPhase.RUNNING:
            return
        try:
            await self._call("kill", bundle.runtime_id, str(signal))
        except CreateFailed:
            if await self._is_running(bundle):
                raise

    async def delete(self, container: ContainerId) -> None:
        bundle = Bundle(self._bundles, container)
        if bundle.path.exists():
            await self._delete(bundle)

    async def exec(self, container: ContainerId, process: ExecSession) -> int:
        bundle = self._find(container)
        if (await self._status(bundle)).phase is not ContainerPhase.RUNNING:
            raise NoSuchContainer(f"{container} is not running")
        return await self._exec_processes.run(bundle, process)

    async def stats(self, container: ContainerId) -> CgroupUsage:
        bundle = self._find(container)
        record = bundle.record()
        if self.isolation is not Isolation.SANDBOX or record.id == record.sandbox:
            return self._cgroups.usage(record.cgroup)
        stats = orjson.loads(await self._call("events", "--stats", bundle.runtime_id))["data"]
        memory = stats["memory"]["usage"].get("usage", 0)
        cpu = stats["cpu"]["usage"].get("total", 0)
        return CgroupUsage(cpu, memory, memory, stats["pids"].get("current", 0))

    async def reopen_log(self, container: ContainerId) -> None:
        conmon.reopen_log(self._find(container))

    def attach(self, container: ContainerId) -> socket.socket:
        """A socket to the container's streams, from now on. What is sent is its stdin; the first byte of each
        received packet is the stream (2 for stdout, 3 for stderr)."""
        directory = os.open(self._find(container).path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            stream.connect(f"/proc/self/fd/{directory}/attach")  # The path may be too long for a socket.
        except OSError as error:
            stream.close()
            raise NoSuchContainer(f"{container} is not running") from error
        finally:
            os.close(directory)
        return stream

    def resize(self, container: ContainerId, width: int, height: int) -> None:
        """Resizes the container's terminal, if it has one."""
        conmon.resize(self._find(container), width, height)

    def _find(self, container: ContainerId) -> Bundle:
        bundle = Bundle(self._bundles, container)
        if not bundle.path.is_dir():
            raise NoSuchContainer(container)
        return bundle

    def _node_processes(self, bundle: Bundle) -> Sequence[Path]:
        """Files by which processes enter the pod's cgroup for them; none if the pod has no cgroup."""
        try:
            return node_processes.entries(self._cgroups, bundle.record().cgroup)
        except (FileNotFoundError, NoSuchContainer):
            return []

    def _charge_monitor(self, bundle: Bundle) -> None:
        """Moves conmon into a cgroup of the pod, so that the pod pays for it."""
        monitor = bundle.monitor()
        for path in self._node_processes(bundle) if monitor is not None else ():
            with suppress(
                ProcessLookupError, FileNotFoundError
            ):  # It has exited, or the pod is being removed.
                path.write_text(str(monitor))

    async def _status(self, bundle: Bundle) -> ContainerStatus:
        record = bundle.record()
        phase = await self._phase(bundle)
        oom_killed = phase is ContainerPhase.EXITED and bundle.oom_killed
        if (
            phase is ContainerPhase.EXITED
            and not oom_killed
            and self._cgroups.oom_kills(self._memory_cgroup(record))
        ):
            oom_killed = True
            with suppress(OSError):  # For later calls; a full disk must not fail this one.
                bundle.set_oom_killed()
        # Of a pod without memory, the kernel may kill conmon too. It kills by SIGKILL.
        exit_code = 128 + signals.SIGKILL if oom_killed and bundle.is_lost else bundle.exit_code() or 0
        process = bundle.process()
        is_on_host = (
            phase in (ContainerPhase.CREATED, ContainerPhase.RUNNING)
            and self.isolation is not Isolation.SANDBOX
        )
        return ContainerStatus(
            id=record.id,
            sandbox=record.sandbox,
            phase=phase,
            labels=record.labels,
            created_at=record.created_at,
            started_at=bundle.started_at,
            finished_at=bundle.finished_at,
            exit_code=exit_code,
            oom_killed=oom_killed,
            process=process.id if process is not None and is_on_host else 0,
        )

    def _memory_cgroup(self, record: ContainerRecord) -> str:
        """The cgroup whose memory limit applies: in gVisor a whole sandbox is in one cgroup."""
        if self.isolation is not Isolation.SANDBOX:
            return record.cgroup
        try:
            return self._find(record.sandbox).record().cgroup
        except NoSuchContainer:
            return record.cgroup

    async def _phase(self, bundle: Bundle) -> ContainerPhase:
        if bundle.exit_code() is not None:
            return ContainerPhase.EXITED
        if bundle.process() is None:
            return ContainerPhase.BROKEN
        if bundle.is_alive():
            if bundle.started_at:
                return ContainerPhase.RUNNING
            # Ask the runtime: an agent may have been stopped between starting it and recording that.
            if await self._is_running(bundle):
                bundle.set_started()
                return ContainerPhase.RUNNING
            return ContainerPhase.CREATED
        if bundle.monitor() is None and bundle.exit_code() is None:
            bundle.set_lost()
        return ContainerPhase.EXITED if bundle.exit_code() is not None else ContainerPhase.RUNNING

    async def _is_running(self, bundle: Bundle) -> bool:
        try:
            state = orjson.loads(await self._call("state", bundle.runtime_id))
        except CreateFailed:
            return False
        return bool(state.get("status") == "running")

    async def _delete(self, bundle: Bundle) -> None:
        """Safe to repeat, also after an agent was stopped at any point of it."""
        self._unstarted.discard(bundle.id)
        await conmon.kill_creation(bundle)
        is_deleted = await self._delete_state(bundle)
        self._kill_proxy(bundle)
        try:
            group = bundle.record().cgroup
        except NoSuchContainer:
            group = ""
        if group:
            # Now: conmon does not exit as long as a process has the container's output open.
            self._cgroups.kill(group)
        await self._stop_monitor(bundle)
        if group:
            await self._cgroups.remove_killed(group)
        if not is_deleted:
            # It may have waited for a process that is killed now.
            await self._delete_state(bundle)
        bundle.remove()

    async def _delete_state(self, bundle: Bundle) -> bool:
        """Whether the runtime has deleted the container; False also if it does not have it."""
        try:
            await self._call("delete", "--force", bundle.runtime_id)
        except CreateFailed:
            return False
        return True

    def _kill_proxy(self, bundle: Bundle) -> None:
        process = bundle.process()
        if self.isolation is Isolation.SANDBOX and process is not None and bundle.is_alive():
            # It may exit between the check and the kill.
            with suppress(ProcessLookupError):
                os.kill(process.id, signals.SIGKILL)

    async def _stop_monitor(self, bundle: Bundle) -> None:
        """Waits until conmon has written the log and exited; kills it after MONITOR_SECONDS_MAX."""
        monitor = bundle.monitor()
        if monitor is None:
            return
        try:
            async with asyncio.timeout(MONITOR_SECONDS_MAX):
                await process_exited(monitor)
        except TimeoutError:
            if bundle.monitor() == monitor:
                with suppress(ProcessLookupError):
                    os.kill(monitor, signals.SIGKILL)

    async def _call(self, *arguments: str) -> bytes:
        """The runtime's output. Raises CreateFailed with its error message."""
        command = plain_command(self.flavor, self._program, self._state, arguments[0]) or [str(self._script)]
        with CapturedOutput() as output, CapturedOutput() as errors:
            child = ChildProcess([*command, *arguments], stdout=output.descriptor, stderr=errors.descriptor)
            try:
                async with asyncio.timeout(CALL_SECONDS_MAX):
                    code = await child.wait()
            except TimeoutError:
                raise CreateFailed(f"{arguments[0]} timed out after {CALL_SECONDS_MAX:.0f} seconds") from None
            finally:
                if child.returncode is None:
                    child.kill()
                    await child.wait()
            if code:
                message = errors.read().decode(errors="replace").strip()
                raise CreateFailed(message or f"{arguments[0]} failed")
            return output.read()


def _install(path: Path, text: str) -> None:
    """Replaces the file instead of overwriting it: shells may be reading the old one."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(0o700)
    draft.rename(path)
