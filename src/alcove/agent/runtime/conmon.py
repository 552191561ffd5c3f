"""conmon watches over each container: it calls the runtime to make it, writes its log in Kubernetes' format,
holds its streams and says how it ended. It lives as long as the container, whatever becomes of the agent.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import orjson

from alcove.agent.runtime.base import ContainerSpec, CreateFailed
from alcove.agent.runtime.bundle import Bundle

PROGRAM = "conmon"
CREATE_SECONDS_MAX = 60.0
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_REOPEN_LOG = b"2 0 0\n"


async def create(program: str, runtime: Path, bundle: Bundle, spec: ContainerSpec) -> None:
    """Has the runtime make the container. CreateFailed carries what the runtime said."""
    reading, writing = os.pipe()
    try:
        arguments = _arguments(runtime, bundle, spec)
        environment = {**_ENVIRONMENT, "_OCI_SYNCPIPE": str(writing)}
        process = await asyncio.create_subprocess_exec(
            program, *arguments, pass_fds=(writing,), env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            cwd=bundle.path,  # Where memory runs out, it leaves a note in the directory that it is in.
        )  # fmt: skip
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    output = await _read(reading)
    await process.wait()
    _check(output)


def _arguments(runtime: Path, bundle: Bundle, spec: ContainerSpec) -> Sequence[str]:
    path = bundle.path
    arguments = [
        *("--api-version", "1", "--cid", bundle.runtime_id, "--cuuid", bundle.runtime_id, "--name", spec.id),
        *("--runtime", str(runtime), "--bundle", str(path), "--exit-dir", str(path), "--full-attach"),
        *("--container-pidfile", str(path / "pid"), "--conmon-pidfile", str(path / "conmon.pid")),
        *("--log-path", f"k8s-file:{spec.log_path}", "--log-level", "error", "--no-sync-log"),
    ]
    if spec.config["process"].get("terminal"):
        arguments.append("--terminal")
    if spec.stdin:
        arguments.append("--stdin")
        if not spec.stdin_once:
            arguments.append("--leave-stdin-open")
    return arguments


async def _read(descriptor: int) -> bytes:
    """What conmon says once the container is made, or is not."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        async with asyncio.timeout(CREATE_SECONDS_MAX):
            return await reader.readline()
    except TimeoutError:
        raise CreateFailed(f"the runtime did not answer within {CREATE_SECONDS_MAX:.0f} seconds") from None
    finally:
        transport.close()


def _check(output: bytes) -> None:
    if not output:
        raise CreateFailed("conmon ended without a word")
    answer = orjson.loads(output)
    if answer.get("data", -1) < 0:
        raise CreateFailed((answer.get("message") or "the runtime gave no reason").strip())


def reopen_log(bundle: Bundle) -> None:
    """Its log was renamed: go on in a new file of the old name."""
    _tell(bundle, "ctl", _REOPEN_LOG)


def resize(bundle: Bundle, width: int, height: int) -> None:
    """Of the container's terminal."""
    _tell(bundle, "winsz", b"%d %d\n" % (height, width))


def _tell(bundle: Bundle, pipe: str, message: bytes) -> None:
    try:
        control = os.open(bundle.path / pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # Nobody listens any more: it has ended, and so has its log.
    try:
        os.write(control, message)
    finally:
        os.close(control)
