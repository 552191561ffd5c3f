"""An aggregated API whose server is a pod of a tenant: kubectl, reviews by the server, an autoscaler on its metrics."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import Iterator

import pytest

from alcove.agent.images import commands
from alcove.api.objects import Object
from alcove.testing import extension_server, python_image
from alcove.testing.cluster import PODS, RealCluster, lacking, ready, remove
from alcove.testing.quiet import PLAIN, add_plain_class
from alcove.testing.server import Caller, wait_until
from alcove.testing.webhook_server import issue

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
GROUP = "things.example.com"
NAME = f"v1.{GROUP}"
THINGS = f"/apis/{GROUP}/v1/namespaces/default/things"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MODULES = ("__future__", "http.server", "json", "ssl", "threading", "urllib.request", "pathlib", "typing")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("aggregated")
    archive = python_image.write(directory / "python.tar", MODULES)
    with RealCluster(directory, 1) as running:
        for node in running.nodes:
            asyncio.run(commands.load(node.data / "images", archive))
        yield running


def made(caller: Caller, path: str, name: str, **fields: object) -> Object:
    answer = caller.post(path, {"metadata": {"name": name}, **fields})
    assert answer.status == 201, answer.body
    return answer.json  # type: ignore[no-any-return]


def grant(caller: Caller) -> None:
    """What an extension server's chart installs: to read the front proxy's authority, and to delegate."""
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]
    group = "rbac.authorization.k8s.io"
    reader = {"apiGroup": group, "kind": "Role", "name": "extension-apiserver-authentication-reader"}
    path = f"{RBAC}/namespaces/kube-system/rolebindings"
    made(caller, path, "things-reader", roleRef=reader, subjects=subjects)
    delegator = {"apiGroup": group, "kind": "ClusterRole", "name": "system:auth-delegator"}
    made(caller, f"{RBAC}/clusterrolebindings", "things-delegator", roleRef=delegator, subjects=subjects)


def serve(caller: Caller) -> str:
    """Runs the extension server in a pod; returns its CA bundle."""
    certificate, key = issue(("things.default.svc",))
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(key).decode()}
    made(caller, "/api/v1/namespaces/default/secrets", "things", type="kubernetes.io/tls", data=data)
    spec = {"selector": {"app": "things"}, "ports": [{"port": 443, "targetPort": 8443}]}
    made(caller, "/api/v1/namespaces/default/services", "things", spec=spec)
    container = {
        "name": "main",
        "image": python_image.NAME,
        "imagePullPolicy": "Never",
        "command": [python_image.PROGRAM, "-c", inspect.getsource(extension_server)],
        "env": [{"name": "GROUP", "value": GROUP}, {"name": "METRIC", "value": "30"}],
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    pod = {
        "containers": [container],
        "volumes": [{"name": "tls", "secret": {"secretName": "things"}}],
        "terminationGracePeriodSeconds": 1,
        "runtimeClassName": PLAIN,
    }
    answer = caller.post(PODS, {"metadata": {"name": "server", "labels": {"app": "things"}}, "spec": pod})
    assert answer.status == 201, answer.body
    return data["tls.crt"]


def register(caller: Caller, authority: str, group: str, version: str = "v1") -> None:
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 500,
        "versionPriority": 10,
        "service": {"namespace": "default", "name": "things"},
        "caBundle": authority,
    }
    made(caller, REGISTRATIONS, f"{version}.{group}", spec=spec)


def available(caller: Caller, name: str = NAME) -> str:
    conditions = caller.get(f"{REGISTRATIONS}/{name}").json["status"]["conditions"]
    return str(next(each["reason"] for each in conditions if each["type"] == "Available"))


def test_an_aggregated_api_in_a_pod(cluster: RealCluster) -> None:
    acme = cluster.make_tenant("acme")
    add_plain_class(cluster, "acme")
    grant(acme)
    authority = serve(acme)
    register(acme, authority, GROUP)
    for group, version in (("custom.metrics.k8s.io", "v1beta2"), ("external.metrics.k8s.io", "v1beta1")):
        register(acme, authority, group, version)
    ready(acme, "server", 90)
    for name in (NAME, "v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"):
        acme.kubectl("wait", "--for=condition=Available", "--timeout=100s", f"apiservice/{name}")
    _use_it(acme)
    _scale_by_it(acme)
    blue = cluster.make_tenant("blue")
    assert blue.get(THINGS).status == 404
    remove(acme, "server")
    wait_until(lambda: available(acme) in ("MissingEndpoints", "EndpointsNotFound"))
    wait_until(lambda: acme.get(THINGS).status == 503)
    answer = acme.get(THINGS)
    assert (answer.status, answer.json["message"]) == (503, "service unavailable")
    assert "configmaps" in acme.kubectl("api-resources", check=False)


def _use_it(acme: Caller) -> None:
    """By kubectl, and by the server itself, which asks the API server about its callers."""
    thing = {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    acme.kubectl("create", "-f", "-", "--validate=false", stdin=json.dumps(thing))
    assert "one" in acme.kubectl("get", "things", "-o", "name")
    account = "system:serviceaccount:default:default"
    assert acme.get(f"{THINGS}/one/review").json == {"user": "admin", "allowed": True, "own": account}
    nobody = acme.get(f"{THINGS}/one/echo", impersonate_user="nobody")
    assert nobody.status == 403


def _scale_by_it(acme: Caller) -> None:
    """The metric is 30."""
    labels = {"app": "worker"}
    container = {"name": "main", "image": python_image.NAME, "imagePullPolicy": "Never"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{**container, "command": ["sleep"]}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made(acme, DEPLOYMENTS, "worker", spec=spec)
    external = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    described = {"apiVersion": "v1", "kind": "Service", "name": "things"}
    target = {"type": "AverageValue", "averageValue": "15"}
    of_object = {"metric": {"name": "hits"}, "describedObject": described, "target": target}
    scaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"},
        "maxReplicas": 9,
        "metrics": [{"type": "External", "external": external}, {"type": "Object", "object": of_object}],
    }
    made(acme, SCALERS, "worker", spec=scaler)
    wait_until(lambda: acme.get(f"{DEPLOYMENTS}/worker").json["spec"]["replicas"] == 3, 100)

    def shown() -> list[str]:
        found = acme.get(f"{SCALERS}/worker").json["status"]["currentMetrics"]
        return sorted(each["type"] for each in found)

    wait_until(lambda: shown() == ["External", "Object"])
    acme.delete(f"{SCALERS}/worker")
    acme.delete(f"{DEPLOYMENTS}/worker")
