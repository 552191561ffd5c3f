"""An API server with several workers gives the same answers as one process, whichever worker is asked."""

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.server import Caller, changes_since, wait_until
from alcove.testing.workers import WorkerServer

WATCHES_MAX = 6
MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    options = ("--tenant-watches-max", str(WATCHES_MAX))
    with WorkerServer(tmp_path_factory.mktemp("workers"), 2, *options) as running:
        yield running


@pytest.fixture
def callers(server: WorkerServer) -> Iterator[list[Caller]]:
    made = [server.caller_at(worker) for worker in range(server.workers)]
    yield made
    for caller in made:
        caller.close()


class RandomWalk:
    """One user's requests, each at any worker, and what they must be answered with."""

    def __init__(self, callers: list[Caller], seed: int) -> None:
        self._callers = callers
        self._random = random.Random(seed)
        self._prefix = f"walk-{seed}-"
        self._objects: dict[str, dict[str, Any]] = {}
        self._revision = 0
        self._number = 0

    def run(self, steps: int) -> None:
        actions = [self._create, self._replace, self._replace_outdated, self._delete, self._read, self._list]
        for _ in range(steps):
            name = f"{self._prefix}{self._random.randrange(8)}"
            self._random.choice([*actions, self._new_namespace])(name)

    def _caller(self) -> Caller:
        return self._random.choice(self._callers)

    def _created(self) -> dict[str, str]:
        self._number += 1
        return {"v": str(self._number)}

    def _create(self, name: str) -> None:
        body = {"metadata": {"name": name}, "data": self._created()}
        answer = self._caller().post(MAPS, body)
        assert answer.status == (409 if name in self._objects else 201), answer.body
        if answer.status == 201:
            self._objects[name] = answer.json

    def _replace(self, name: str) -> None:
        if name in self._objects:
            answer = self._caller().put(f"{MAPS}/{name}", {**self._objects[name], "data": self._created()})
            assert answer.status == 200, answer.body
            self._objects[name] = answer.json

    def _replace_outdated(self, name: str) -> None:
        if name in self._objects:
            outdated = self._objects[name]
            self._replace(name)
            answer = self._caller().put(f"{MAPS}/{name}", {**outdated, "data": self._created()})
            assert answer.status == 409, answer.body

    def _delete(self, name: str) -> None:
        answer = self._caller().delete(f"{MAPS}/{name}")
        assert answer.status == (200 if self._objects.pop(name, None) else 404), answer.body

    def _read(self, name: str) -> None:
        answer = self._caller().get(f"{MAPS}/{name}")
        if name in self._objects:
            assert answer.status == 200 and answer.json == self._objects[name]
        else:
            assert answer.status == 404

    def _list(self, _name: str) -> None:
        listed = self._caller().get(MAPS).json
        found = {each["metadata"]["name"]: each for each in listed["items"]}
        ours = {name: each["data"] for name, each in found.items() if name.startswith(self._prefix)}
        assert ours == {name: each["data"] for name, each in self._objects.items()}
        revision = int(listed["metadata"]["resourceVersion"])
        assert revision >= self._revision, "the list went back in time"
        self._revision = revision

    def _new_namespace(self, _name: str) -> None:
        """What one worker acknowledged, another must not miss when it decides about a write."""
        self._number += 1
        name = f"{self._prefix}{self._number}"
        assert self._caller().post("/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
        path = f"/api/v1/namespaces/{name}/configmaps"
        answer = self._caller().post(path, {"metadata": {"name": "first"}})
        assert answer.status == 201, answer.body


def test_whichever_worker_is_asked_the_answer_is_that_of_one_server(callers: list[Caller]) -> None:
    RandomWalk(callers, seed=1).run(150)


def increment(server: WorkerServer, seed: int, name: str, count: int) -> None:
    """Adds to a counter by reading and replacing it, each at any worker."""
    chosen = random.Random(seed)
    callers = [server.caller_at(worker) for worker in range(server.workers)]
    revision, done = 0, 0
    while done < count:
        counter = chosen.choice(callers).get(f"{MAPS}/{name}").json
        assert int(counter["metadata"]["resourceVersion"]) >= revision, "the object went back in time"
        revision = int(counter["metadata"]["resourceVersion"])
        counter["data"]["count"] = str(int(counter["data"]["count"]) + 1)
        answer = chosen.choice(callers).put(f"{MAPS}/{name}", counter)
        assert answer.status in (200, 409), answer.body
        done += answer.status == 200
    for caller in callers:
        caller.close()


def test_rivals_at_different_workers_lose_nothing_and_all_watches_see_one_order(
    server: WorkerServer, callers: list[Caller]
) -> None:
    first = callers[0].post(MAPS, {"metadata": {"name": "counter"}, "data": {"count": "0"}}).json
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: increment(server, seed, "counter", 10), range(3)))
    since = first["metadata"]["resourceVersion"]
    seen = [changes_since(caller, MAPS, since) for caller in callers]
    assert seen[0] == seen[1]
    assert [each["object"]["data"]["count"] for each in seen[0]] == [str(n + 1) for n in range(30)]


def test_a_right_that_one_worker_granted_holds_at_the_other_at_once(server: WorkerServer) -> None:
    server.make_tenant("acme")
    base = f"{RBAC}/tenants/acme/clusterrolebindings"
    reader = [server.caller_at(each, server.as_tenant("acme", "reader").kubeconfig) for each in (0, 1)]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]}
    admins = [server.caller_at(worker) for worker in (0, 1)]
    for number in range(10):
        writer, other = number % 2, (number + 1) % 2
        assert admins[writer].post(base, binding).status == 201
        assert reader[other].get(MAPS).status == 200
        assert admins[writer].delete(f"{base}/reader").status == 200
        assert reader[other].get(MAPS).status == 403


def test_a_tenants_watches_at_all_workers_are_counted_together(server: WorkerServer) -> None:
    admin = server.make_tenant("watchful")
    path = f"{MAPS}?watch=true&timeoutSeconds=600"
    opened: list[Caller] = []
    try:
        for number in range(WATCHES_MAX):
            opened.append(server.caller_at(number % 2, admin.kubeconfig))
            assert opened[-1].begin(path) == 200
        for worker in (0, 1):
            refused = server.caller_at(worker, admin.kubeconfig).get(path)
            assert refused.status == 429 and f"{WATCHES_MAX} watches".encode() in refused.body
        # A watch that ends at one worker makes room at the other.
        opened.pop(0).close()
        wait_until(
            lambda: (
                server.caller_at(1, admin.kubeconfig).get(f"{MAPS}?watch=true&timeoutSeconds=1").status == 200
            )
        )
    finally:
        for each in opened:
            each.close()


def test_metrics_of_one_worker_show_all(server: WorkerServer, callers: list[Caller]) -> None:
    for caller in callers:
        text = caller.get("/metrics").body.decode()
        assert all(f'process_resident_memory_bytes{{worker="{each}"}}' in text for each in (0, 1, "parent"))
        assert text.count("# TYPE apiserver_request_total counter") == 1


def test_a_worker_that_is_killed_takes_only_its_connections(
    server: WorkerServer, callers: list[Caller]
) -> None:
    killed = server.pids()[1]
    os.kill(killed, signal.SIGKILL)
    for number in range(20):
        assert callers[0].post(MAPS, {"metadata": {"name": f"after-{number}"}}).status == 201
    assert server.worker_of(callers[0]) == 0, "the connection was lost"
    wait_until(lambda: server.pids().get(1, killed) != killed)
    server.wait_for_workers()
    names = [each["metadata"]["name"] for each in server.caller_at(1).get(MAPS).json["items"]]
    assert {f"after-{number}" for number in range(20)} <= set(names)
    RandomWalk([server.caller_at(worker) for worker in (0, 1)], seed=2).run(30)


def test_workers_end_with_their_parent_and_nothing_acknowledged_is_lost(
    server: WorkerServer, callers: list[Caller]
) -> None:
    pids = server.pids().values()
    for number in range(20):
        assert callers[number % 2].post(MAPS, {"metadata": {"name": f"kept-{number}"}}).status == 201
    server.kill()
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    server.start()
    names = [each["metadata"]["name"] for each in server.caller_at(1).get(MAPS).json["items"]]
    assert {f"kept-{number}" for number in range(20)} <= set(names)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
def test_four_workers_that_are_killed_again_and_again_give_the_answers_of_one(tmp_path: Path) -> None:
    with WorkerServer(tmp_path, 4) as server:
        for seed in range(10, 30):
            callers = [server.caller_at(worker) for worker in range(4)]
            walk = RandomWalk(callers, seed)
            walk.run(400)
            with ThreadPoolExecutor(4) as pool:
                name = f"counter-{seed}"
                callers[0].post(MAPS, {"metadata": {"name": name}, "data": {"count": "0"}})
                list(pool.map(lambda n, name=name: increment(server, n, name, 25), range(4)))
            assert {each.get(f"{MAPS}/{name}").json["data"]["count"] for each in callers} == {"100"}
            for name in [each["metadata"]["name"] for each in callers[0].get(MAPS).json["items"]]:
                assert callers[0].delete(f"{MAPS}/{name}").status == 200
            victim = server.pids()[seed % 4]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda seed=seed, victim=victim: server.pids().get(seed % 4, victim) != victim)
            server.wait_for_workers()
