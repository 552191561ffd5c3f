"""Tenants that sleep and wake, with pods on a hollow node: what ends, what stays, and what comes back."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from alcove.api import meta
from alcove.api.objects import Object, get
from alcove.processes.main import app
from alcove.testing.cluster import condition, tenant_is_ready
from alcove.testing.server import Caller, LocalServer, wait_until

NAMESPACE = "/api/v1/namespaces/default"
APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
RECORDS = "/api/v1/namespaces/kube-system/configmaps?labelSelector=alcove.io/sleeping-pod"


@pytest.fixture(scope="module")
def cluster(hollow_cluster: LocalServer) -> LocalServer:
    return hollow_cluster


def make_tenant(cluster: LocalServer, name: str) -> Caller:
    assert cluster.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
    wait_until(lambda: tenant_is_ready(cluster, name), 60)
    return cluster.as_tenant(name)


def alcove(cluster: LocalServer, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--kubeconfig", str(cluster.admin_kubeconfig)])
    assert done.exit_code == 0, done.output
    return done.output


def make(caller: Caller, path: str, body: Object) -> Object:
    answer = caller.post(path, body)
    assert answer.status == 201, answer.body
    made: Object = answer.json
    return made


def workload(name: str, **spec: Any) -> Object:
    labels = {"app": name}
    containers = [{"name": "c", "image": "alcove/busybox"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def pods(caller: Caller) -> list[Object]:
    items: list[Object] = caller.get(PODS).json["items"]
    return items


def ready(caller: Caller, count: int) -> bool:
    found = [pod for pod in pods(caller) if "deletionTimestamp" not in pod["metadata"]]
    return len(found) == count and all(condition(pod, "Ready") == "True" for pod in found)


def test_a_sleeping_tenants_pods_end_and_all_of_them_come_back(cluster: LocalServer) -> None:
    acme, beta = make_tenant(cluster, "sleeper"), make_tenant(cluster, "beside")
    make(beta, f"{APPS}/deployments", workload("other", replicas=1))
    make(acme, f"{APPS}/deployments", workload("web", replicas=2))
    make(acme, f"{APPS}/statefulsets", workload("db", replicas=1, serviceName="db"))
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    address = make(acme, f"{NAMESPACE}/services", service)["spec"]["clusterIP"]
    job = workload("batch")["spec"]["template"]
    job["spec"] |= {"restartPolicy": "Never"}
    make(acme, f"{BATCH}/jobs", {"metadata": {"name": "batch"}, "spec": {"backoffLimit": 0, "template": job}})
    bare = {"name": "alone", "labels": {"mine": "yes"}, "annotations": {"mine": "too"}}
    make(acme, PODS, {"metadata": bare, "spec": {"containers": [{"name": "c", "image": "alcove/busybox"}]}})
    wait_until(lambda: ready(acme, 5) and ready(beta, 1), 60)
    before = {pod["metadata"]["uid"] for pod in pods(acme)}

    assert "tenant/sleeper is asleep" in alcove(cluster, "tenant", "sleep", "sleeper")
    assert "Asleep" in alcove(cluster, "tenant", "list")
    wait_until(lambda: cluster.system.get(RECORDS).json["items"] == [], 60)
    # A pod of each controller waits, and so does the one that has none; the job has none.
    wait_until(lambda: sorted(waiting(acme)) == ["alone", "db-0", "web", "web"], 60)
    assert acme.get(f"{APPS}/deployments/web").json["spec"]["replicas"] == 2
    found = acme.get(f"{BATCH}/jobs/batch").json
    assert found["spec"]["suspend"] is False and not found["status"].get("failed")
    assert ready(beta, 1), "another tenant's pods ended"

    refused = acme.post(
        PODS, {"metadata": {"name": "sly"}, "spec": {**pods(acme)[0]["spec"], "nodeName": "n1"}}
    )
    assert refused.status == 403 and "asleep" in refused.json["message"]

    alcove(cluster, "tenant", "wake", "sleeper")
    wait_until(lambda: ready(acme, 5), 60)
    assert not before & {pod["metadata"]["uid"] for pod in pods(acme)}
    alone = acme.get(f"{PODS}/alone").json
    assert alone["metadata"]["labels"]["mine"] == "yes" and alone["metadata"]["annotations"]["mine"] == "too"
    assert acme.get(f"{NAMESPACE}/services/web").json["spec"]["clusterIP"] == address
    assert condition(acme.get(f"{BATCH}/jobs/batch").json, "Failed") != "True"


def waiting(caller: Caller) -> list[str]:
    """The pods without a node, by their own name or their deployment's; empty while any pod is on a node."""
    found = pods(caller)
    if any(pod["spec"].get("nodeName") for pod in found):
        return []
    reasons = [get(pod, "status", "conditions", default=[]) for pod in found]
    if not all(any("asleep" in each.get("message", "") for each in conditions) for conditions in reasons):
        return []
    names = [pod["metadata"]["name"] for pod in found]
    return ["web" if name.startswith("web-") else name for name in names]


def test_a_pod_without_a_controller_survives_what_stops_the_controllers(cluster: LocalServer) -> None:
    """The record in ring0 brings it back, even if the pod was deleted and nothing else was done."""
    caller = make_tenant(cluster, "careful")
    manifest = {
        "metadata": {"name": "kept"},
        "spec": {"containers": [{"name": "c", "image": "alcove/busybox"}]},
    }
    data = {"plane": "system", "tenant": "careful", "namespace": "default", "name": "kept", "uid": "gone"}
    record = {
        "metadata": {"name": "sleeping-pod-gone", "labels": {"alcove.io/sleeping-pod": "true"}},
        "data": {**data, "manifest": orjson.dumps(manifest).decode()},
    }
    make(cluster.system, "/api/v1/namespaces/kube-system/configmaps", record)
    wait_until(lambda: caller.get(f"{PODS}/kept").status == 200, 60)
    wait_until(lambda: cluster.system.get(RECORDS).json["items"] == [], 60)


def test_a_cron_job_starts_nothing_while_its_tenant_sleeps(cluster: LocalServer) -> None:
    caller = make_tenant(cluster, "nightly")
    alcove(cluster, "tenant", "sleep", "nightly")
    template = workload("tick")["spec"]["template"]
    template["spec"] |= {"restartPolicy": "Never"}
    spec = {"schedule": "@every 1s", "jobTemplate": {"spec": {"template": template}}}
    make(caller, f"{BATCH}/cronjobs", {"metadata": {"name": "tick"}, "spec": spec})
    # A deployment that is made later is handled by the same process: then the cron job has been seen too.
    make(caller, f"{APPS}/deployments", workload("later", replicas=1))
    wait_until(lambda: [each for each in waiting(caller) if each.startswith("later-")], 60)
    assert caller.get(f"{BATCH}/jobs").json["items"] == []
    alcove(cluster, "tenant", "wake", "nightly")
    wait_until(lambda: caller.get(f"{BATCH}/jobs").json["items"], 60)


def test_a_request_wakes_a_tenant_that_sleeps_for_inactivity(cluster: LocalServer) -> None:
    caller = make_tenant(cluster, "idle")
    path = "/api/v1/tenants/idle"
    patched = cluster.system.patch(path, {"spec": {"sleep": {"afterInactivity": "1h"}}})
    assert patched.status == 200
    wait_until(lambda: "lastActivityTime" in cluster.system.get(path).json["status"], 60)
    long_ago = {"status": {"lastActivityTime": meta.format_time(time.time() - 4000)}}
    assert cluster.system.patch(f"{path}/status", long_ago).status == 200
    wait_until(lambda: condition(cluster.system.get(path).json, "Asleep") == "True", 60)
    assert caller.get(PODS).status == 200, "the API of a sleeping tenant answers"
    wait_until(lambda: condition(cluster.system.get(path).json, "Asleep") == "False", 60)


def test_a_tenants_admin_does_not_put_tenants_to_sleep(cluster: LocalServer) -> None:
    caller = make_tenant(cluster, "lazy")
    for tenant in ("lazy", "system", "missing"):
        for asleep in (True, False):
            answer = caller.patch(f"/api/v1/tenants/{tenant}", {"spec": {"sleep": {"asleep": asleep}}})
            assert answer.status == 403, answer.body


@pytest.mark.parametrize(
    "sleep", [{"afterInactivity": "1s"}, {"schedule": {"sleep": "x"}}, {"asleep": "yes"}, {"schedule": {}}]
)
def test_an_invalid_sleep_is_refused(cluster: LocalServer, sleep: Object) -> None:
    body = {"metadata": {"name": "restless"}, "spec": {"sleep": sleep}}
    assert cluster.system.post("/api/v1/tenants", body).status in (400, 422)
