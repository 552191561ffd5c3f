"""`kill -9` of the API server under write load: every acknowledged write is there, once, in order."""

import http.client
import random
import threading
import time
from pathlib import Path

from alcove.testing.server import Caller, LocalServer, wait_until

ROUNDS = 4
WRITES_MIN = 15
"""Of each round, before the kill."""
WRITERS = 4
MAPS = "/api/v1/namespaces/default/configmaps"


class Writer(threading.Thread):
    """Creates and updates objects of its own, and records what the server acknowledged."""

    def __init__(self, kubeconfig: Path, number: str) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self._number = number
        self.acknowledged: dict[str, tuple[int, str]] = {}
        """name → (revision, value) of the newest acknowledged write."""
        self.tried: dict[str, str] = {}
        """name → value of a write whose answer never came."""
        self.order: list[int] = []

    def run(self) -> None:
        caller = Caller(self._kubeconfig)
        try:
            for count in range(100_000):
                name = f"w{self._number}-{count // 3}"
                value = str(count)
                self.tried[name] = value
                if count % 3 == 0:
                    answer = caller.post(MAPS, {"metadata": {"name": name}, "data": {"v": value}})
                else:
                    answer = caller.patch(f"{MAPS}/{name}", {"data": {"v": value}})
                if answer.status not in (200, 201):
                    raise AssertionError(answer.body)
                revision = int(answer.json["metadata"]["resourceVersion"])
                self.acknowledged[name] = (revision, value)
                self.order.append(revision)
                del self.tried[name]
        except (http.client.HTTPException, OSError):
            pass
        finally:
            caller.close()


def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    server = LocalServer(tmp_path)
    known: dict[str, tuple[int, str]] = {}
    for round_number in range(ROUNDS):
        server.start()
        check(server.system, known)
        writers = [Writer(server.admin_kubeconfig, f"{round_number}-{number}") for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        wait_until(lambda: sum(len(writer.order) for writer in writers) >= WRITES_MIN)  # noqa: B023 - called at once
        time.sleep(random.uniform(0.0, 0.5))
        server.kill()
        for writer in writers:
            writer.join(90)
            assert writer.order == sorted(set(writer.order)), "revisions went back"
            known.update(writer.acknowledged)
            known.update({name: (-1, value) for name, value in writer.tried.items()})
    server.start()
    check(server.system, known)
    server.stop()


def check(caller: Caller, known: dict[str, tuple[int, str]]) -> None:
    items = caller.get(MAPS).json["items"]
    found = {item["metadata"]["name"]: item for item in items}
    assert len(found) == len(items)
    for name, (revision, value) in known.items():
        if revision < 0:
            # In flight when the server died: there or not, but never something else.
            assert name not in found or int(found[name]["data"]["v"]) in (int(value), int(value) - 1)
        else:
            assert found[name]["data"]["v"] == value
            assert int(found[name]["metadata"]["resourceVersion"]) == revision


def test_a_watch_resumes_across_a_restart(tmp_path: Path) -> None:
    server = LocalServer(tmp_path)
    server.start()
    since = server.system.get(MAPS).json["metadata"]["resourceVersion"]
    server.system.post(MAPS, {"metadata": {"name": "before"}})
    server.kill()
    server.start()
    server.system.post(MAPS, {"metadata": {"name": "after"}})
    body = server.system.get(f"{MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=1").body
    server.stop()
    assert body.index(b'"before"') < body.index(b'"after"') and body.count(b'"type":"ADDED"') == 2
