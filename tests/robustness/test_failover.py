"""Three API servers on three members of etcd; a server and the leading member are killed in the middle of a burst of creations."""

import threading
from pathlib import Path

import orjson
import pytest

from alcove.testing.etcd import EtcdCluster, lacking
from alcove.testing.failover import MAPS, Burst, servers_on
from alcove.testing.server import Caller, LocalServer, wait_until

COUNT = 10_000
pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking())


class Watcher(threading.Thread):
    """Follows one server by watches that resume, and notes what was added."""

    def __init__(self, server: LocalServer) -> None:
        super().__init__(daemon=True)
        self._caller = Caller(server.admin_kubeconfig)
        self._revision = server.system.get(MAPS).json["metadata"]["resourceVersion"]
        self.added: list[str] = []
        self.errors: list[object] = []
        self.is_over = False

    def run(self) -> None:
        while not self.is_over and not self.errors:
            query = f"watch=true&timeoutSeconds=1&resourceVersion={self._revision}"
            for line in self._caller.get(f"{MAPS}?{query}").body.splitlines():
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    self.errors.append(event)
                    return
                self._revision = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "ADDED":
                    self.added.append(event["object"]["metadata"]["name"])


def test_nothing_acknowledged_is_lost_and_nothing_is_there_twice(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path / "etcd", 3) as etcd, servers_on(etcd, tmp_path, 3) as servers:
        watchers = [Watcher(server) for server in (servers[0], servers[2])]
        for watcher in watchers:
            watcher.start()
        killed: list[int] = []

        def kill_leader() -> None:
            killed.append(etcd.leader())
            etcd.members[killed[0]].kill()

        burst = Burst(servers, COUNT)
        burst.run({COUNT // 3: servers[1].kill, 2 * COUNT // 3: kill_leader})
        assert killed and not servers[1].is_running
        burst.check(servers[0].system)
        burst.check(servers[2].system)
        for watcher in watchers:
            wait_until(lambda: len(watcher.added) >= COUNT or watcher.errors)  # noqa: B023 - called at once
            watcher.is_over = True
            watcher.join()
            assert not watcher.errors
            assert sorted(watcher.added) == sorted(f"burst-{number}" for number in range(COUNT)), (
                "an event each"
            )
        # What comes back has all of it, too.
        etcd.start(killed[0])
        servers[1].start()
        burst.check(servers[1].system)
