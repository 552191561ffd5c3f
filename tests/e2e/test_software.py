"""Software of others inside a tenant, in pods that really run: operators in the tenant's network with the credentials of a
service account, admission webhooks of kopf, and a chart that Helm installs.

Helm's SDK for Python is in the dependency group `slow`, as it is large.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.agent.images import commands
from alcove.api.objects import Object
from alcove.testing import python_image
from alcove.testing.cluster import PODS, RealCluster, lacking
from alcove.testing.quiet import PLAIN, add_plain_class
from alcove.testing.server import Caller, wait_until
from alcove.testing.webhook_server import issue

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
MODULES = (
    "_strptime",
    "kopf",
    "kubernetes",
    "kubernetes.leaderelection.electionconfig",
    "kubernetes.leaderelection.leaderelection",
    "kubernetes.leaderelection.resourcelock.leaselock",
    "http.server",
    "ssl",
)
DATA = ("certifi", "jsonschema_specifications", "kubernetes", "pydantic")
"""Packages with data, or that load most of their modules when they are needed."""
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECONDS_MAX = 600.0
"""Programs that load thousands of modules, each in a pod of its own, on a machine that may be busy."""

CANDIDATE = """
import os, sys, time
from kubernetes import client, config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

config.load_incluster_config()
name = os.environ["HOSTNAME"]

def lead():
    while True:
        client.CoreV1Api().patch_namespaced_config_map("state", "default", {"data": {"leader": name}})
        time.sleep(0.5)

lock = LeaseLock("operator", "default", name)
leaderelection.LeaderElection(electionconfig.Config(lock, 10, 8, 1, lead, sys.exit)).run()
"""

KOPF = """
import kopf

class ServiceServer(kopf.WebhookServer):
    async def __call__(self, fn):
        async for config in super().__call__(fn):
            config["service"] = {"namespace": "default", "name": "kopf", "port": 443}
            del config["url"]
            yield config

@kopf.on.login()
def login(**given):
    return kopf.login_with_service_account(**given)

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = ServiceServer(
        addr="0.0.0.0", port=8443, certfile="/tls/tls.crt", pkeyfile="/tls/tls.key", cafile="/tls/tls.crt"
    )
    settings.admission.managed = "kopf.example.com"

@kopf.on.validate("configmaps", labels={"for": "kopf"}, operation="CREATE")
def check(name, **_):
    if name == "bad":
        raise kopf.AdmissionError("refused by kopf", code=422)

@kopf.on.mutate("configmaps", labels={"for": "kopf"}, operation="CREATE")
def change(patch, **_):
    patch.setdefault("data", {})["by"] = "kopf"

@kopf.on.create("configmaps", labels={"for": "kopf"})
def created(patch, **_):
    patch.metadata.annotations["example.com/seen"] = "yes"

kopf.run(standalone=True, namespaces=["default"])
"""


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    directory = tmp_path_factory.mktemp("software")
    packages = Path(sysconfig.get_path("purelib"))
    archive = python_image.write(directory / "python.tar", MODULES, packages, DATA)
    with RealCluster(directory) as cluster:
        asyncio.run(commands.load(cluster.nodes[0].data / "images", archive))
        caller = cluster.make_tenant("acme")
        add_plain_class(cluster, "acme")
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin-role"}
        binding = {"metadata": {"name": "operators"}, "subjects": [subject], "roleRef": role}
        made = caller.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        assert made.status == 201, made.body
        yield caller


def program(text: str, **container: Any) -> Object:
    """A pod's spec that runs a Python program."""
    main = {
        "name": "main",
        "image": python_image.NAME,
        "imagePullPolicy": "Never",
        "command": [python_image.PROGRAM, "-c", text],
        **container,
    }
    return {"containers": [main], "runtimeClassName": PLAIN, "terminationGracePeriodSeconds": 1}


def deploy(caller: Caller, name: str, replicas: int, spec: Object) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    made = caller.post(DEPLOYMENTS, {"metadata": {"name": name}, "spec": whole})
    assert made.status == 201, made.body


def serve(caller: Caller, name: str) -> str:
    """A service with a certificate in a secret; returns its CA bundle."""
    certificate, key = issue((f"{name}.default.svc",))
    bundle = base64.b64encode(certificate).decode()
    data = {"tls.crt": bundle, "tls.key": base64.b64encode(key).decode()}
    for kind, body in (
        ("secrets", {"type": "kubernetes.io/tls", "data": data}),
        ("services", {"spec": {"selector": {"app": name}, "ports": [{"port": 443, "targetPort": 8443}]}}),
    ):
        made = caller.post(f"/api/v1/namespaces/default/{kind}", {"metadata": {"name": name}, **body})
        assert made.status == 201, made.body
    return bundle


def test_an_operator_in_the_cluster_is_killed_and_another_leads(acme: Caller) -> None:
    assert acme.post(MAPS, {"metadata": {"name": "state"}}).status == 201
    deploy(acme, "operator", 2, program(CANDIDATE))

    def leader() -> str:
        return str(acme.get(f"{MAPS}/state").json.get("data", {}).get("leader", ""))

    first = wait_until(leader, SECONDS_MAX)
    listed = f"{PODS}?labelSelector=app%3Doperator"
    assert first in {each["metadata"]["name"] for each in acme.get(listed).json["items"]}
    assert acme.delete(f"{PODS}/{first}?gracePeriodSeconds=0").status == 200
    wait_until(lambda: leader() != first, SECONDS_MAX)
    acme.delete(f"{DEPLOYMENTS}/operator")


def test_kopf_serves_its_webhooks_from_a_pod(acme: Caller) -> None:
    serve(acme, "kopf")
    mounts = {
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    spec = program(KOPF, **mounts) | {"volumes": [{"name": "tls", "secret": {"secretName": "kopf"}}]}
    deploy(acme, "kopf", 1, spec)
    labels = {"for": "kopf"}

    def refusal() -> str:
        """Kopf writes the configurations of its webhooks itself, when it is ready for them."""
        answer = acme.post(MAPS, {"metadata": {"name": "bad", "labels": labels}})
        if answer.status == 201:
            acme.delete(f"{MAPS}/bad")
        return str(answer.json.get("message", ""))

    wait_until(lambda: "refused by kopf" in refusal(), SECONDS_MAX)
    made = acme.post(MAPS, {"metadata": {"name": "good", "labels": labels}})
    assert made.status == 201 and made.json["data"] == {"by": "kopf"}, made.body
    seen = "example.com/seen"
    wait_until(
        lambda: acme.get(f"{MAPS}/good").json["metadata"].get("annotations", {}).get(seen) == "yes",
        SECONDS_MAX,
    )
    acme.delete(f"{DEPLOYMENTS}/kopf")
    for kind in ("validating", "mutating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/kopf.example.com"
        assert acme.delete(path).status == 200


HELM = "helm_python"
HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-%(when)s
  annotations: {helm.sh/hook: %(when)s, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  template:
    spec:
      restartPolicy: Never
      runtimeClassName: {{ .Values.class }}
      containers: [{name: main, image: alcove/busybox, command: ["true"]}]
"""
CHART = {
    "Chart.yaml": "{apiVersion: v2, name: shop, version: 0.1.0}",
    "crds/widgets.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
""",
    "templates/before.yaml": HOOK % {"when": "pre-install"},
    "templates/after.yaml": HOOK % {"when": "post-install"},
    "templates/settings.yaml": """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-settings}
data: {size: {{ .Values.size | quote }}}
""",
    "templates/widget.yaml": """
apiVersion: example.com/v1
kind: Widget
metadata: {name: {{ .Release.Name }}}
""",
    "templates/webhook.yaml": """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: {{ .Release.Name }}}
webhooks:
- name: check.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {caBundle: {{ .Values.bundle }}, service: {namespace: default, name: hook}}
  objectSelector: {matchLabels: {for: helm}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
""",
    "templates/deployment.yaml": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: hook}
spec:
  selector: {matchLabels: {app: hook}}
  template:
    metadata: {labels: {app: hook}}
    spec: {{ .Values.pod | toJson }}
""",
}
SERVER = """
import http.server, json, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review.pop("request")
        answer = {"uid": request["uid"], "allowed": request["name"] != "bad", "status": {"message": "refused by the chart"}}
        body = json.dumps({**review, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

server = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"""


@pytest.mark.skipif(importlib.util.find_spec(HELM) is None, reason="needs the package helm-python-sdk")
def test_helm_installs_a_chart_with_hooks_a_kind_and_a_webhook(acme: Caller, tmp_path: Path) -> None:
    for name, text in CHART.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    mounts = {
        "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
        "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
    }
    spec = program(SERVER, **mounts) | {"volumes": [{"name": "tls", "secret": {"secretName": "hook"}}]}
    values = {"bundle": serve(acme, "hook"), "size": 1, "class": PLAIN, "pod": spec}
    seconds = int(SECONDS_MAX)
    untyped: Any = importlib.import_module(HELM)
    with untyped.Config(kubeconfig_path=str(acme.kubeconfig), namespace="default") as helm:
        helm.install(str(tmp_path), "shop", values, wait="watcher", timeout=seconds)
        for when in ("pre-install", "post-install"):
            job = acme.get(f"/apis/batch/v1/namespaces/default/jobs/shop-{when}").json
            assert job["status"]["succeeded"] == 1
        assert acme.get("/apis/example.com/v1/namespaces/default/widgets/shop").status == 200
        refused = acme.post(MAPS, {"metadata": {"name": "bad", "labels": {"for": "helm"}}})
        assert refused.status == 400 and "refused by the chart" in refused.json["message"]
        helm.upgrade(str(tmp_path), "shop", {**values, "size": 2}, wait="watcher", timeout=seconds)
        assert acme.get(f"{MAPS}/shop-settings").json["data"] == {"size": "2"}
        helm.rollback("shop", version=1)
        assert acme.get(f"{MAPS}/shop-settings").json["data"] == {"size": "1"}
        helm.uninstall("shop")
    wait_until(lambda: acme.get(f"{DEPLOYMENTS}/hook").status == 404, SECONDS_MAX)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    assert acme.get(crd).status == 200, "Helm leaves kinds, since their objects would go with them"
