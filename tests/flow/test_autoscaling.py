"""Autoscalers through a real server; of the metrics API, which needs nodes, the test itself is the server."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from alcove.api import meta
from alcove.client.transport import Stream, Transport
from alcove.controllers.autoscaling import HorizontalPodAutoscalerController, controller
from alcove.controllers.deployments import DeploymentController
from alcove.controllers.replicasets import ReplicaSetController
from alcove.http.client import ReceivedResponse
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


class Metered:
    """Answers for the metrics API, of each tenant its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[str, str] = {}
        self.pods: Callable[[str], list[str]] = lambda _tenant: []
        self.meanwhile: dict[str, Callable[[], object]] = {}
        """By tenant, what happens while its target's scale is asked for."""

    def use(self, tenant: str, cpu: str) -> None:
        with self._lock:
            self._used[tenant] = cpu

    def answer(self, path: str) -> ReceivedResponse | None:
        if not path.startswith("/apis/metrics.k8s.io/v1beta1/tenants/"):
            return None
        tenant = path.split("/")[5]
        assert path.split("/")[6:8] == ["namespaces", "default"] and "labelSelector=app%3D" in path
        with self._lock:
            cpu = self._used.get(tenant)
        if cpu is None:
            error = {
                "kind": "Status",
                "code": 404,
                "reason": "NotFound",
                "message": "nothing is measured here",
            }
            return ReceivedResponse(404, {}, orjson.dumps(error))
        now = meta.format_time(time.time())
        items = [
            {
                "metadata": {"name": name},
                "timestamp": now,
                "window": "15s",
                "containers": [{"name": "c", "usage": {"cpu": cpu}}],
            }
            for name in self.pods(tenant)
        ]
        return ReceivedResponse(200, {}, orjson.dumps({"items": items}))


class _Through:
    def __init__(self, inner: Transport, metered: Metered) -> None:
        self._inner = inner
        self._metered = metered

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        if method == "GET" and path.endswith("/scale"):
            await self._happen(path.split("/")[5])
        return self._metered.answer(path) or await self._inner.request(method, path, headers, body)

    async def _happen(self, tenant: str) -> None:
        if (act := self._metered.meanwhile.pop(tenant, None)) is not None:
            await asyncio.to_thread(act)
            await asyncio.sleep(0.5)  # The watch reports it.

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        async with self._inner.stream(path, headers) as stream:
            yield stream

    async def close(self) -> None:
        await self._inner.close()


@pytest.fixture(scope="module")
def metered(server: LocalServer) -> Iterator[Metered]:
    made = Metered()
    lister = Caller(server.admin_kubeconfig)

    def pods(tenant: str) -> list[str]:
        items = lister.get(f"/api/v1/tenants/{tenant}/namespaces/default/pods").json["items"]
        return [each["metadata"]["name"] for each in items]

    made.pods = pods
    before, controller.PERIOD_SECONDS = controller.PERIOD_SECONDS, 0.2
    wanted = (HorizontalPodAutoscalerController, DeploymentController, ReplicaSetController)
    with RunningControllers(server.admin_kubeconfig, wanted, through=lambda inner: _Through(inner, made)):
        yield made
    controller.PERIOD_SECONDS = before


def deploy(caller: Caller, replicas: int) -> str:
    """A deployment whose pods run; the tenant's name."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    answer = caller.post(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    assert answer.status == 201, answer.body
    return str(answer.json["metadata"]["tenant"])


def run_pods(caller: Caller) -> int:
    """What nodes do; how many pods there are."""
    long_ago = meta.format_time(time.time() - 3_600)
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": long_ago}
    status = {"phase": "Running", "startTime": long_ago, "conditions": [condition]}
    items = caller.get(PODS).json["items"]
    for each in items:
        if each["status"].get("phase") != "Running":
            caller.patch(f"{PODS}/{each['metadata']['name']}/status", {"status": status})
    return len(items)


def autoscale(caller: Caller, *metrics: dict[str, Any], **spec: Any) -> None:
    aimed = {"type": "Utilization", "averageUtilization": 50}
    by_cpu = {"type": "Resource", "resource": {"name": "cpu", "target": aimed}}
    given = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": list(metrics) or [by_cpu],
        **spec,
    }
    answer = caller.post(SCALERS, {"metadata": {"name": "web"}, "spec": given})
    assert answer.status == 201, answer.body


def conditions(caller: Caller, name: str = "web") -> dict[str, tuple[str, str]]:
    status = caller.get(f"{SCALERS}/{name}").json.get("status") or {}
    return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions") or ()}


def size(caller: Caller) -> int:
    run_pods(caller)
    return int(caller.get(f"{DEPLOYMENTS}/web").json["spec"]["replicas"])


def reasons(caller: Caller) -> set[str]:
    return {each["reason"] for each in caller.get("/api/v1/namespaces/default/events").json["items"]}


def test_it_grows_with_the_load_and_shrinks_after(tenant: Caller, metered: Metered) -> None:
    name = deploy(tenant, 2)
    wait_until(lambda: run_pods(tenant) == 2)
    metered.use(name, "100m")
    brisk = {"stabilizationWindowSeconds": 0, "policies": [{"type": "Pods", "value": 9, "periodSeconds": 1}]}
    autoscale(tenant, behavior={"scaleUp": brisk, "scaleDown": brisk})
    wait_until(lambda: size(tenant) == 5)
    wait_until(lambda: conditions(tenant).get("ScalingLimited") == ("True", "TooManyReplicas"))
    assert conditions(tenant)["ScalingActive"] == ("True", "ValidMetricFound")
    wait_until(lambda: "SuccessfulRescale" in reasons(tenant))
    wanted = {"name": "cpu", "current": {"averageUtilization": 100, "averageValue": "100m"}}
    wait_until(lambda: tenant.get(f"{SCALERS}/web").json["status"]["currentMetrics"][0]["resource"] == wanted)
    wait_until(lambda: "100%/50%" in tenant.kubectl("get", "hpa", "web"))
    metered.use(name, "1m")
    wait_until(lambda: size(tenant) == 2)


def test_two_tenants_with_the_same_names_do_not_meet(server: LocalServer, metered: Metered) -> None:
    busy, idle = server.make_tenant("hpa-busy"), server.make_tenant("hpa-idle")
    for caller, cpu in ((busy, "100m"), (idle, "50m")):
        metered.use(deploy(caller, 2), cpu)
        wait_until(lambda: run_pods(caller) == 2)  # noqa: B023 - called at once
        caller.kubectl("autoscale", "deployment", "web", "--min=2", "--max=5", "--cpu-percent=50")
    wait_until(lambda: size(busy) == 4)
    wait_until(lambda: "ScalingActive" in conditions(idle))
    assert size(idle) == 2


def test_bounds_need_no_metrics(tenant: Caller, metered: Metered) -> None:
    deploy(tenant, 9)
    autoscale(tenant)
    wait_until(lambda: size(tenant) == 5)
    tenant.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 0}})
    wait_until(lambda: conditions(tenant).get("ScalingActive") == ("False", "ScalingDisabled"))
    tenant.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 1}})
    wait_until(lambda: size(tenant) == 2)


def test_unknown_targets_and_metrics_are_reported(tenant: Caller, metered: Metered) -> None:
    autoscale(tenant)
    wait_until(lambda: conditions(tenant).get("AbleToScale") == ("False", "FailedGetScale"))
    deploy(tenant, 2)
    wait_until(lambda: conditions(tenant).get("ScalingActive") == ("False", "FailedGetResourceMetric"))
    expected = {"FailedGetScale", "FailedGetResourceMetric", "FailedComputeMetricsReplicas"}
    wait_until(lambda: expected <= reasons(tenant))
    assert size(tenant) == 2


def test_metrics_of_other_apis_are_not_there(tenant: Caller, metered: Metered) -> None:
    deploy(tenant, 2)
    aimed = {"type": "AverageValue", "averageValue": "10"}
    autoscale(tenant, {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": aimed}})
    wait_until(lambda: conditions(tenant).get("ScalingActive") == ("False", "FailedGetPodsMetric"))
    status = tenant.get(f"{SCALERS}/web").json["status"]["conditions"]
    message = next(each["message"] for each in status if each["type"] == "ScalingActive")
    assert "no custom metrics API (custom.metrics.k8s.io) registered" in message


def test_two_autoscalers_of_the_same_pods_leave_them_alone(tenant: Caller, metered: Metered) -> None:
    metered.use(deploy(tenant, 2), "100m")
    wait_until(lambda: run_pods(tenant) == 2)
    autoscale(tenant)
    wait_until(lambda: size(tenant) == 4)
    other = tenant.get(f"{SCALERS}/web").json["spec"]
    assert tenant.post(SCALERS, {"metadata": {"name": "rival"}, "spec": other}).status == 201
    wait_until(lambda: conditions(tenant).get("ScalingActive") == ("False", "AmbiguousSelector"))
    tenant.delete(f"{SCALERS}/rival")
    wait_until(lambda: conditions(tenant).get("ScalingActive") == ("True", "ValidMetricFound"))


def test_an_autoscaler_deleted_while_it_was_looked_at_is_nobodys_rival(
    tenant: Caller, metered: Metered
) -> None:
    name = deploy(tenant, 2)
    metered.use(name, "100m")
    wait_until(lambda: run_pods(tenant) == 2)
    metered.meanwhile[name] = lambda: Caller(tenant.kubeconfig).delete(f"{SCALERS}/web")
    autoscale(tenant)
    wait_until(lambda: size(tenant) == 4)  # What it had begun it ended.
    assert tenant.get(f"{SCALERS}/web").status == 404
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
    }
    assert tenant.post(SCALERS, {"metadata": {"name": "next"}, "spec": spec}).status == 201
    wait_until(lambda: "ScalingActive" in conditions(tenant, "next"))
    assert conditions(tenant, "next")["ScalingActive"] == ("True", "ValidMetricFound")
