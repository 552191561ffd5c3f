"""Stateful sets come up in order, keep their claims, and are updated from the top; the test plays the nodes."""

from alcove.api.objects import Object
from alcove.testing.server import Caller, wait_until

SETS = "/apis/apps/v1/namespaces/default/statefulsets"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
}


def made(replicas: int, **spec: object) -> Object:
    labels = {"app": "db"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "v1"}]}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": pod,
            "volumeClaimTemplates": [claim],
            **spec,
        },
    }


def names(caller: Caller, path: str = PODS) -> list[str]:
    return sorted(each["metadata"]["name"] for each in caller.get(path).json["items"])


def make_ready(caller: Caller, name: str) -> None:
    assert caller.patch(f"{PODS}/{name}/status", {"status": READY}).status == 200


def image(caller: Caller, name: str) -> str:
    pod = caller.get(f"{PODS}/{name}")
    return str(pod.json["spec"]["containers"][0]["image"]) if pod.status == 200 else ""


def status(caller: Caller) -> Object:
    return caller.get(f"{SETS}/db").json.get("status") or {}


def test_pods_come_in_order_with_claims_and_are_updated_from_the_top(tenant_admin: Caller) -> None:
    assert tenant_admin.post(SETS, made(2)).status == 201
    wait_until(lambda: names(tenant_admin) == ["db-0"])
    make_ready(tenant_admin, "db-0")
    wait_until(lambda: names(tenant_admin) == ["db-0", "db-1"])
    make_ready(tenant_admin, "db-1")
    wait_until(lambda: status(tenant_admin).get("readyReplicas") == 2)
    assert names(tenant_admin, CLAIMS) == ["data-db-0", "data-db-1"]
    tenant_admin.kubectl("set", "image", "sts/db", "c=v2")
    wait_until(lambda: image(tenant_admin, "db-1") == "v2")
    assert image(tenant_admin, "db-0") == "v1"
    make_ready(tenant_admin, "db-1")
    wait_until(lambda: image(tenant_admin, "db-0") == "v2")
    make_ready(tenant_admin, "db-0")
    tenant_admin.kubectl("rollout", "status", "sts/db", "--timeout=90s")
    assert status(tenant_admin)["currentRevision"] == status(tenant_admin)["updateRevision"]
    tenant_admin.kubectl("rollout", "undo", "sts/db")
    wait_until(lambda: image(tenant_admin, "db-1") == "v1")


def test_scaling_down_keeps_claims_or_lets_them_go(tenant_admin: Caller) -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    spec = {"podManagementPolicy": "Parallel", "persistentVolumeClaimRetentionPolicy": policy}
    assert tenant_admin.post(SETS, made(3, **spec)).status == 201
    wait_until(lambda: names(tenant_admin) == ["db-0", "db-1", "db-2"])
    wait_until(lambda: len(names(tenant_admin, CLAIMS)) == 3)
    tenant_admin.kubectl("scale", "sts/db", "--replicas=1")
    wait_until(lambda: names(tenant_admin) == ["db-0"])
    wait_until(lambda: names(tenant_admin, CLAIMS) == ["data-db-0"])
    tenant_admin.kubectl("delete", "sts", "db")
    wait_until(lambda: not names(tenant_admin))
    assert names(tenant_admin, CLAIMS) == ["data-db-0"]
