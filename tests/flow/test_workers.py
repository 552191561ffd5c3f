"""An API server with several workers gives the same answers as one process, whichever worker is asked."""

import http.client
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.random_walk import MAPS, RandomWalk, increment
from alcove.testing.server import Caller, changes_since, wait_until
from alcove.testing.workers import WorkerServer

WATCHES_MAX = 6
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    options = ("--tenant-watches-max", str(WATCHES_MAX))
    with WorkerServer(tmp_path_factory.mktemp("workers"), 2, *options) as running:
        yield running


def connected(server: WorkerServer) -> list[Caller]:
    """A caller at each worker."""
    return [server.caller_at(worker) for worker in range(server.workers)]


@pytest.fixture
def callers(server: WorkerServer) -> Iterator[list[Caller]]:
    made = connected(server)
    yield made
    for caller in made:
        caller.close()


def test_whichever_worker_is_asked_the_answer_is_that_of_one_server(callers: list[Caller]) -> None:
    RandomWalk(callers, seed=1).run(150)


def test_rivals_at_different_workers_lose_nothing_and_all_watches_see_one_order(
    server: WorkerServer, callers: list[Caller]
) -> None:
    first = callers[0].post(MAPS, {"metadata": {"name": "counter"}, "data": {"count": "0"}}).json
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda seed: increment(connected(server), seed, "counter", 10), range(3)))
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
    RandomWalk(connected(server), seed=2).run(30)


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
            callers = connected(server)
            walk = RandomWalk(callers, seed)
            walk.run(400)
            with ThreadPoolExecutor(4) as pool:
                name = f"counter-{seed}"
                callers[0].post(MAPS, {"metadata": {"name": name}, "data": {"count": "0"}})
                list(pool.map(lambda n, name=name: increment(connected(server), n, name, 25), range(4)))
            assert {each.get(f"{MAPS}/{name}").json["data"]["count"] for each in callers} == {"100"}
            for name in [each["metadata"]["name"] for each in callers[0].get(MAPS).json["items"]]:
                assert callers[0].delete(f"{MAPS}/{name}").status == 200
            victim = server.pids()[seed % 4]
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda seed=seed, victim=victim: server.pids().get(seed % 4, victim) != victim)
            server.wait_for_workers()


def create_all(server: WorkerServer, names: list[str]) -> None:
    """Creates objects, each until it is there: a worker that dies may have created one before it could say so."""
    caller = Caller(server.admin_kubeconfig)
    for name in names:
        while True:
            try:
                status = caller.post(MAPS, {"metadata": {"name": name}}).status
            except (OSError, http.client.HTTPException):
                caller.close()
                continue
            if status in (201, 409):
                break
            assert status in (500, 503, 504), status
    caller.close()


@pytest.mark.slow
def test_workers_killed_in_the_middle_of_a_burst_lose_nothing(tmp_path: Path) -> None:
    names = [f"burst-{number}" for number in range(2_000)]
    with WorkerServer(tmp_path, 3) as server, ThreadPoolExecutor(6) as pool:
        parts = [pool.submit(create_all, server, names[first::5]) for first in range(5)]
        for victim in (1, 0, 2, 0):
            killed = server.pids()[victim]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda victim=victim, killed=killed: server.pids().get(victim, killed) != killed)
        for part in parts:
            part.result()
        server.wait_for_workers()
        for caller in connected(server):
            found = [each["metadata"]["name"] for each in caller.get(MAPS).json["items"]]
            assert sorted(name for name in found if name.startswith("burst-")) == sorted(names)


@pytest.mark.slow
@pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())
def test_workers_on_etcd_give_the_answers_of_one_server(tmp_path: Path) -> None:
    with (
        EtcdCluster(tmp_path / "etcd") as cluster,
        WorkerServer(tmp_path / "server", 2, *cluster.options()) as server,
    ):
        for seed in range(40, 45):
            RandomWalk(connected(server), seed).run(200)
            os.kill(server.pids()[seed % 2], signal.SIGKILL)
            wait_until(lambda: len(server.pids()) == 2)
            server.wait_for_workers()
