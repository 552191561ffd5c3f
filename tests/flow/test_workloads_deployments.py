"""Deployments rolled out, back, paused and scaled with kubectl; the test plays the nodes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import orjson
import pytest

from alcove.api.objects import Object
from alcove.testing.server import Caller, wait_until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}],
}


def made(name: str, replicas: int, image: str = "v1", **spec: object) -> Object:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            **spec,
        },
    }


def items(caller: Caller, path: str) -> list[Object]:
    return orjson.loads(caller.get(path).body)["items"]  # type: ignore[no-any-return]


def images(caller: Caller) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in items(caller, PODS))


def status(caller: Caller, name: str) -> Object:
    return caller.get(f"{DEPLOYMENTS}/{name}").json.get("status") or {}


def reason(caller: Caller, name: str) -> str:
    conditions = status(caller, name).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "Progressing"), "")


def make_ready(caller: Caller, broken: str = "") -> None:
    for pod in items(caller, PODS):
        if pod["status"].get("phase") != "Running" and pod["spec"]["containers"][0]["image"] != broken:
            caller.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": READY})


@contextmanager
def nodes(caller: Caller, broken: str = "") -> Iterator[None]:
    """Every pod becomes ready soon, except those of a broken image."""
    own, over = Caller(caller.kubeconfig), threading.Event()

    def play() -> None:
        while not over.wait(0.05):
            make_ready(own, broken)

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        own.close()


def test_rolling_out_and_back(tenant_admin: Caller) -> None:
    with nodes(tenant_admin):
        assert tenant_admin.post(DEPLOYMENTS, made("web", 4)).status == 201
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
        tenant_admin.kubectl("set", "image", "deploy/web", "c=v2")
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
        wait_until(lambda: images(tenant_admin) == ["v2"] * 4)
        history = tenant_admin.kubectl("rollout", "history", "deploy/web")
        assert [line.split()[0] for line in history.splitlines() if line[:1].isdigit()] == ["1", "2"]
        tenant_admin.kubectl("rollout", "undo", "deploy/web")
        wait_until(lambda: images(tenant_admin) == ["v1"] * 4)
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
    deployment = tenant_admin.get(f"{DEPLOYMENTS}/web").json
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"
    assert len(items(tenant_admin, SETS)) == 2
    wait_until(lambda: reason(tenant_admin, "web") == "NewReplicaSetAvailable")
    counts = status(tenant_admin, "web")
    assert (counts["replicas"], counts["updatedReplicas"], counts["availableReplicas"]) == (4, 4, 4)
    assert counts["observedGeneration"] == deployment["metadata"]["generation"]
    wait_until(
        lambda: (
            "ScalingReplicaSet" in tenant_admin.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
        )
    )


def test_a_broken_image_stops_the_rollout_and_is_reported(tenant_admin: Caller) -> None:
    with nodes(tenant_admin, broken="broken"):
        tenant_admin.post(DEPLOYMENTS, made("web", 4))
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
        broken = made("web", 4, "broken", progressDeadlineSeconds=2)["spec"]
        assert tenant_admin.patch(f"{DEPLOYMENTS}/web", {"spec": broken}).status == 200
        wait_until(lambda: reason(tenant_admin, "web") == "ProgressDeadlineExceeded")
        # No more than a quarter is taken away; instead of that, and of the surge, there are new ones.
        wait_until(lambda: images(tenant_admin) == ["broken"] * 2 + ["v1"] * 3)
    message = tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s", check=False)
    assert "exceeded its progress deadline" in message


def test_recreating_waits_until_everything_old_is_gone(tenant_admin: Caller) -> None:
    with nodes(tenant_admin):
        tenant_admin.post(DEPLOYMENTS, made("web", 2, strategy={"type": "Recreate"}))
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
        held = items(tenant_admin, PODS)[0]["metadata"]["name"]
        tenant_admin.patch(f"{PODS}/{held}", {"metadata": {"finalizers": ["example.com/held"]}})
        tenant_admin.kubectl("set", "image", "deploy/web", "c=v2")
        wait_until(lambda: images(tenant_admin) == ["v1"])
        wait_until(lambda: "deletionTimestamp" in tenant_admin.get(f"{PODS}/{held}").json["metadata"])
        tenant_admin.patch(f"{PODS}/{held}", {"metadata": {"finalizers": None}})
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
    assert images(tenant_admin) == ["v2", "v2"]


def test_pausing_holds_back_a_template_but_not_scaling(tenant_admin: Caller) -> None:
    with nodes(tenant_admin):
        tenant_admin.post(DEPLOYMENTS, made("web", 2))
        tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
        tenant_admin.kubectl("rollout", "pause", "deploy/web")
        tenant_admin.kubectl("set", "image", "deploy/web", "c=v2")
        tenant_admin.kubectl("scale", "deploy/web", "--replicas=3")
        wait_until(lambda: images(tenant_admin) == ["v1"] * 3)
        wait_until(lambda: reason(tenant_admin, "web") == "DeploymentPaused")
        tenant_admin.kubectl("rollout", "resume", "deploy/web")
        wait_until(lambda: images(tenant_admin) == ["v2"] * 3)


def test_history_is_kept_to_its_limit(tenant_admin: Caller) -> None:
    with nodes(tenant_admin):
        tenant_admin.post(DEPLOYMENTS, made("web", 1, revisionHistoryLimit=1))
        for image in ("v2", "v3", "v4"):
            tenant_admin.kubectl("rollout", "status", "deploy/web", "--timeout=90s")
            tenant_admin.kubectl("set", "image", "deploy/web", f"c={image}")
        wait_until(lambda: images(tenant_admin) == ["v4"])
        wait_until(lambda: len(items(tenant_admin, SETS)) == 2)


def test_tenants_deployments_of_one_name_do_not_meet(tenant_admins: Callable[[], Caller]) -> None:
    one, other = tenant_admins(), tenant_admins()
    for caller, replicas in ((one, 1), (other, 3)):
        assert caller.post(DEPLOYMENTS, made("web", replicas)).status == 201
    wait_until(lambda: len(items(one, PODS)) == 1 and len(items(other, PODS)) == 3)
    one.kubectl("scale", "deploy/web", "--replicas=0")
    wait_until(lambda: not items(one, PODS))
    assert len(items(other, PODS)) == 3


@pytest.mark.slow
def test_a_thousand_pods_are_made_once_each(tenant_admin: Caller) -> None:
    tenant_admin.post(DEPLOYMENTS, made("web", 1000))
    wait_until(lambda: status(tenant_admin, "web").get("replicas") == 1000)
    assert len(items(tenant_admin, PODS)) == 1000
