"""Starts `alcove` processes for tests by forking one that has imported everything they need.

    forkserver.enable()                       # In conftest.py; without it, processes are started as by users.
    process = start(["apiserver", …], log)    # As `alcove apiserver …`; stdout is a pipe.

Importing takes most of a second of CPU for each process, and the tests start more than a thousand. What is forked is a
process like any other: it has its own pid, arguments, environment and files, and is killed and waited for as such.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NoReturn, Protocol

from alcove.processes.priorities import raise_session_priority

_REQUEST_BYTES_MAX = 128 << 10
_server: ForkServer | None = None


class StartedProcess(Protocol):
    """What tests use of `subprocess.Popen`."""

    @property
    def pid(self) -> int: ...

    @property
    def stdout(self) -> IO[str] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


def enable() -> None:
    """From now on `start` forks. The process to fork from is started when it is needed first."""
    global _server
    _server = ForkServer()


def start(arguments: Sequence[str], log: Path, namespace: Path | None = None) -> StartedProcess:
    """Runs `alcove` with the arguments, in the network namespace if one is given. Its errors are added to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as errors:
        if _server is not None:
            return _server.start(arguments, errors.fileno(), namespace)
        entered = [] if namespace is None else ["nsenter", f"--net={namespace}"]
        command = [*entered, sys.executable, "-m", "alcove.processes.main", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        raise_session_priority(process.pid, arguments[0])  # As the supervisor does.
        return process


class ForkServer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None

    def start(self, arguments: Sequence[str], errors: int, namespace: Path | None) -> StartedProcess:
        request = {
            "arguments": list(arguments),
            "environment": dict(os.environ),
            "directory": str(Path.cwd()),
            "namespace": None if namespace is None else str(namespace),
        }
        reading, writing = os.pipe()
        try:
            pid, descriptor = self._fork(request, [writing, errors])
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return _ForkedProcess(self, pid, descriptor, os.fdopen(reading, encoding="utf-8"))

    def _fork(self, request: Mapping[str, object], descriptors: list[int]) -> tuple[int, int]:
        with self._lock:
            channel = self._connected()
            socket.send_fds(channel, [json.dumps(request).encode()], descriptors)
            answer, received, _, _ = socket.recv_fds(channel, 1024, 1)
        if not answer:
            raise RuntimeError("the process that tests fork from has ended")
        return int(answer), received[0]

    def wait(self, pid: int) -> int:
        """The exit code of a process that has ended."""
        with self._lock:
            channel = self._connected()
            channel.send(json.dumps({"ended": pid}).encode())
            return int(channel.recv(1024))

    def _connected(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, "-m", "alcove.testing.forkserver", str(theirs.fileno())]
                subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        return self._channel


class _ForkedProcess:
    """It is a child of the fork server, so it is waited for there. Its descriptor stands for it even if its pid is
    used again."""

    def __init__(self, server: ForkServer, pid: int, descriptor: int, stdout: IO[str]) -> None:
        self._server = server
        self.pid = pid
        self.stdout: IO[str] | None = stdout
        self._descriptor = descriptor
        self._exit_code: int | None = None

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, sig)

    def _ended(self, timeout: float | None) -> int | None:
        if self._exit_code is None:
            poller = select.poll()
            poller.register(self._descriptor, select.POLLIN)
            if poller.poll(None if timeout is None else timeout * 1000):
                self._exit_code = self._server.wait(self.pid)
        return self._exit_code

    def __del__(self) -> None:
        os.close(self._descriptor)


def _serve(channel: socket.socket) -> None:
    """Forks and waits as asked, until the one who asks has ended."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(channel, _REQUEST_BYTES_MAX, 2)
        if not data:
            return
        request = json.loads(data)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            channel.close()
            _run(request, *descriptors)
        opened = os.pidfd_open(pid)
        socket.send_fds(channel, [str(pid).encode()], [opened])
        for each in (opened, *descriptors):
            os.close(each)


def _run(request: dict[str, object], output: int, errors: int) -> NoReturn:
    """Becomes the process, which never returns from here."""
    from alcove.dataplane import namespaces
    from alcove.processes import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    for source, target in (output, 1), (errors, 2):
        os.dup2(source, target)
    os.closerange(3, max(output, errors) + 64)
    environment, arguments = request["environment"], request["arguments"]
    assert isinstance(environment, dict) and isinstance(arguments, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["directory"]))
    os.setsid()
    raise_session_priority(os.getpid(), arguments[0])
    sys.argv = ["alcove", *arguments]
    with ExitStack() as stack:
        if request["namespace"] is not None:
            stack.enter_context(
                namespaces.inside(os.open(str(request["namespace"]), os.O_RDONLY | os.O_CLOEXEC))
            )
        main.main()
    sys.exit()


def _import_everything() -> None:
    """What the processes import when they start."""
    import uvloop  # noqa: F401

    from alcove.component import stall_recorder  # noqa: F401
    from alcove.processes import agent, apiserver, controllers, main, memory, priorities, scheduler  # noqa: F401


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    _serve(socket.socket(fileno=int(sys.argv[1])))
