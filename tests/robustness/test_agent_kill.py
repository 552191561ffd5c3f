"""The agent is killed at any moment, repeatedly: pods keep running, none is started twice, and deleted ones
leave nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing.cluster import PODS, RealCluster, gone, lacking, pod, ready, traces
from alcove.testing.server import Caller, wait_until
from alcove.testing.snapshot import processes

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
    pytest.mark.timeout(240),
]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
KILLS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("kill")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    caller = cluster.make_tenant("acme")
    for each in (caller, cluster.server.system):
        assert each.post(CLASS, {"metadata": {"name": "plain"}, "handler": "crun"}).status == 201
    return caller


def create(caller: Caller, name: str) -> str:
    """Creates a pod that counts its starts in a file that outlives its containers."""
    wanted = pod(name, "echo x >> /v/starts; exec sleep 1000", runtimeClassName="plain")
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    wanted["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    answer = caller.post(PODS, wanted)
    assert answer.status == 201, answer.body
    return str(answer.json["metadata"]["uid"])


def starts(caller: Caller, name: str) -> int:
    """0 if the container's shell has not come to it yet: a pod without a readiness probe is ready at once."""
    return len(caller.kubectl("exec", name, "--", "sh", "-c", "cat /v/starts 2>/dev/null || true").split())


def test_pods_outlive_an_agent_that_is_killed_at_any_moment(cluster: RealCluster, acme: Caller) -> None:
    chance = random.Random(7)
    agent, data = cluster.agents["n1"], cluster.nodes[0].data
    steady = {name: create(acme, name) for name in ("steady-0", "steady-1")}
    before = {name: ready(acme, name) for name in steady}
    uids: dict[str, str] = {}
    deleted: dict[str, str] = {}
    for number in range(KILLS):
        uids[f"p{number}"] = create(acme, f"p{number}")
        if number >= 2:
            name = f"p{number - 2}"
            acme.delete(f"{PODS}/{name}")
            deleted[name] = uids.pop(name)
        time.sleep(chance.random() * 0.8)  # The kill comes at any moment of what goes on.
        agent.kill()
        agent.start()
        agent.wait()
    for name in (*steady, *uids):
        ready(acme, name)
    for name in deleted:
        gone(acme, name)
    for name in {**steady, **uids}:
        assert wait_until(lambda name=name: starts(acme, name)) == 1, name
    for name, found in before.items():
        now = acme.get(f"{PODS}/{name}").json
        assert _run(now) == _run(found), "it was not left alone"
    for name, uid in deleted.items():
        _leaves_nothing(data, name, uid)
    wait_until(lambda: len(list((data / "volumes" / "pods").iterdir())) == len({**steady, **uids}))


def test_a_container_that_was_prepared_and_never_created_leaves_nothing(
    cluster: RealCluster, acme: Caller
) -> None:
    """As by an agent that is killed between the two; the next one finds no such container."""
    uid = create(acme, "prepared")
    ready(acme, "prepared")
    data = cluster.nodes[0].data
    (data / "snapshots" / f"{uid}.main.1" / "upper").mkdir(parents=True)
    acme.delete(f"{PODS}/prepared")
    gone(acme, "prepared")
    _leaves_nothing(data, "prepared", uid)


def _leaves_nothing(data: Path, name: str, uid: str) -> None:
    with suppress(AssertionError):
        wait_until(lambda: not traces(data, uid))
    assert traces(data, uid) == [], name


def _run(found: Object) -> tuple[object, ...]:
    status = found["status"]["containerStatuses"][0]
    return status["containerID"], status["restartCount"], status["state"]["running"], found["status"]["podIP"]


def test_no_process_outlives_its_pod(cluster: RealCluster, acme: Caller) -> None:
    """Monitors and runtimes waited for an agent that had been killed, for good."""
    chance = random.Random(11)
    agent, data = cluster.agents["n1"], cluster.nodes[0].data

    def running() -> set[str]:
        """Processes that work on the node's files, but the agent itself."""
        return {each for each in processes(str(data)) if int(each.split()[0]) != agent.pid}

    before = running()
    for number in range(KILLS - 1):
        sandbox = {"runtimeClassName": "plain"} if number % 2 or not cluster.runs_gvisor else {}
        for name in (f"q{number}", f"r{number}"):
            assert acme.post(PODS, pod(name, **sandbox)).status == 201
        if number:
            for name in (f"q{number - 1}", f"r{number}"):
                assert acme.delete(f"{PODS}/{name}").status == 200
        time.sleep(chance.random())  # The kill comes at any moment of what goes on.
        agent.kill()
        agent.start()
        agent.wait()
    ready(acme, f"q{KILLS - 2}")
    assert running() - before, "monitors and containers are seen"
    names = [name for number in range(KILLS - 1) for name in (f"q{number}", f"r{number}")]
    for name in names:
        acme.delete(f"{PODS}/{name}?gracePeriodSeconds=1")
    for name in names:
        gone(acme, name)
    with suppress(AssertionError):
        wait_until(lambda: running() <= before)
    assert running() - before == set()


def test_what_was_deleted_while_no_agent_was_there_is_removed(cluster: RealCluster, acme: Caller) -> None:
    agent, data = cluster.agents["n1"], cluster.nodes[0].data
    uid = create(acme, "orphan")
    ready(acme, "orphan")
    agent.kill()
    assert acme.delete(f"{PODS}/orphan?gracePeriodSeconds=0").status == 200
    gone(acme, "orphan")
    agent.start()
    agent.wait()
    wait_until(lambda: not traces(data, uid))


def test_a_container_that_exited_meanwhile_is_reported_and_can_be_started_again(
    cluster: RealCluster, acme: Caller
) -> None:
    agent, data = cluster.agents["n1"], cluster.nodes[0].data
    command = "touch /e/runs; while [ ! -e /e/end ]; do sleep 0.1; done; rm /e/end; exit 4"
    wanted = pod("ends", command, runtimeClassName="plain")
    wanted["spec"]["volumes"] = [{"name": "e", "emptyDir": {}}]
    wanted["spec"]["containers"][0]["volumeMounts"] = [{"name": "e", "mountPath": "/e"}]
    assert acme.post(PODS, wanted).status == 201
    ready(acme, "ends")
    [runs] = wait_until(lambda: list(data.glob("volumes/pods/*/empty/e/runs")))
    agent.kill()
    runs.with_name("end").touch()
    wait_until(lambda: not runs.with_name("end").exists())  # Nobody is there to see it end.
    agent.start()
    agent.wait()

    def restarted() -> bool:
        status = acme.get(f"{PODS}/ends").json["status"]["containerStatuses"][0]
        return bool(status["restartCount"] == 1 and status["lastState"]["terminated"]["exitCode"] == 4)

    wait_until(restarted)
