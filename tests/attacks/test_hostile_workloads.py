"""No object of a tenant stops the controllers or the scheduler of the others, whatever numbers and lists are in it.

Real controllers and a real scheduler with a hollow node. After each object another tenant's Deployment gets its pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.controllers.all import CONTROLLERS
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.cluster import tenant_is_ready
from alcove.testing.controllers import RunningControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import LocalServer, ServerResponse, wait_until

ATTACKER, QUIET = "mallory", "quiet"
SECONDS_MAX = 30.0
"""For another tenant's pod. What is meant here takes minutes, or for ever."""
MOST = 2**31 - 1
CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
BATCH, NETWORKING = "/apis/batch/v1/namespaces/default", "/apis/networking.k8s.io/v1/namespaces/default"
SCALING, POLICY = "/apis/autoscaling/v2/namespaces/default", "/apis/policy/v1/namespaces/default"
MANY = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(8_000)]


def template(name: str, **spec: object) -> Object:
    container = {"name": "main", "image": "alcove/busybox"}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}}


def workload(name: str, replicas: int = 1, **spec: object) -> Object:
    selector = {"matchLabels": {"app": name}}
    wanted: Object = {"replicas": replicas, "selector": selector, "template": template(name), **spec}
    return {"metadata": {"name": name}, "spec": wanted}


def job(name: str, **spec: object) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"template": template(name, restartPolicy="Never"), **spec},
    }


def cron(name: str, schedule: str, **spec: object) -> Object:
    wanted: Object = {"schedule": schedule, "jobTemplate": {"spec": job(name)["spec"]}, **spec}
    return {"metadata": {"name": name}, "spec": wanted}


def made(name: str, **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": spec}


def metric(target: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def scaler(name: str, metrics: list[Object]) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    return made(name, minReplicas=1, maxReplicas=MOST, scaleTargetRef=target, metrics=metrics)


INDEXED = {"completionMode": "Indexed", "completions": MOST}
SPREAD = {
    "maxSkew": MOST,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchExpressions": MANY[:40]},
}
TERM = {"labelSelector": {"matchExpressions": MANY[:20]}, "topologyKey": "kubernetes.io/hostname"}
NODE_TERM = {"matchExpressions": [{"key": "a", "operator": "In", "values": [str(n) for n in range(50)]}]}
HUGE_UTILIZATION = {"type": "Utilization", "averageUtilization": MOST}

OBJECTS: dict[str, tuple[str, Object]] = {
    "replica set of all pods": (f"{APPS}/replicasets", workload("a", MOST)),
    "deployment of all pods": (
        f"{APPS}/deployments",
        workload("b", MOST, strategy={"rollingUpdate": {"maxSurge": "100%", "maxUnavailable": MOST}}),
    ),
    "selector of thousands": (
        f"{APPS}/deployments",
        workload("c", selector={"matchLabels": {"app": "c"}, "matchExpressions": MANY}),
    ),
    "parallel set of all pods": (
        f"{APPS}/statefulsets",
        workload("d", MOST, serviceName="s", podManagementPolicy="Parallel"),
    ),
    "ordinals at the end": (
        f"{APPS}/statefulsets",
        workload("e", 3, serviceName="s", podManagementPolicy="Parallel", ordinals={"start": MOST}),
    ),
    "controller of all pods": (
        f"{CORE}/replicationcontrollers",
        workload("f", MOST, selector={"app": "f"}),
    ),
    "job of all pods": (f"{BATCH}/jobs", job("g", completions=MOST, parallelism=MOST)),
    "job of all indexes": (f"{BATCH}/jobs", job("h", parallelism=1, **INDEXED)),
    "success of all indexes": (
        f"{BATCH}/jobs",
        job("i", parallelism=1, successPolicy={"rules": [{"succeededCount": 5}]}, **INDEXED),
    ),
    "schedule without a day": (f"{BATCH}/cronjobs", cron("j", "0 0 30 2 *")),
    "schedule with a rare day": (
        f"{BATCH}/cronjobs",
        cron("k", "0 0 29 2 1", timeZone="Europe/Berlin", startingDeadlineSeconds=2**62),
    ),
    "schedule of a megabyte": (f"{BATCH}/cronjobs", cron("l", ",".join(["0-59/1"] * 100_000) + " * * * *")),
    "thousands of metrics": (
        f"{SCALING}/horizontalpodautoscalers",
        scaler("m", [metric(HUGE_UTILIZATION)] * 4_000),
    ),
    "odd quantities": (
        f"{SCALING}/horizontalpodautoscalers",
        scaler("n", [metric({"type": "AverageValue", "averageValue": "1n"})]),
    ),
    "budget of thousands of terms": (
        f"{POLICY}/poddisruptionbudgets",
        made("o", minAvailable="100%", selector={"matchExpressions": MANY}),
    ),
    "budget of all pods": (
        f"{POLICY}/poddisruptionbudgets",
        made("p", maxUnavailable=MOST, selector={}),
    ),
    "spread over a thousand keys": (
        f"{CORE}/pods",
        made(
            "q",
            **template("q")["spec"],
            topologySpreadConstraints=[{**SPREAD, "topologyKey": f"k{n}"} for n in range(100)],
        ),
    ),
    "affinity to a thousand terms": (
        f"{CORE}/pods",
        made(
            "r",
            **template("r")["spec"],
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM] * 300}},
        ),
    ),
    "nodes of hundreds of terms": (
        f"{CORE}/pods",
        made(
            "s",
            **template("s")["spec"],
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM] * 400}
                }
            },
        ),
    ),
    "thousands of claims": (
        f"{CORE}/pods",
        made(
            "t",
            **template("t")["spec"],
            volumes=[
                {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(4_000)
            ],
        ),
    ),
    "claim of everything": (
        f"{CORE}/persistentvolumeclaims",
        made(
            "u",
            accessModes=["ReadWriteOnce"],
            selector={"matchExpressions": MANY},
            resources={"requests": {"storage": str(2**63 - 1)}},
        ),
    ),
    "service of thousands of labels": (
        f"{CORE}/services",
        made("v", selector={f"k{n}": "v" for n in range(8_000)}, ports=[{"port": 1}]),
    ),
    "policy of thousands of terms": (
        f"{NETWORKING}/networkpolicies",
        made("w", podSelector={}, ingress=[{"from": [{"podSelector": {"matchExpressions": MANY}}]}]),
    ),
    "quota of thousands of kinds": (
        f"{CORE}/resourcequotas",
        made("x", hard={f"count/k{n}.example": "1" for n in range(4_000)}),
    ),
    "thousands of owners": (
        f"{CORE}/configmaps",
        {
            "metadata": {
                "name": "y",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": f"x{n}", "uid": f"u{n}"} for n in range(5_000)
                ],
            }
        },
    ),
}

_NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("workloads")
    with (
        LocalServer(directory / "server") as running,
        RunningControllers(running.admin_kubeconfig, CONTROLLERS),
        LocalScheduler(running.admin_kubeconfig, directory),
        LocalAgent(node_kubeconfig(running, "n1"), directory / "n1", "n1", "--hollow"),
    ):
        # Few pods are enough: what is planned is not bounded by what may be created.
        bounded = {"quota": {"hard": {"pods": "10"}}}
        for name, spec in ((ATTACKER, bounded), (QUIET, {})):
            answer = running.system.post("/api/v1/tenants", {"metadata": {"name": name}, "spec": spec})
            assert answer.status == 201, answer.body
            wait_until(lambda name=name: tenant_is_ready(running, name), 60.0)
        yield running


def quiet_pod_starts(server: LocalServer) -> None:
    """Another tenant's Deployment gets a pod that runs."""
    caller, name = server.as_tenant(QUIET), f"web{next(_NUMBERS)}"
    assert caller.post(f"{APPS}/deployments", workload(name)).status == 201

    def is_running() -> bool:
        items = caller.get(f"{CORE}/pods?labelSelector=app={name}").json["items"]
        return any(each.get("status", {}).get("phase") == "Running" for each in items)

    wait_until(is_running, SECONDS_MAX)
    assert caller.delete(f"{APPS}/deployments/{name}").status == 200


@pytest.mark.parametrize(("path", "obj"), OBJECTS.values(), ids=OBJECTS)
def test_others_get_their_pods(server: LocalServer, path: str, obj: Object) -> None:
    attacker = server.as_tenant(ATTACKER)

    def created() -> ServerResponse | None:
        """None while pods of the objects before take up the quota."""
        found = attacker.post(path, obj)
        return found if found.status != 403 else None

    answer: ServerResponse = wait_until(created, SECONDS_MAX)
    assert answer.status in (201, 422), answer.body
    quiet_pod_starts(server)
    if answer.status == 201:
        attacker.delete(f"{path}/{obj['metadata']['name']}", {"propagationPolicy": "Background"})


def test_a_status_of_two_billion_indexes_takes_no_memory(server: LocalServer) -> None:
    """A number of twelve characters in a status took all memory of the controllers."""
    attacker, path = server.as_tenant(ATTACKER), f"{BATCH}/jobs/indexes"
    wanted = job("indexes", parallelism=1, **INDEXED)
    assert attacker.post(f"{BATCH}/jobs", wanted).status == 201
    wait_until(lambda: "startTime" in attacker.get(path).json.get("status", {}))
    status = {"completedIndexes": f"0-{MOST - 2}", "succeeded": MOST - 1}
    answer = attacker.patch(f"{path}/status", {"status": status})
    assert answer.status in (200, 422), answer.body
    quiet_pod_starts(server)
    attacker.delete(path, {"propagationPolicy": "Background"})
