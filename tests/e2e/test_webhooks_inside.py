"""Webhooks in pods that really run: of a tenant, in gVisor and in crun, and of ring0; and what they cannot reach."""

from __future__ import annotations

import asyncio
import base64
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import pytest

from alcove.agent.images import commands
from alcove.api.objects import Object
from alcove.testing import python_image
from alcove.testing.cluster import PODS, RealCluster, lacking, ready, remove
from alcove.testing.quiet import PLAIN, add_plain_class
from alcove.testing.server import Caller, ServerResponse, wait_until
from alcove.testing.webhook_server import issue

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
MAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PORT = 8443
SERVER = """
import base64, http.server, json, socket, ssl

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = review.pop("request")
        answer = {"uid": request["uid"]}
        if "desiredAPIVersion" in request:
            version = {"apiVersion": request["desiredAPIVersion"]}
            answer["convertedObjects"] = [{**each, **version} for each in request["objects"]]
            answer["result"] = {"status": "Success"}
        elif self.path.startswith("/change"):
            patch = [{"op": "add", "path": "/data", "value": {"by": socket.gethostname()}}]
            patch = base64.b64encode(json.dumps(patch).encode()).decode()
            answer |= {"allowed": True, "patchType": "JSONPatch", "patch": patch}
        else:
            answer |= {"allowed": request["name"] != "bad", "status": {"message": "refused by a pod"}}
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
_NUMBERS = count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    directory = tmp_path_factory.mktemp("webhooks")
    archive = python_image.write(directory / "python.tar", ("http.server", "socket", "ssl", "json", "base64"))
    with RealCluster(directory, 2) as running:
        for node in running.nodes:
            asyncio.run(commands.load(node.data / "images", archive))
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    caller = cluster.make_tenant("acme")
    add_plain_class(cluster, "acme")
    return caller


class Hook:
    """A service with pods that serve webhooks, and its certificate."""

    def __init__(self, caller: Caller, name: str = "", *, selects: bool = True) -> None:
        """`selects`: whether its endpoints are its pods; otherwise the test creates them."""
        self.caller = caller
        self.name = name or f"hook{next(_NUMBERS)}"
        certificate, key = issue((f"{self.name}.default.svc",))
        self.authority = base64.b64encode(certificate).decode()
        data = {"tls.crt": self.authority, "tls.key": base64.b64encode(key).decode()}
        self.post("/api/v1/namespaces/default/secrets", {"type": "kubernetes.io/tls", "data": data})
        ports = [{"port": 443, "targetPort": PORT}]
        selector = {"selector": {"app": self.name}} if selects else {}
        self.post(SERVICES, {"spec": {"ports": ports, **selector}})
        self.pods: list[str] = []

    def post(self, path: str, body: Object) -> Object:
        answer = self.caller.post(path, {"metadata": {"name": self.name}, **body})
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    def run(self, **spec: Any) -> str:
        """Starts one more pod; returns when the service leads to it."""
        name = f"{self.name}-{len(self.pods)}"
        container = {
            "name": "main",
            "image": python_image.NAME,
            "imagePullPolicy": "Never",
            "command": [python_image.PROGRAM, "-c", SERVER],
            "volumeMounts": [{"name": "tls", "mountPath": "/tls"}],
            "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        }
        volumes = [{"name": "tls", "secret": {"secretName": self.name}}]
        whole = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1, **spec}
        metadata = {"name": name, "labels": {"app": self.name}}
        answer = self.caller.post(PODS, {"metadata": metadata, "spec": whole})
        assert answer.status == 201, answer.body
        self.pods.append(name)
        address = ready(self.caller, name, 120)["status"]["podIP"]
        wait_until(lambda: address in self.addresses())
        return name

    def addresses(self) -> list[str]:
        found = self.caller.get(f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3D{self.name}").json
        return [
            each["addresses"][0]
            for slice_ in found["items"]
            for each in slice_.get("endpoints") or ()
            if (each.get("conditions") or {}).get("ready", True)
        ]

    @contextmanager
    def installed(self, path: str = "/check", **fields: Any) -> Iterator[None]:
        """For config maps that have the service's name as a label."""
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["configmaps"],
        }
        reference = {"namespace": "default", "name": self.name, "path": path}
        hook = {
            "name": "check.example.com",
            "rules": [rule],
            "objectSelector": {"matchLabels": {"for": self.name}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": reference, "caBundle": self.authority},
            "timeoutSeconds": 20,
            **fields,
        }
        kind = MUTATING if path == "/change" else CONFIGURATIONS
        self.post(kind, {"webhooks": [hook]})
        try:
            yield
        finally:
            self.caller.delete(f"{kind}/{self.name}")

    def create(self, name: str = "") -> ServerResponse:
        metadata = {"name": name or f"m{next(_NUMBERS)}", "labels": {"for": self.name}}
        return self.caller.post(MAPS, {"metadata": metadata})


def wait_for_gvisor(cluster: RealCluster) -> None:
    """A busy machine may be too slow for the first trial of the runtime; agents repeat it."""
    if not shutil.which("runsc"):
        pytest.skip("needs runsc")
    with suppress(AssertionError):
        wait_until(lambda: cluster.runs_gvisor, 60)
    if not cluster.runs_gvisor:
        pytest.skip("gVisor does not work here")


@pytest.mark.parametrize("who", ["crun", "ring0", pytest.param("gvisor", marks=pytest.mark.slow)])
def test_webhooks_in_pods(cluster: RealCluster, acme: Caller, who: str) -> None:
    if who == "gvisor":
        wait_for_gvisor(cluster)
    hook = Hook(cluster.server.system if who == "ring0" else acme)
    pod = hook.run(**({"runtimeClassName": PLAIN} if who == "crun" else {}))
    with hook.installed():
        answer = hook.create()
        assert answer.status == 201, answer.body
        refused = hook.create("bad")
        assert refused.status == 400 and "refused by a pod" in refused.json["message"]
    with hook.installed("/change"):
        assert hook.create().json["data"] == {"by": pod}
    remove(hook.caller, pod)


def test_objects_are_converted_in_a_pod(acme: Caller) -> None:
    hook = Hook(acme)
    hook.run(runtimeClassName=PLAIN)
    group = f"{hook.name}.example.com"
    client = {"service": {"namespace": "default", "name": hook.name}, "caBundle": hook.authority}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
        ],
        "conversion": {"strategy": "Webhook", "webhook": webhook},
    }
    answer = acme.post(CRDS, {"metadata": {"name": f"things.{group}"}, "spec": spec})
    assert answer.status == 201, answer.body
    things = f"/apis/{group}/{{}}/namespaces/default/things"
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "t"}}
    wait_until(lambda: acme.post(things.format("v1"), body).status == 201)
    found = acme.get(f"{things.format('v2')}/t")
    assert (found.status, found.json["apiVersion"]) == (200, f"{group}/v2")
    remove(acme, *hook.pods)


def test_no_pod_no_endpoints(acme: Caller) -> None:
    hook = Hook(acme)
    with hook.installed():
        message = hook.create().json["message"]
        assert message == (
            'Internal error occurred: failed calling webhook "check.example.com": failed to call webhook: '
            f'Post "https://{hook.name}.default.svc:443/check?timeout=20s": '
            f'no endpoints available for service "{hook.name}"'
        )
    with hook.installed(failurePolicy="Ignore"):
        assert hook.create().status == 201


@pytest.mark.parametrize("how", [pytest.param("agent killed", marks=pytest.mark.slow), "node cut off"])
def test_a_lost_node_delays_calls_and_stops_none(cluster: RealCluster, acme: Caller, how: str) -> None:
    """One pod on each node; the first node is lost in the middle of calls, and its pod counts as ready all the time."""
    hook = Hook(acme)
    lost, kept = cluster.nodes
    for node in (lost, kept):
        hook.run(runtimeClassName=PLAIN, nodeName=node.name)
    link = f"alcove-{lost.instance}"
    with hook.installed(timeoutSeconds=30):
        assert all(hook.create().status == 201 for _ in range(8))
        if how == "agent killed":
            cluster.agents[lost.name].kill()
        else:
            subprocess.run(["ip", "link", "set", link, "down"], check=True)
        try:
            assert len(hook.addresses()) == 2, "the service still leads to both"
            for _ in range(10):
                answer = hook.create()
                assert answer.status == 201, answer.body
        finally:
            if how == "agent killed":
                cluster.agents[lost.name].start()
                cluster.agents[lost.name].wait()
            else:
                subprocess.run(["ip", "link", "set", link, "up"], check=True)
    remove(acme, *hook.pods)


def test_endpoints_that_are_no_pods_lead_nowhere_that_pods_may_not_go(
    cluster: RealCluster, acme: Caller
) -> None:
    """Nodes, the machine around them, its API server, metadata servers, loopback, pods of another tenant."""
    beside = Hook(acme)
    beside.run(runtimeClassName=PLAIN)  # A node has the network now.
    hook = Hook(acme, selects=False)
    # Its webhook has a certificate for the same name: the call would succeed if it arrived there.
    blue = Hook(cluster.make_tenant("blue"), hook.name)
    blue.run(**add_plain_class(cluster, "blue"))
    node = cluster.nodes[0]
    accepted: list[object] = []
    with socket.create_server((node.gateway, 0)) as listener:
        threading.Thread(target=_accept_all, args=(listener, accepted), daemon=True).start()
        targets = {
            node.address: 10250,
            node.gateway: listener.getsockname()[1],
            cluster.nodes[1].address: 10250,
            "198.51.100.7": 443,
        }
        for address in ("169.254.169.254", "127.0.0.1"):
            assert by_hand(hook, address, 80).status == 422, address
        for address, port in targets.items():
            answer = by_hand(hook, address, port)
            assert answer.status == 201, answer.body
            with hook.installed(timeoutSeconds=30):
                answer = hook.create()
                assert answer.status == 500, address
                assert "network is unreachable" in answer.json["message"], answer.json["message"]
            acme.delete(f"{SLICES}/by-hand")
    assert not accepted
    [address] = blue.addresses()
    answer = by_hand(hook, address, PORT)
    assert answer.status == 201, answer.body
    hook.authority = blue.authority
    with hook.installed(timeoutSeconds=5):
        assert hook.create().status == 500
    with blue.installed():
        assert blue.create().status == 201
    remove(acme, *beside.pods)


def by_hand(hook: Hook, address: str, port: int) -> ServerResponse:
    """Makes the service lead to an address."""
    metadata = {"name": "by-hand", "labels": {"kubernetes.io/service-name": hook.name}}
    endpoints = [{"addresses": [address]}]
    body = {"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": port}]}
    return hook.caller.post(SLICES, {"metadata": metadata, **body})


def _accept_all(listener: socket.socket, accepted: list[object]) -> None:
    try:
        while True:
            accepted.append(listener.accept())
    except OSError:
        return  # The test has closed it.
