"""The driver for OCI runtimes: `crun`, `runc` and `runsc` behind the `Runtime` interface.

What is known of a container is in its directory, not in this process: an agent that starts anew sees the
same containers, and waits for the same ends.
"""

import asyncio
import errno
import os
import shutil
import signal as signals
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import orjson
from msgspec import structs

from alcove.agent.cgroups import Cgroups, CgroupUsage
from alcove.agent.runtime import conmon, console
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
from alcove.agent.runtime.bundle import Bundle, ContainerRecord, process_of
from alcove.agent.runtime.flavors import GO, START_LOG, RuntimeFlavor, script

CALL_SECONDS_MAX = 30.0
MONITOR_SECONDS_MAX = 5.0
PID_SECONDS_MAX = 2.0
KILL_SECONDS, KILLS_MAX = 1.0, 5
_IN_MEMORY = Path("/run")
_POLL_SECONDS = 0.01


class OciRuntime:
    """Everything of it on this machine is below `folder`, which must not survive a reboot, and `cgroup`."""

    def __init__(self, flavor: RuntimeFlavor, folder: Path, cgroups: Cgroups) -> None:
        program, monitor = flavor.find(), shutil.which(conmon.PROGRAM)
        if program is None or monitor is None:
            raise RuntimeFailure(f"{flavor.binary if program is None else conmon.PROGRAM} is not installed")
        self.flavor = flavor
        self.handler = flavor.handler
        self.isolation = flavor.isolation
        self._cgroups = cgroups
        self._monitor = monitor
        self._bundles = folder / "containers"
        self._bundles.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._script = folder / flavor.binary
        _install(self._script, script(flavor, program, folder / "state", cgroups))
        self._making: set[ContainerId] = set()
        self._fresh: set[ContainerId] = set()
        """Made by this process and not started yet: there is no need to ask."""
        self._hands_over_terminals = flavor.binary == "crun"

    async def create(self, spec: ContainerSpec) -> None:
        spec.log_path.parent.mkdir(parents=True, exist_ok=True)
        bundle = Bundle.make(self._bundles, spec)
        self._making.add(spec.id)
        try:
            await conmon.create(self._monitor, self._script, bundle, spec)
            bundle.process()
            self._fresh.add(spec.id)
        except BaseException:
            await asyncio.shield(self._delete(bundle))
            raise
        finally:
            self._making.discard(spec.id)

    async def start(self, container: ContainerId) -> None:
        bundle = self._find(container)
        if container not in self._fresh and (await self._status(bundle)).phase is not ContainerPhase.CREATED:
            return
        self._fresh.discard(container)
        if self.isolation is Isolation.SANDBOX:
            await self._start_by_stand_in(bundle)
        else:
            await self._call("start", bundle.runtime_id)
            bundle.set_started()

    async def status(self, container: ContainerId) -> ContainerStatus:
        return await self._status(self._find(container))

    async def list(self) -> Sequence[ContainerStatus]:
        found = []
        for path in sorted(self._bundles.iterdir()):
            bundle = Bundle(self._bundles, ContainerId(path.name))
            if bundle.id in self._making:
                continue
            try:
                found.append(await self._status(bundle))
            except NoSuchContainer:
                await self._delete(bundle)  # Its maker was stopped before it could write down what it makes.
        return found

    async def wait(self, container: ContainerId) -> ContainerStatus:
        bundle = self._find(container)
        while True:
            status = await self._status(bundle)
            if status.phase in (ContainerPhase.EXITED, ContainerPhase.BROKEN):
                return status
            process = bundle.process()
            await _ended(bundle.monitor() or (process.id if process is not None else 0))

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
        told = bundle.config()["process"] | {"args": [*process.args], "terminal": process.tty}
        with _scratch(bundle, msgspec.json.encode(told)) as folder:
            return await self._exec(bundle, Path(folder), process)

    async def stats(self, container: ContainerId) -> CgroupUsage:
        bundle = self._find(container)
        record = bundle.record()
        if self.isolation is not Isolation.SANDBOX or record.id == record.sandbox:
            return self._cgroups.usage(record.cgroup)
        told = orjson.loads(await self._call("events", "--stats", bundle.runtime_id))["data"]
        memory = told["memory"]["usage"].get("usage", 0)
        cpu = told["cpu"]["usage"].get("total", 0)
        return CgroupUsage(cpu, memory, memory, told["pids"].get("current", 0))

    async def reopen_log(self, container: ContainerId) -> None:
        conmon.reopen_log(self._find(container))

    def attach(self, container: ContainerId) -> socket.socket:
        """The container's streams, from now on. What is sent is its input; of each packet received the first
        byte tells the stream (2: output, 3: errors)."""
        folder = os.open(self._find(container).path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            stream.connect(f"/proc/self/fd/{folder}/attach")  # The whole path may be too long for a socket.
        except OSError as error:
            stream.close()
            raise NoSuchContainer(f"{container} is not running") from error
        finally:
            os.close(folder)
        return stream

    def resize(self, container: ContainerId, width: int, height: int) -> None:
        """Of the container's terminal, if it has one."""
        conmon.resize(self._find(container), width, height)

    def _find(self, container: ContainerId) -> Bundle:
        bundle = Bundle(self._bundles, container)
        if not bundle.path.is_dir():
            raise NoSuchContainer(container)
        return bundle

    async def _start_by_stand_in(self, bundle: Bundle) -> None:
        has_told = False
        for _ in range(int(CALL_SECONDS_MAX / _POLL_SECONDS)):
            if bundle.started_at:
                return
            if bundle.failed or not bundle.is_alive():
                raise CreateFailed(_complaint(bundle.path / START_LOG))
            # On a busy machine the one who stands in may not be there yet.
            has_told = has_told or _tell_to_start(bundle)
            await asyncio.sleep(_POLL_SECONDS)
        raise CreateFailed(f"start did not end within {CALL_SECONDS_MAX:.0f} seconds")

    async def _status(self, bundle: Bundle) -> ContainerStatus:
        record = bundle.record()
        phase = await self._phase(bundle)
        oom_killed = phase is ContainerPhase.EXITED and bundle.oom_killed
        if (
            phase is ContainerPhase.EXITED
            and not oom_killed
            and self._cgroups.oom_kills(self._limited(record))
        ):
            oom_killed = True
            with suppress(OSError):  # For later; a disk that is full must not keep it from being told now.
                bundle.set_oom_killed()
        process = bundle.process()
        is_seen = (
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
            exit_code=bundle.exit_code() or 0,
            oom_killed=oom_killed,
            process=process.id if process is not None and is_seen else 0,
        )

    def _limited(self, record: ContainerRecord) -> str:
        """The group whose memory the container uses up: in gVisor all of a sandbox is one process."""
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
            # Started or not: whoever started it may have been stopped before writing it down.
            if await self._is_running(bundle):
                bundle.set_started()
                return ContainerPhase.RUNNING
            return ContainerPhase.CREATED
        if bundle.monitor() is None and bundle.exit_code() is None:
            bundle.set_lost()
        return ContainerPhase.EXITED if bundle.exit_code() is not None else ContainerPhase.RUNNING

    async def _is_running(self, bundle: Bundle) -> bool:
        try:
            told = orjson.loads(await self._call("state", bundle.runtime_id))
        except CreateFailed:
            return False
        return bool(told.get("status") == "running")

    async def _exec(self, bundle: Bundle, folder: Path, process: ExecSession) -> int:
        pid_option = "--internal-pid-file" if self.isolation is Isolation.SANDBOX else "--pid-file"
        async with console.opened(folder, process.on_terminal, self._hands_over_terminals) as terminal:
            arguments = [
                *(*terminal.prefix, str(self._script), "exec", "--process", str(folder / "process.json")),
                *(pid_option, str(folder / "pid"), *terminal.options, bundle.runtime_id),
            ]
            if terminal.descriptor is not None:
                lower = terminal.descriptor
                process = structs.replace(process, stdin=lower, stdout=lower, stderr=lower)
            return await self._run(bundle, folder, process, arguments)

    async def _run(self, bundle: Bundle, folder: Path, process: ExecSession, arguments: Sequence[str]) -> int:
        child = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=_stream(process.stdin),
            stdout=_stream(process.stdout),
            stderr=_stream(process.stderr),
            start_new_session=process.tty and process.on_terminal is None,
        )
        try:
            return await child.wait()
        finally:
            if child.returncode is None:
                await asyncio.shield(self._end_exec(bundle, folder / "pid", child))

    async def _end_exec(self, bundle: Bundle, pid_file: Path, child: asyncio.subprocess.Process) -> None:
        """Whoever asked for the process has left: it must not go on."""
        pid = await _pid(pid_file, child)
        for _ in range(KILLS_MAX if pid else 0):
            await self._kill_process(bundle, pid)
            try:
                async with asyncio.timeout(KILL_SECONDS):
                    await child.wait()
                return
            except TimeoutError:
                continue  # The runtime did not get through to it, or is slow to say so.
        if child.returncode is None:
            child.kill()
        await child.wait()

    async def _kill_process(self, bundle: Bundle, pid: str) -> None:
        try:
            if self.isolation is Isolation.SANDBOX:
                await self._call("kill", "--pid", pid, bundle.runtime_id, str(int(signals.SIGKILL)))
            else:
                os.kill(int(pid), signals.SIGKILL)
        except (CreateFailed, ProcessLookupError):
            pass  # It ended by itself meanwhile.

    async def _delete(self, bundle: Bundle) -> None:
        """Safe to repeat, and from any point on where another was stopped."""
        self._fresh.discard(bundle.id)
        try:
            await self._call("delete", "--force", bundle.runtime_id)
        except CreateFailed:
            pass  # The runtime never knew it, or does not any more.
        self._end_stand_in(bundle)
        await self._end_monitor(bundle)
        try:
            group = bundle.record().cgroup
        except NoSuchContainer:
            group = ""
        if group:
            self._cgroups.kill(group)
            for _ in range(int(MONITOR_SECONDS_MAX / _POLL_SECONDS)):
                if self._cgroups.remove(group):
                    break
                await asyncio.sleep(_POLL_SECONDS)
        bundle.remove()

    def _end_stand_in(self, bundle: Bundle) -> None:
        process = bundle.process()
        if self.isolation is Isolation.SANDBOX and process is not None and bundle.is_alive():
            # It may end by itself between the look and the kill.
            with suppress(ProcessLookupError):
                os.kill(process.id, signals.SIGKILL)

    async def _end_monitor(self, bundle: Bundle) -> None:
        """Lets conmon write the last of the log; then it has to go."""
        monitor = bundle.monitor()
        if monitor is None:
            return
        try:
            async with asyncio.timeout(MONITOR_SECONDS_MAX):
                await _ended(monitor)
        except TimeoutError:
            if bundle.monitor() == monitor:
                with suppress(ProcessLookupError):
                    os.kill(monitor, signals.SIGKILL)

    async def _call(self, *arguments: str) -> bytes:
        """What the runtime says. CreateFailed carries its complaint."""
        child = await asyncio.create_subprocess_exec(
            str(self._script), *arguments, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                output, complaint = await child.communicate()
        except TimeoutError:
            raise CreateFailed(f"{arguments[0]} did not end within {CALL_SECONDS_MAX:.0f} seconds") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if child.returncode:
            raise CreateFailed(complaint.decode(errors="replace").strip() or f"{arguments[0]} failed")
        return output


def _tell_to_start(bundle: Bundle) -> bool:
    """Whether anybody was there to be told."""
    try:
        pipe = os.open(bundle.path / GO, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        raise CreateFailed(f"nobody is there to start {bundle.id}: {error}") from error
    try:
        os.write(pipe, b"\n")
    finally:
        os.close(pipe)
    return True


def _install(path: Path, text: str) -> None:
    """As a new file: shells may be reading the old one."""
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.chmod(0o700)
    draft.rename(path)


def _complaint(log: Path) -> str:
    """The last thing a runtime wrote into its log of lines of JSON."""
    lines = _content(log).splitlines() or ["{}"]
    try:
        return str(orjson.loads(lines[-1]).get("msg") or "start failed")
    except orjson.JSONDecodeError:
        return lines[-1]


def _content(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def _pid(pid_file: Path, child: asyncio.subprocess.Process) -> str:
    """The id of a process that was started, perhaps this very moment: it may run before its id is written."""
    for _ in range(int(PID_SECONDS_MAX / _POLL_SECONDS)):
        if (pid := _content(pid_file)) or child.returncode is not None:
            return pid
        await asyncio.sleep(_POLL_SECONDS)
    return _content(pid_file)


def _scratch(bundle: Bundle, process: bytes) -> tempfile.TemporaryDirectory[str]:
    """A folder with what is to be run. In memory, if the disk is full: that is no reason for a probe to fail."""
    try:
        return _filled(bundle.path, process)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return _filled(_IN_MEMORY, process)


def _filled(place: Path, process: bytes) -> tempfile.TemporaryDirectory[str]:
    made = tempfile.TemporaryDirectory(dir=place, prefix="alcove-exec-")
    try:
        (Path(made.name) / "process.json").write_bytes(process)
    except BaseException:
        made.cleanup()
        raise
    return made


def _stream(descriptor: int | None) -> int:
    return asyncio.subprocess.DEVNULL if descriptor is None else descriptor


async def _ended(pid: int) -> None:
    """Returns when the process, anybody's child, has ended; at once if there is none."""
    if process_of(pid) is None:
        await asyncio.sleep(0)
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
