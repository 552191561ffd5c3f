"""API servers on one etcd, and a burst of creations that goes on while members and servers are killed.

with EtcdCluster(folder, 3) as etcd, servers_on(etcd, folder, 3) as servers:
    burst = Burst(servers, 10_000)
    burst.run({3_000: servers[1].kill, 6_000: lambda: etcd.members[etcd.leader()].kill()})
    burst.check(servers[0].system)
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from alcove.testing.etcd import EtcdCluster
from alcove.testing.server import Caller, LocalServer

SHARED_KEYS = ("ca.crt", "ca.key", "sa.key")
MAPS = "/api/v1/namespaces/default/configmaps"
ATTEMPTS_MAX = 200
RETRY_SECONDS = 0.05


def server_on(etcd: EtcdCluster, directory: Path, number: int) -> LocalServer:
    """A server that prefers the member of its number. All have the authority of the first, which was started before: credentials
    of one are valid at the others."""
    own = directory / f"server-{number}"
    if number:
        (own / "pki").mkdir(parents=True)
        for name in SHARED_KEYS:
            shutil.copy(directory / "server-0" / "pki" / name, own / "pki" / name)
    return LocalServer(own, *etcd.options(number % len(etcd.members)))


@contextlib.contextmanager
def servers_on(etcd: EtcdCluster, directory: Path, count: int) -> Iterator[list[LocalServer]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(server_on(etcd, directory, number)) for number in range(count)]


class Burst:
    """Creations by several writers, each of which tries the next server when one fails."""

    def __init__(
        self, servers: Sequence[LocalServer], count: int, writers: int = 12, prefix: str = "burst"
    ) -> None:
        """Objects are named `prefix-0` and so on."""
        self._prefix = f"{prefix}-"
        self._kubeconfigs = [server.admin_kubeconfig for server in servers]
        self._count, self._writers = count, writers
        self._lock = threading.Lock()
        self._started = 0
        self.uids: dict[str, str] = {}
        """Of what was acknowledged."""
        self.unknown: set[str] = set()
        """Created by an attempt whose response was lost."""
        self.done_at: list[float] = []
        self.latencies_ms: list[float] = []
        self.failures: list[str] = []

    def run(self, faults: Mapping[int, Callable[[], object]]) -> None:
        """Creates everything. A fault is called when so many creations are done."""
        threads = [threading.Thread(target=self._write, args=(number,)) for number in range(self._writers)]
        for thread in threads:
            thread.start()
        for after in sorted(faults):
            while len(self.done_at) < after and any(thread.is_alive() for thread in threads):
                time.sleep(0.005)
            faults[after]()
        for thread in threads:
            thread.join()

    @property
    def longest_gap_ms(self) -> float:
        """The longest time without any creation."""
        return max((later - at) * 1000 for at, later in zip(self.done_at, self.done_at[1:], strict=False))

    def percentile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[int(len(ordered) * share)]

    def check(self, caller: Caller) -> None:
        """Raises AssertionError unless all is there, once, as it was acknowledged."""
        assert not self.failures, self.failures[:3]
        items = caller.get(MAPS).json["items"]
        found = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
        assert len(found) == len(items)
        made = {name for name in found if name.startswith(self._prefix)}
        assert made == {f"{self._prefix}{number}" for number in range(self._count)}
        assert {name: found[name] for name in self.uids} == self.uids

    def _write(self, number: int) -> None:
        callers = [Caller(each) for each in self._kubeconfigs]
        at = number % len(callers)
        while (name := self._next()) is not None:
            began = time.perf_counter()
            for _ in range(ATTEMPTS_MAX):
                if self._try(callers[at], name):
                    break
                callers[at].close()
                at = (at + 1) % len(callers)
                time.sleep(RETRY_SECONDS)
            else:
                self.failures.append(f"{name} was not created")
                return
            ended = time.perf_counter()
            with self._lock:
                self.done_at.append(ended)
                self.latencies_ms.append((ended - began) * 1000)

    def _next(self) -> str | None:
        with self._lock:
            self._started += 1
            return f"{self._prefix}{self._started - 1}" if self._started <= self._count else None

    def _try(self, caller: Caller, name: str) -> bool:
        """Whether the object is there now."""
        try:
            answer = caller.post(MAPS, {"metadata": {"name": name}, "data": {"name": name}})
        except (http.client.HTTPException, OSError):
            return False
        match answer.status:
            case 201:
                self.uids[name] = answer.json["metadata"]["uid"]
            case 409:
                # Of an attempt whose response was lost: nobody else creates this name.
                self.unknown.add(name)
            case 429 | 500 | 503 | 504:
                return False
            case _:
                self.failures.append(f"{name}: {answer.status} {answer.body[:200]!r}")
        return True
