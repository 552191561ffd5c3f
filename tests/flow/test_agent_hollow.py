"""A hollow node in a whole cluster: pods of two tenants are placed, have addresses, run and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.controllers.all import CONTROLLERS
from alcove.processes.agent import AgentConfig, run
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.cluster import tenant_is_ready
from alcove.testing.controllers import RunningControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import Caller, LocalServer, wait_until

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("hollow")
    with (
        LocalServer(directory / "server") as server,
        RunningControllers(server.admin_kubeconfig, CONTROLLERS),
        LocalScheduler(server.admin_kubeconfig, directory),
        LocalAgent(node_kubeconfig(server, "n1"), directory / "n1", "n1", "--hollow"),
    ):
        for tenant in ("acme", "beta"):
            assert server.system.post("/api/v1/tenants", {"metadata": {"name": tenant}}).status == 201
            wait_until(lambda tenant=tenant: tenant_is_ready(server, tenant))
        yield server


def pod(name: str, **spec: object) -> Object:
    container = {"name": "web", "image": "alcove/busybox", **spec}
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def condition(found: Object, kind: str) -> str:
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each["status"] for each in conditions if each["type"] == kind), "")


def running(caller: Caller, name: str) -> Object:
    found: Object = wait_until(
        lambda: (
            (each := caller.get(f"{PODS}/{name}").json)
            and each.get("status", {}).get("phase") == "Running"
            and condition(each, "Ready") == "True"
            and each
        )
    )
    return found


def test_a_pod_with_init_containers_comes_up(cluster: LocalServer) -> None:
    acme = cluster.as_tenant("acme")
    made = pod("prepared")
    made["spec"]["initContainers"] = [
        {"name": "first", "image": "alcove/busybox"},
        {"name": "beside", "image": "alcove/busybox", "restartPolicy": "Always"},
    ]
    assert acme.post(PODS, made).status == 201
    shown = running(acme, "prepared")
    assert shown["metadata"]["generation"] == shown["status"]["observedGeneration"] == 1
    first, beside = shown["status"]["initContainerStatuses"]
    assert first["state"]["terminated"]["reason"] == "Completed" and "running" in beside["state"]
    assert acme.patch(f"{PODS}/prepared", {"spec": {"activeDeadlineSeconds": 5000}}).status == 200
    wait_until(lambda: acme.get(f"{PODS}/prepared").json["status"]["observedGeneration"] == 2)
    assert acme.delete(f"{PODS}/prepared").status == 200


def test_a_node_says_what_it_is(cluster: LocalServer) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
    wait_until(lambda: cluster.system.get(lease).json["spec"]["holderIdentity"] == "n1")
    wait_until(lambda: condition(cluster.system.get("/api/v1/nodes/n1").json, "Ready") == "True")
    node = cluster.system.get("/api/v1/nodes/n1").json
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert condition(node, "AlcoveHollow") == "True"
    assert [each["name"] for each in node["status"]["runtimeHandlers"]] == ["hollow"]
    assert int(node["status"]["allocatable"]["pods"]) > 0


@pytest.mark.parametrize("tenant", ["acme", "beta"])
def test_a_pod_runs_and_goes(cluster: LocalServer, tenant: str) -> None:
    caller = cluster.as_tenant(tenant)
    assert caller.post(PODS, pod("web")).status == 201
    found = running(caller, "web")
    status = found["status"]
    assert found["spec"]["nodeName"] == "n1"
    assert status["podIP"] and status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["hostIP"] == "127.0.0.1"
    assert status["startTime"] and status["qosClass"] == "BestEffort"
    (container,) = status["containerStatuses"]
    assert container["ready"] and container["started"] and container["restartCount"] == 0
    assert "running" in container["state"]
    kinds = {each["type"] for each in status["conditions"]}
    assert kinds == {
        *("PodScheduled", "Initialized", "ContainersReady", "Ready", "PodReadyToStartContainers"),
    }
    assert caller.delete(f"{PODS}/web").status == 200
    wait_until(lambda: caller.get(f"{PODS}/web").status == 404)


@pytest.mark.parametrize(
    ("requests", "reason"), [({"cpu": "256"}, "OutOfcpu"), ({"memory": "1Ti"}, "OutOfmemory")]
)
def test_a_pod_that_goes_round_the_scheduler_takes_no_room_it_does_not_fit_in(
    cluster: LocalServer, requests: Object, reason: str
) -> None:
    """Bound by `spec.nodeName`, such a pod once ran, and the node was full for everybody."""
    acme = cluster.as_tenant("acme")
    made = pod("greedy", resources={"requests": requests})
    made["spec"]["nodeName"] = "n1"
    assert acme.post(PODS, made).status == 201

    def refused() -> bool:
        status = acme.get(f"{PODS}/greedy").json.get("status", {})
        return bool(status.get("phase") == "Failed" and status.get("reason") == reason)

    wait_until(refused)
    beta = cluster.as_tenant("beta")
    assert beta.post(PODS, pod("modest", resources={"requests": {"cpu": "100m"}})).status == 201
    running(beta, "modest")
    for caller, name in ((acme, "greedy"), (beta, "modest")):
        assert caller.delete(f"{PODS}/{name}").status == 200
        wait_until(lambda caller=caller, name=name: caller.get(f"{PODS}/{name}").status == 404)


def test_events_say_what_happened(cluster: LocalServer) -> None:
    caller = cluster.as_tenant("acme")
    caller.post(PODS, pod("noted"))
    running(caller, "noted")

    def reasons() -> set[str]:
        events = caller.get("/api/v1/namespaces/default/events").json["items"]
        return {each["reason"] for each in events if each["involvedObject"]["name"] == "noted"}

    wait_until(lambda: {"Scheduled", "Created", "Started"} <= reasons())
    caller.delete(f"{PODS}/noted")
    wait_until(lambda: "Killing" in reasons())


def test_init_containers_and_probes_do_not_hold_up_a_hollow_pod(cluster: LocalServer) -> None:
    """Nothing runs that could answer; what would run for ever still has to let the others begin."""
    caller = cluster.as_tenant("acme")
    wanted = pod("probed", readinessProbe={"tcpSocket": {"port": 80}})
    wanted["spec"]["initContainers"] = [
        {"name": "side", "image": "alcove/busybox", "restartPolicy": "Always"},
    ]
    assert caller.post(PODS, wanted).status == 201
    found = running(caller, "probed")
    assert found["status"]["initContainerStatuses"][0]["started"]
    caller.delete(f"{PODS}/probed")


def test_a_deployment_is_whole(cluster: LocalServer) -> None:
    caller = cluster.as_tenant("beta")
    labels = {"app": "web"}
    made = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod("x")["spec"]},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert caller.post(path, made).status == 201
    wait_until(lambda: _ready_replicas(caller, f"{path}/web") == 5)


def _ready_replicas(caller: Caller, path: str) -> int:
    return int((caller.get(path).json.get("status") or {}).get("readyReplicas") or 0)


def test_a_node_that_is_turned_off_ends_its_pods_first(cluster: LocalServer, tmp_path: Path) -> None:
    caller = cluster.as_tenant("acme")
    kubeconfig = node_kubeconfig(cluster, "n2")
    agent = LocalAgent(kubeconfig, tmp_path, "n2", "--hollow", "--drain-on-stop")
    with agent:
        wanted = pod("drained")
        wanted["spec"]["nodeName"] = "n2"
        assert caller.post(PODS, wanted).status == 201
        running(caller, "drained")
    status = caller.get(f"{PODS}/drained").json["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert condition({"status": status}, "DisruptionTarget") == "True"
    caller.delete(f"{PODS}/drained?gracePeriodSeconds=0")
    cluster.system.delete("/api/v1/nodes/n2")


def test_pods_keep_running_when_the_agent_stops(cluster: LocalServer, tmp_path: Path) -> None:
    caller = cluster.as_tenant("acme")
    with LocalAgent(node_kubeconfig(cluster, "n3"), tmp_path, "n3", "--hollow"):
        wanted = pod("kept")
        wanted["spec"]["nodeName"] = "n3"
        assert caller.post(PODS, wanted).status == 201
        running(caller, "kept")
    assert caller.get(f"{PODS}/kept").json["status"]["phase"] == "Running"
    caller.delete(f"{PODS}/kept?gracePeriodSeconds=0")
    cluster.system.delete("/api/v1/nodes/n3")


async def test_a_machine_without_the_rights_says_so(
    cluster: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    config = AgentConfig(kubeconfig=node_kubeconfig(cluster, "n4"), name="n4", data=tmp_path)
    ready = asyncio.Event()
    working = asyncio.create_task(run(config, ready.set))
    try:
        async with asyncio.timeout(60):
            await ready.wait()
    finally:
        working.cancel()
        await asyncio.wait((working,))
    node = cluster.system.get("/api/v1/nodes/n4").json
    condition = {each["type"]: each for each in node["status"]["conditions"]}["AlcoveHollow"]
    assert condition["status"] == "True" and "requires root" in condition["message"]
    cluster.system.delete("/api/v1/nodes/n4")


def test_credentials_are_renewed_under_a_running_agent(cluster: LocalServer, tmp_path: Path) -> None:
    way = tmp_path / "kubeconfig"
    first = node_kubeconfig(cluster, "n5")
    way.write_bytes(first.read_bytes())
    caller = cluster.as_tenant("acme")
    agent = LocalAgent(way, tmp_path / "n5", "n5", "--hollow")
    with agent:
        first.unlink()
        cluster.system.delete("/apis/certificates.k8s.io/v1/certificatesigningrequests/node-n5")
        way.write_bytes(node_kubeconfig(cluster, "n5").read_bytes())
        wait_until(lambda: "kubeconfig reloaded" in agent.log)
        wanted = pod("renewed")
        wanted["spec"]["nodeName"] = "n5"
        assert caller.post(PODS, wanted).status == 201
        running(caller, "renewed")
    caller.delete(f"{PODS}/renewed?gracePeriodSeconds=0")
    cluster.system.delete("/api/v1/nodes/n5")
