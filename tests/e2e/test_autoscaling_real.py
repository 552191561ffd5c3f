"""A Deployment that follows its load: pods that really burn CPU, measured on their node, asked for by the metrics API.
Ring0's are plain containers, a tenant's are in sandboxes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from alcove.api.objects import Object
from alcove.testing.cluster import RealCluster, lacking
from alcove.testing.needs import tools
from alcove.testing.server import Caller, wait_until

_LACKING = lacking() or tools("kubectl", "crun", "runsc")
pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,  # tests/flow has the autoscaler, and the measurements that it asks for.
    pytest.mark.alone,  # It measures CPU, of which others on the machine take their part.
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(_LACKING), reason=_LACKING or "-"),
]
MOST = 3
QUIET = "/quiet"
BURNS = f"while [ ! -e {QUIET} ]; do :; done; sleep 1000"
SECONDS_MAX = 120.0
"""Eight looks of the autoscaler."""
SCALER = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web"
PODS = "/api/v1/namespaces/default/pods"


def manifests() -> list[Object]:
    container = {
        "name": "main",
        "image": "alcove/busybox",
        "command": ["sh", "-c", BURNS],
        # A limit leaves some of the machine to those who measure; an idle sandbox takes some 60m by itself.
        "resources": {"requests": {"cpu": "150m"}, "limits": {"cpu": "450m"}},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    by_cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 100}}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 1,
                "maxReplicas": MOST,
                "metrics": [{"type": "Resource", "resource": by_cpu}],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            },
        },
    ]


@pytest.fixture
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Caller, Caller]]:
    with RealCluster(tmp_path_factory.mktemp("autoscaling")) as cluster:
        yield cluster.server.system, cluster.make_tenant("acme")


def running(caller: Caller) -> list[str]:
    """Names of the pods that are ready and stay."""
    items = caller.get(PODS).json["items"]
    return [each["metadata"]["name"] for each in items if _is_ready(each)]


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def until_running(caller: Caller, count: int) -> None:
    try:
        wait_until(lambda: len(running(caller)) == count, SECONDS_MAX)
    except BaseException:
        message = caller.kubectl("describe", "hpa,pods", check=False)
        pytest.fail(
            f"{len(running(caller))} pods run, not {count}:\n{message}\n{caller.kubectl('top', 'pods', check=False)}"
        )


def percent(caller: Caller) -> int:
    """What the autoscaler measured last; -1: nothing yet."""
    metrics = (caller.get(SCALER).json.get("status") or {}).get("currentMetrics") or [{}]
    return int(metrics[0].get("resource", {}).get("current", {}).get("averageUtilization", -1))


def test_a_deployment_grows_by_its_measured_load_and_shrinks_when_it_ends(
    callers: tuple[Caller, Caller],
) -> None:
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests()})
    for caller in callers:
        caller.kubectl("create", "-f", "-", stdin=listed)
    for caller in callers:
        until_running(caller, MOST)
        assert percent(caller) > 100, "one pod burned what three are to"
        assert "New size: 3; reason: cpu resource utilization" in caller.kubectl("describe", "hpa", "web")
    for caller in callers:
        for name in running(caller):
            caller.kubectl("exec", name, "--", "touch", QUIET)
    for caller in callers:
        until_running(caller, 1)
        wait_until(lambda: 0 <= percent(caller) < 100)  # noqa: B023 - called at once
        message = caller.kubectl("describe", "hpa", "web")
        assert "New size: 1; reason: All metrics below target" in message, message
