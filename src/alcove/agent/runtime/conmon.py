"""conmon, the monitor process of each container: it calls the runtime to create the container, writes its log
in the CRI format, holds its streams and records its exit code. It runs as long as the container, also without
the agent.
"""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import orjson

from alcove.agent.runtime.base import ContainerSpec, CreateFailed
from alcove.agent.runtime.bundle import Bundle
from alcove.agent.runtime.child_process import ChildProcess

PROGRAM = "conmon"
CREATE_SECONDS_MAX = 60.0
KILL_SECONDS_MAX = 10.0
LOG_FILE_BYTES_MAX = 64 << 20
"""Bytes of one log file of a container, after which conmon replaces it by a new one (logs/rotation.py). What
a container writes beyond that between two rotations is lost to `kubectl logs`, the oldest first."""
SANDBOX_LOG_BYTES_MAX = 64 << 10
"""Bytes of the log of a sandbox, which a pod can write to if it shares the process namespace; conmon replaces
the file by a new one."""
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_REOPEN_LOG = b"2 0 0\n"
_ANSWER_BYTES_MAX = 64 << 10
_POLL_SECONDS = 0.01


async def create(
    program: str, runtime: Path, bundle: Bundle, spec: ContainerSpec, variables: Mapping[str, str]
) -> None:
    """Lets the runtime create the container. `variables` are of the runtime's environment. Raises CreateFailed with
    the runtime's message."""
    reading, writing = os.pipe()
    try:
        # Nothing can be cancelled before it runs: nobody would know what goes on.
        child = ChildProcess(
            [program, *_arguments(runtime, bundle, spec)],
            pass_fds=(writing,),
            env={**_ENVIRONMENT, **variables, "_OCI_SYNCPIPE": str(writing)},
            cwd=bundle.path,  # conmon creates its "oom" file in the working directory.
        )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        output = await _read(reading)
    finally:
        # Also if this is cancelled: only then is the pid of the process known that goes on in the background.
        await child.wait()
    _check(output)


def _arguments(runtime: Path, bundle: Bundle, spec: ContainerSpec) -> Sequence[str]:
    path = bundle.path
    arguments = [
        *("--api-version", "1", "--cid", bundle.runtime_id, "--cuuid", bundle.runtime_id, "--name", spec.id),
        *("--runtime", str(runtime), "--bundle", str(path), "--exit-dir", str(path), "--full-attach"),
        *("--container-pidfile", str(path / "pid"), "--conmon-pidfile", str(path / "conmon.pid")),
        *("--log-path", f"k8s-file:{spec.log_path}", "--log-level", "error", "--no-sync-log"),
        *("--log-size-max", str(SANDBOX_LOG_BYTES_MAX if spec.is_sandbox else LOG_FILE_BYTES_MAX)),
    ]
    if spec.config["process"].get("terminal"):
        arguments.append("--terminal")
    if spec.stdin:
        arguments.append("--stdin")
        if not spec.stdin_once:
            arguments.append("--leave-stdin-open")
    return arguments


async def _read(descriptor: int) -> bytes:
    """The line that conmon writes when the container was created, or creating it failed. Closes the descriptor.

    Not by `connect_read_pipe`: uvloop closes the descriptor of a pipe twice, the second time perhaps a file that another
    thread has opened meanwhile."""
    loop = asyncio.get_running_loop()
    received = bytearray()
    is_complete = asyncio.Event()

    def receive() -> None:
        data = os.read(descriptor, _ANSWER_BYTES_MAX)
        received.extend(data)
        if not data or b"\n" in data or len(received) > _ANSWER_BYTES_MAX:
            loop.remove_reader(descriptor)
            is_complete.set()

    try:
        loop.add_reader(descriptor, receive)
        async with asyncio.timeout(CREATE_SECONDS_MAX):
            await is_complete.wait()
    except TimeoutError:
        raise CreateFailed(f"the runtime did not answer within {CREATE_SECONDS_MAX:.0f} seconds") from None
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    return bytes(received).partition(b"\n")[0]


def _check(output: bytes) -> None:
    if not output:
        raise CreateFailed("conmon exited without output")
    try:
        result = orjson.loads(output)
    except orjson.JSONDecodeError:
        raise CreateFailed(f"conmon's answer is not JSON: {output[:200]!r}") from None
    if result.get("data", -1) < 0:
        raise CreateFailed((result.get("message") or "the runtime gave no reason").strip())


def reopen_log(bundle: Bundle) -> None:
    """Continues the log in a new file of the same name, after the old one was renamed."""
    _send(bundle, "ctl", _REOPEN_LOG)


def resize(bundle: Bundle, width: int, height: int) -> None:
    """Resizes the container's terminal."""
    _send(bundle, "winsz", b"%d %d\n" % (height, width))


def _send(bundle: Bundle, pipe: str, message: bytes) -> None:
    try:
        control = os.open(bundle.path / pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # conmon has exited: the container and its log have ended.
    try:
        os.write(control, message)
    finally:
        os.close(control)


async def kill_creation(bundle: Bundle) -> None:
    """Kills conmon and the runtime while they create the container: the runtime would go on without conmon, and the
    container would exist after its deletion. Returns when they have ended: a process that is killed still completes its
    system call, which on a busy machine may be a while later."""
    monitor = bundle.monitor()
    if monitor is None or bundle.process() is not None:
        return
    with suppress(ProcessLookupError):
        if os.getpgid(monitor) == monitor:
            os.killpg(monitor, signal.SIGKILL)
    for _ in range(int(KILL_SECONDS_MAX / _POLL_SECONDS)):
        if not await asyncio.to_thread(_is_alive, monitor):
            return
        await asyncio.sleep(_POLL_SECONDS)


def _is_alive(group: int) -> bool:
    """Whether a process of the group has not ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, own = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(own) == group and state not in "ZX":
            return True
    return False
