"""Pods of nodes that are gone, and jobs that have had their time."""

import asyncio
import time

import pytest

from alcove.api import meta
from alcove.api.ids import TenantId
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.events import EventRecorder
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.controllers import podgc
from alcove.controllers.controller import ControllerContext
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.podgc import PodGarbageCollector
from alcove.controllers.ttl import TtlAfterFinished
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, node: str = "") -> dict[str, object]:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(autouse=True)
def running(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(podgc, "NODE_GONE_SECONDS", 0.2)
    monkeypatch.setattr(podgc, "FINISHED_MAX", 3)
    with RunningControllers(server.admin_kubeconfig, (PodGarbageCollector, TtlAfterFinished)) as running:
        yield running


def test_pods_of_a_node_that_is_gone_fail_and_go(server: LocalServer, tenant: Caller) -> None:
    server.system.post("/api/v1/nodes", {"metadata": {"name": "stays"}})
    for name, node in (("lost", "never-was"), ("fine", "stays"), ("pending", "")):
        assert tenant.post(PODS, pod(name, node)).status == 201
    wait_until(lambda: tenant.get(f"{PODS}/lost").status == 404)
    assert tenant.get(f"{PODS}/fine").status == 200 and tenant.get(f"{PODS}/pending").status == 200
    server.system.delete("/api/v1/nodes/stays")
    wait_until(lambda: tenant.get(f"{PODS}/fine").status == 404)


def test_a_node_that_never_comes_back_is_forgotten_with_its_last_pod() -> None:
    """The collector remembered every node that had ever been lost."""

    async def forgotten() -> None:
        async with Planes() as planes:
            context = ControllerContext(
                planes=planes, metadata_cache=MetadataCache(planes), recorder=EventRecorder(planes.client, time.time),
                clock=time.time, authorities={},
            )  # fmt: skip
            collector = PodGarbageCollector(context)
            key = ObjectKey(HOME, TenantId("t"), "default", "p")
            collector._absent_since["lost"] = 0.0
            list(collector._pod(ObjectChange(ChangeType.DELETED, key, pod("p", "lost"))))
            assert collector._absent_since == {}

    asyncio.run(forgotten())


def test_a_pod_ending_on_a_node_out_of_service_goes(server: LocalServer, tenant: Caller) -> None:
    server.system.post("/api/v1/nodes", {"metadata": {"name": "broken"}})
    tenant.post(PODS, pod("p", "broken"))
    tenant.delete(f"{PODS}/p")
    assert "deletionTimestamp" in tenant.get(f"{PODS}/p").json["metadata"]
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    server.system.patch("/api/v1/nodes/broken", {"spec": {"taints": [taint]}})
    wait_until(lambda: tenant.get(f"{PODS}/p").status == 404)


def test_of_finished_pods_the_newest_are_kept(tenant: Caller) -> None:
    for number in range(6):
        tenant.post(PODS, pod(f"f{number}"))
        tenant.patch(f"{PODS}/f{number}/status", {"status": {"phase": "Succeeded"}})
    wait_until(lambda: len(tenant.get(PODS).json["items"]) == 3)


def test_a_finished_job_goes_after_its_time(tenant: Caller) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name, ttl in (("soon", 1), ("late", 3_600)):
        job = {"metadata": {"name": name}, "spec": {"ttlSecondsAfterFinished": ttl, "template": template}}
        assert tenant.post(path, job).status == 201
        now = meta.format_time(time.time())
        status = {
            "startTime": now,
            "completionTime": now,
            "succeeded": 1,
            "conditions": [
                {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
                {"type": "Complete", "status": "True", "lastTransitionTime": now},
            ],
        }
        answer = tenant.patch(f"{path}/{name}/status", {"status": status})
        assert answer.status == 200, answer.body
    # It is deleted in the foreground, which the garbage collector would finish.
    wait_until(lambda: "deletionTimestamp" in tenant.get(f"{path}/soon").json["metadata"])
    assert "deletionTimestamp" not in tenant.get(f"{path}/late").json["metadata"]
