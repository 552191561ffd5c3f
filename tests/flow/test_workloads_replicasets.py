"""Replica sets and replication controllers, as kubectl's users see them."""

import random
from collections.abc import Callable
from typing import Any

import orjson

from alcove.api.objects import Object
from alcove.client.transport import Transport
from alcove.controllers.replicasets import ReplicaSetController
from alcove.testing.controllers import RunningControllers
from alcove.testing.faults import FaultyTransport
from alcove.testing.server import Caller, LocalServer, wait_until

SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"


def made(name: str, replicas: int) -> Object:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }


def pods(caller: Caller, app: str) -> list[Any]:
    return orjson.loads(caller.get(f"{PODS}?labelSelector=app%3D{app}").body)["items"]  # type: ignore[no-any-return]


def status(caller: Caller, name: str) -> Object:
    return caller.get(f"{SETS}/{name}").json.get("status") or {}


def test_so_many_pods_no_more_no_fewer(tenant_admin: Caller) -> None:
    tenant = tenant_admin
    assert tenant.post(SETS, made("web", 5)).status == 201
    wait_until(lambda: status(tenant, "web").get("replicas") == 5)
    there = pods(tenant, "web")
    assert len(there) == 5 and all(pod["metadata"]["name"].startswith("web-") for pod in there)
    (owner,) = there[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)
    tenant.kubectl("delete", "pod", there[0]["metadata"]["name"], "--wait=false")
    wait_until(lambda: len(pods(tenant, "web")) == 5 and there[0] not in pods(tenant, "web"))
    tenant.kubectl("scale", "rs/web", "--replicas=2")
    wait_until(lambda: len(pods(tenant, "web")) == 2 and status(tenant, "web")["replicas"] == 2)
    wait_until(
        lambda: "SuccessfulCreate" in tenant.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
    )


def test_pods_that_are_ending_are_counted_until_they_are_gone(tenant_admin: Caller) -> None:
    tenant, wanted = tenant_admin, made("ending", 1)
    wanted["spec"]["template"]["metadata"]["finalizers"] = ["example.com/hold"]
    tenant.post(SETS, wanted)
    wait_until(lambda: status(tenant, "ending")["replicas"] == 1)
    [pod] = pods(tenant, "ending")
    tenant.delete(f"{PODS}/{pod['metadata']['name']}")
    wait_until(lambda: status(tenant, "ending")["terminatingReplicas"] == 1)
    tenant.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"finalizers": None}})
    wait_until(lambda: status(tenant, "ending")["terminatingReplicas"] == 0)


def test_a_set_in_a_namespace_that_does_not_end_keeps_nobody_busy(
    server: LocalServer, tenant: Caller
) -> None:
    """A pod could not be created there any more, and the controller tried again at once, thousands of times a second."""
    transports: list[FaultyTransport] = []

    def through(inner: Transport) -> Transport:
        transports.append(FaultyTransport(inner, random.Random(0)))
        return transports[-1]

    ending = SETS.replace("default", "ending")
    for name in ("default", "ending"):
        tenant.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert tenant.post(ending, made("web", 2)).status == 201
    # Nobody empties it here: it stays, as one does whose pods have finalizers.
    assert tenant.delete("/api/v1/namespaces/ending").status == 200
    with RunningControllers(server.admin_kubeconfig, (ReplicaSetController,), through=through):
        for number in range(20):
            name = f"other-{number}"
            assert tenant.post(SETS, made(name, 1)).status == 201
            wait_until(lambda name=name: status(tenant, name).get("replicas") == 1)
    asked = [each for transport in transports for each in transport.requests]
    assert 1 <= sum("namespaces/ending/pods" in each for each in asked) <= 3


def test_readiness_comes_to_the_status(tenant_admin: Caller) -> None:
    tenant = tenant_admin
    tenant.post(SETS, made("web", 2))
    wait_until(lambda: len(pods(tenant, "web")) == 2)
    ready = {"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"},
    ]}  # fmt: skip
    for pod in pods(tenant, "web"):
        path = f"{PODS}/{pod['metadata']['name']}/status"
        assert tenant.patch(path, {"status": ready}).status == 200
    wait_until(lambda: status(tenant, "web").get("availableReplicas") == 2)


def test_pods_are_adopted_and_released_by_their_labels(tenant_admin: Caller) -> None:
    tenant = tenant_admin
    # On a node: should the set make its pods before it has seen this one, it gives up one that is on none.
    loose = {
        "metadata": {"name": "loose", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    assert tenant.post(PODS, loose).status == 201
    tenant.post(SETS, made("web", 2))
    wait_until(lambda: status(tenant, "web").get("replicas") == 2)
    [owner] = wait_until(lambda: tenant.get(f"{PODS}/loose").json["metadata"].get("ownerReferences"))
    assert owner["name"] == "web"
    tenant.kubectl("label", "--overwrite", "pod/loose", "app=other")
    wait_until(lambda: "ownerReferences" not in tenant.get(f"{PODS}/loose").json["metadata"])
    wait_until(lambda: len(pods(tenant, "web")) == 2)
    assert tenant.get(f"{PODS}/loose").status == 200


def test_a_refused_pod_is_reported_and_created_later(tenant_admin: Caller) -> None:
    tenant = tenant_admin
    tenant.kubectl("create", "quota", "few", "--hard=pods=1")
    tenant.post(SETS, made("web", 3))
    failure = wait_until(lambda: status(tenant, "web").get("conditions"))[0]
    assert (failure["type"], failure["reason"]) == ("ReplicaFailure", "FailedCreate")
    assert "exceeded quota: few" in failure["message"]
    message = wait_until(
        lambda: tenant.kubectl(
            "get", "events", "--field-selector=reason=FailedCreate", "-o", "jsonpath={.items[*].message}"
        )
    )
    assert "Error creating: pods" in message
    tenant.kubectl("delete", "quota", "few")
    wait_until(lambda: "conditions" not in status(tenant, "web") and len(pods(tenant, "web")) == 3)


def test_replication_controllers_do_the_same(tenant_admin: Caller) -> None:
    tenant = tenant_admin
    obj = made("old", 3)
    obj["spec"]["selector"] = {"app": "old"}
    path = "/api/v1/namespaces/default/replicationcontrollers"
    assert tenant.post(path, obj).status == 201
    wait_until(lambda: tenant.get(f"{path}/old").json.get("status", {}).get("replicas") == 3)
    tenant.kubectl("scale", "rc/old", "--replicas=1")
    wait_until(lambda: len(pods(tenant, "old")) == 1)


def test_another_tenants_pods_with_the_same_labels_are_not_touched(
    tenant_admins: Callable[[], Caller],
) -> None:
    tenant, other = tenant_admins(), tenant_admins()
    loose = {
        "metadata": {"name": "mine", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert other.post(PODS, loose).status == 201
    tenant.post(SETS, made("web", 1))
    wait_until(lambda: status(tenant, "web").get("replicas") == 1)
    assert "ownerReferences" not in other.get(f"{PODS}/mine").json["metadata"]
