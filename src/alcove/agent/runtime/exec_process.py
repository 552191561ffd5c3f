"""Processes that are started in a running container: exec probes, lifecycle hooks, `kubectl exec`.

For each one a command of the runtime runs on the node as long as the process. It is in a cgroup of the pod, so
that the pod pays for it, as it does for the process itself.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime import console, node_processes
from alcove.agent.runtime.base import CreateFailed, ExecSession, Isolation, NoSuchContainer
from alcove.agent.runtime.bundle import Bundle
from alcove.agent.runtime.child_process import DEVNULL, ChildProcess
from alcove.agent.runtime.flavors import CGROUPS_VARIABLE, RuntimeFlavor

PID_SECONDS_MAX = 2.0
KILL_SECONDS, KILLS_MAX = 1.0, 5
_IN_MEMORY, _PREFIX = Path("/run"), "alcove-exec-"
_POLL_SECONDS = 0.01


class ExecProcesses(Struct, frozen=True):
    flavor: RuntimeFlavor
    script: Path
    cgroups: Cgroups
    call: Callable[..., Awaitable[bytes]]
    """Calls the runtime. Raises CreateFailed."""

    async def run(self, bundle: Bundle, process: ExecSession) -> int:
        """The exit code. If cancelled, the process is killed. Raises NoSuchContainer."""
        process_spec = bundle.config()["process"] | {"args": [*process.args], "terminal": process.tty}
        with _exec_directory(msgspec.json.encode(process_spec)) as directory:
            return await self._run(bundle, Path(directory), process)

    async def _run(self, bundle: Bundle, directory: Path, process: ExecSession) -> int:
        pid_option = "--internal-pid-file" if self._is_sandbox else "--pid-file"
        uses_socket = self.flavor.binary == "crun"
        async with console.opened(directory, process.on_terminal, uses_socket) as terminal:
            arguments = [
                *(*terminal.prefix, str(self.script), "exec", "--process", str(directory / "process.json")),
                *(pid_option, str(directory / "pid"), *terminal.options, bundle.runtime_id),
            ]
            if terminal.descriptor is not None:
                slave = terminal.descriptor
                process = structs.replace(process, stdin=slave, stdout=slave, stderr=slave)
            return await self._wait(bundle, directory, process, arguments)

    async def _wait(self, bundle: Bundle, directory: Path, process: ExecSession, argv: Sequence[str]) -> int:
        child = ChildProcess(
            argv,
            stdin=_stream(process.stdin),
            stdout=_stream(process.stdout),
            stderr=_stream(process.stderr),
            start_new_session=process.tty and process.on_terminal is None,
            env={**os.environ, CGROUPS_VARIABLE: self._cgroup(bundle)},
        )
        try:
            return await child.wait()
        finally:
            if child.returncode is None:
                await asyncio.shield(self._kill(bundle, directory / "pid", child))

    @property
    def _is_sandbox(self) -> bool:
        return self.flavor.isolation is Isolation.SANDBOX

    def _cgroup(self, bundle: Bundle) -> str:
        """Files by which the runtime's command enters its cgroup."""
        try:
            return node_processes.joined(node_processes.entries(self.cgroups, bundle.record().cgroup))
        except FileNotFoundError:
            raise NoSuchContainer(f"{bundle.id} is being removed") from None

    async def _kill(self, bundle: Bundle, pid_file: Path, child: ChildProcess) -> None:
        """Kills the process: its client has disconnected."""
        pid = await _pid(pid_file, child)
        for _ in range(KILLS_MAX if pid else 0):
            await self._kill_process(bundle, pid)
            try:
                async with asyncio.timeout(KILL_SECONDS):
                    await child.wait()
                return
            except TimeoutError:
                continue  # The signal did not reach the process, or the runtime is slow to exit.
        if child.returncode is None:
            child.kill()
        await child.wait()

    async def _kill_process(self, bundle: Bundle, pid: str) -> None:
        with suppress(CreateFailed, ProcessLookupError):  # The process exited meanwhile.
            if self._is_sandbox:
                await self.call("kill", "--pid", pid, bundle.runtime_id, str(int(signal.SIGKILL)))
            else:
                os.kill(int(pid), signal.SIGKILL)


async def _pid(pid_file: Path, child: ChildProcess) -> str:
    """The pid of a process that was just started; waits for the file, which may be written later."""
    for _ in range(int(PID_SECONDS_MAX / _POLL_SECONDS)):
        if (pid := _content(pid_file)) or child.returncode is not None:
            return pid
        await asyncio.sleep(_POLL_SECONDS)
    return _content(pid_file)


def _content(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


def _exec_directory(process: bytes) -> tempfile.TemporaryDirectory[str]:
    """A temporary directory for the process' configuration and pid, which the runtime writes: in memory, as probes go on
    when a disk gets full."""
    directory = tempfile.TemporaryDirectory(dir=_IN_MEMORY, prefix=f"{_PREFIX}{os.getpid()}-")
    try:
        (Path(directory.name) / "process.json").write_bytes(process)
    except BaseException:
        directory.cleanup()
        raise
    return directory


def remove_leftovers() -> None:
    """Removes the directories of processes that were killed."""
    for path in _IN_MEMORY.glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists():
            shutil.rmtree(path, ignore_errors=True)


def _stream(descriptor: int | None) -> int:
    return DEVNULL if descriptor is None else descriptor
