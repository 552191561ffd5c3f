"""Load between two namespaces: request/response, one stream, connections. Both ends are this program.

Request/response and connections have both ends on one CPU: across CPUs a virtual machine's wake-ups hide the
network. Congestion control is cubic: bbr, the default of some systems, halves a veth's throughput.
"""

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from alcove.dataplane.namespaces import inside

REQUESTS = 1000
CONNECTS = 200
STREAM_SECONDS = 0.25
STREAM_BYTES = 1 << 17
TCP_CONGESTION = 13


def _socket(namespace: int) -> socket.socket:
    with inside(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"cubic")
    made.settimeout(10)
    return made


def _connected(
    client: int, server: int, target: tuple[str, int], listen: tuple[str, int]
) -> tuple[socket.socket, socket.socket]:
    listener = _socket(server)
    listener.bind(listen)
    listener.listen(1)
    near = _socket(client)
    near.connect(target)
    far, _ = listener.accept()
    listener.close()
    for one in (near, far):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.settimeout(None)
    return near, far


@contextmanager
def _child(work: Callable[[], None]) -> Iterator[None]:
    """Runs `work` in a process of its own until the block ends."""
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def steady(cpu: int) -> None:
    """This process on one CPU, before others there: a busy machine moves the figures less."""
    os.sched_setaffinity(0, {cpu})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        pass


def preferred(cpu: int) -> None:
    """Much before others, but not so that the kernel's own threads starve: a stream needs them."""
    os.sched_setaffinity(0, {cpu % (os.cpu_count() or 1)})
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except PermissionError:
        pass


def usual() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def _echo(far: socket.socket) -> None:
    receive, send = far.recv, far.send
    while receive(1):
        send(b"x")


class RequestResponse:
    """A connection whose far end echoes. `sample()`: transactions a second."""

    def __init__(self, client: int, server: int, target: tuple[str, int], listen: tuple[str, int]) -> None:
        self.near, self.far = _connected(client, server, target, listen)
        self.running = _child(self._serve)
        self.running.__enter__()
        self.far.close()

    def _serve(self) -> None:
        steady(0)
        self.near.close()
        _echo(self.far)

    def sample(self, requests: int = REQUESTS) -> float:
        send, receive = self.near.send, self.near.recv
        start = time.perf_counter()
        for _ in range(requests):
            send(b"x")
            receive(1)
        return requests / (time.perf_counter() - start)

    def close(self) -> None:
        self.near.close()
        self.running.__exit__(None, None, None)


class Stream:
    """A connection whose far end sends without end. `sample()`: Gb/s, by the time of the busier core.

    One stream is as fast as the busier of the two cores it uses lets it be. Counting that core's time instead
    of the clock's gives the same on an idle machine, and keeps what others do out of the figure on a busy one.
    """

    def __init__(self, client: int, server: int, target: tuple[str, int], listen: tuple[str, int]) -> None:
        self.ends = (client, server, target, listen)

    def sample(self) -> float:
        near, far = _connected(*self.ends)
        process = os.fork()
        if process == 0:
            near.close()
            _pour(far)
        far.close()
        preferred(0)
        buffer = bytearray(1 << 20)
        received, end = 0, time.perf_counter() + STREAM_SECONDS
        start = time.process_time()
        while time.perf_counter() < end:
            received += near.recv_into(buffer)
        own = time.process_time() - start
        os.kill(process, signal.SIGKILL)
        _, _, used = os.wait4(process, 0)
        near.close()
        return received * 8 / max(own, used.ru_utime + used.ru_stime) / 1e9

    def close(self) -> None:
        pass


def _pour(far: socket.socket) -> NoReturn:
    try:
        preferred(1)
        data = b"\0" * STREAM_BYTES
        while True:
            far.sendall(data)
    finally:
        os._exit(0)


class Connections:
    """`sample()`: connections opened and closed a second."""

    def __init__(self, client: int, server: int, target: tuple[str, int], listen: tuple[str, int]) -> None:
        self.client, self.target = client, target
        self.listener = _socket(server)
        self.listener.bind(listen)
        self.listener.listen(64)

    def sample(self) -> float:
        start = time.perf_counter()
        with inside(self.client):
            for _ in range(CONNECTS):
                near = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                near.connect(self.target)
                far, _peer = self.listener.accept()
                # The far end closes first, by a reset: no port waits, on either side.
                far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                far.close()
                near.close()
        return CONNECTS / (time.perf_counter() - start)

    def close(self) -> None:
        self.listener.close()
