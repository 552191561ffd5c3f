"""Real etcd on loopback, for tests: one or several members, each of which can be killed and restarted on its
data.

with EtcdCluster(folder, 3) as etcd:
    LocalServer(directory, *etcd.options())
    etcd.members[etcd.leader()].kill()
"""

from __future__ import annotations

import contextlib
import http.client
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

import orjson

from alcove.api.objects import Object
from alcove.testing.claims import free_port

START_SECONDS_MAX = 90.0
READ_SECONDS_MAX = 10.0


def lacking() -> str:
    """Why etcd cannot run on this machine. Empty if it can."""
    return "" if shutil.which("etcd") else "needs etcd (package etcd-server)"


class EtcdMember:
    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.endpoint = f"127.0.0.1:{free_port()}"
        self.peer = f"127.0.0.1:{free_port()}"
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, members: list[EtcdMember], *options: str) -> None:
        """Starts the member without waiting."""
        together = ",".join(f"{each.name}=http://{each.peer}" for each in members)
        command = ["etcd", "--name", self.name, "--data-dir", str(self.folder), "--log-level", "error"]
        command += ["--listen-client-urls", f"http://{self.endpoint}"]
        command += ["--advertise-client-urls", f"http://{self.endpoint}"]
        command += ["--listen-peer-urls", f"http://{self.peer}"]
        command += ["--initial-advertise-peer-urls", f"http://{self.peer}", "--initial-cluster", together]
        command += options
        quiet = subprocess.DEVNULL
        self._running = subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def is_healthy(self) -> bool:
        """Whether the member is healthy: part of a majority with a leader."""
        with contextlib.suppress(OSError, http.client.HTTPException, orjson.JSONDecodeError):
            return bool(orjson.loads(self._get("GET", "/health"))["health"] == "true")
        return False

    def leads(self) -> bool:
        with contextlib.suppress(OSError, http.client.HTTPException, orjson.JSONDecodeError):
            status = orjson.loads(self._get("POST", "/v3/maintenance/status", b"{}"))
            return bool(status["leader"] == status["header"]["member_id"])
        return False

    def compact(self, revision: int) -> None:
        """Compacts the history up to the revision."""
        self._get("POST", "/v3/kv/compaction", orjson.dumps({"revision": str(revision), "physical": True}))

    def defragment(self) -> None:
        """Frees the space of what was compacted."""
        self._get("POST", "/v3/maintenance/defragment", b"{}")

    def alarms(self) -> list[Object]:
        """The alarms of all members (`alarm`: NOSPACE or CORRUPT), each with its `memberID`."""
        answer = orjson.loads(self._get("POST", "/v3/maintenance/alarm", b'{"action":"GET"}'))
        alarms: list[Object] = answer.get("alarms", [])
        return alarms

    def disarm(self) -> None:
        """Ends all alarms, as `etcdctl alarm disarm` does."""
        for each in self.alarms():
            self._get("POST", "/v3/maintenance/alarm", orjson.dumps({"action": "DEACTIVATE", **each}))

    def _get(self, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = http.client.HTTPConnection(self.endpoint, timeout=READ_SECONDS_MAX)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read()
        finally:
            connection.close()

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            self._running = None


class EtcdCluster:
    def __init__(self, folder: Path, count: int = 1, *options: str) -> None:
        """`options`: further ones of each member."""
        self._options = options
        self.members = [EtcdMember(f"m{number}", folder / f"m{number}") for number in range(count)]

    def options(self, first: int = 0) -> tuple[str, ...]:
        """Endpoints for an API server that prefers the member `first`."""
        turned = [*self.members[first:], *self.members[:first]]
        return tuple(word for each in turned for word in ("--etcd", each.endpoint))

    def leader(self) -> int:
        """The leader; waits until there is one."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            for number, member in enumerate(self.members):
                if member.leads():
                    return number
            time.sleep(0.05)
        raise RuntimeError("no member of etcd leads")

    def start(self, number: int) -> None:
        """Starts the member, and waits until it is healthy."""
        self.members[number].start(self.members, *self._options)
        self._await_healthy(self.members[number])

    def __enter__(self) -> Self:
        for member in self.members:
            member.start(self.members, *self._options)
        for member in self.members:
            self._await_healthy(member)
        return self

    def __exit__(self, *_exc: object) -> None:
        for member in self.members:
            member.kill()

    @staticmethod
    def _await_healthy(member: EtcdMember) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not member.is_healthy():
            if time.monotonic() > deadline:
                raise RuntimeError(f"etcd's member {member.name} did not start")
            time.sleep(0.05)
