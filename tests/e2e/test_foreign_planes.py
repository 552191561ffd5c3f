"""Kubernetes' own API server as a tenant's plane: its pods run on our nodes, in a network of that tenant."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing import cluster as real
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.kube_apiserver import KubeApiServer
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()),
    pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason="needs KUBEBUILDER_ASSETS"),
    pytest.mark.slow,
]

TENANT = "initech"
SECONDS_MAX = 90.0
IMAGE = "alcove/busybox"
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": IMAGE,
                        "command": [
                            "sh",
                            "-c",
                            "echo hello; mkdir /tmp/w; hostname > /tmp/w/index.html; httpd -f -p 8080 -h /tmp/w",
                        ],
                    }
                ]
            },
        },
    },
}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
}


class Joined:
    def __init__(self, cluster: RealCluster, stock: KubeApiServer) -> None:
        self.cluster = cluster
        self.stock = stock
        self.admin = Caller(stock.kubeconfig())

    def alcove(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.server.admin_kubeconfig)}
        command = [sys.executable, "-m", "alcove.processes.main", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment, check=False
        )

    def join(self, name: str = "office", *options: str) -> subprocess.CompletedProcess[str]:
        words = ("--tenant", TENANT, "--kubeconfig", str(self.stock.kubeconfig()), *options)
        return self.alcove("plane", "join", name, *words)

    @property
    def tenant(self) -> Object:
        found: Object = self.cluster.server.system.get(f"/api/v1/tenants/{TENANT}").json
        return found


def web_pod(joined: Joined) -> str:
    """The name of a pod of the deployment."""
    [first, *_] = joined.admin.get("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb").json["items"]
    return str(first["metadata"]["name"])


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    directory = tmp_path_factory.mktemp("foreign")
    with RealCluster(directory, 2) as cluster:
        pair, nodes = directory / "kubelet-client.pem", directory / "nodes.crt"
        trust = cluster.server.system.get(
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        )
        nodes.write_text(trust.json["data"]["node-ca-file"])
        stock = KubeApiServer(
            directory,
            Path(os.environ["KUBEBUILDER_ASSETS"]),
            f"--kubelet-client-certificate={pair}",
            f"--kubelet-client-key={pair}",
            f"--kubelet-certificate-authority={nodes}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-cluster-ip-range=10.77.0.0/16",
            address=cluster.nodes[0].gateway,
        )
        stock.prepare()
        pair.write_bytes(b"".join(stock.client("kube-apiserver-kubelet-client")))
        with stock:
            joined = Joined(cluster, stock)
            made = joined.alcove("tenant", "create", TENANT, "--foreign")
            assert made.returncode == 0, made.stderr
            answer = joined.join("office", "--kubelet-ca", str(stock.pki / "ca.crt"))
            assert answer.returncode == 0, answer.stderr
            yield joined


def test_plane_has_a_network_and_nodes(joined: Joined) -> None:
    assert condition(joined.tenant, "Joined") == "True"
    listed = joined.alcove("plane", "list").stdout.splitlines()[1].split()
    assert listed == ["office", TENANT, joined.stock.url, "yes"]
    network = "/apis/arktos.futurewei.com/v1/networks/default"
    wait_until(lambda: joined.admin.get(network).json["status"]["phase"] == "Ready", SECONDS_MAX)
    assert joined.admin.get(network).json["status"]["vpc"] == f"{TENANT}-default-network"
    wait_until(lambda: joined.admin.kubectl("get", "nodes").count("Ready") == 2, SECONDS_MAX)


def test_pods_of_a_deployment_run_and_find_each_other(joined: Joined) -> None:
    admin = joined.admin
    for path, obj in (
        ("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT),
        ("/api/v1/namespaces/default/services", SERVICE),
    ):
        assert admin.post(path, obj).status == 201
    deployment = "/apis/apps/v1/namespaces/default/deployments/web"
    wait_until(lambda: admin.get(deployment).json["status"].get("readyReplicas") == 2, SECONDS_MAX)
    pods = admin.get("/api/v1/namespaces/default/pods").json["items"]
    assert all(pod["status"]["podIP"].startswith("10.128.") for pod in pods)
    name = pods[0]["metadata"]["name"]
    wait_until(lambda: "hello" in admin.kubectl("logs", name, check=False), SECONDS_MAX)
    command = ("exec", name, "--", "sh", "-c", "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc web 80")
    wait_until(lambda: "web-" in admin.kubectl(*command, check=False), SECONDS_MAX)
    token = admin.kubectl("exec", name, "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert token.count(".") == 2


def test_pods_reach_their_api_server(joined: Joined) -> None:
    """By the name and address that it has in Kubernetes; it says that it expects TLS."""
    name = web_pod(joined)
    words = "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc kubernetes.default.svc 443"
    command = ("exec", name, "--", "sh", "-c", words)
    wait_until(lambda: "to an HTTPS server" in joined.admin.kubectl(*command, check=False), SECONDS_MAX)


def test_ports_are_forwarded(joined: Joined) -> None:
    name = web_pod(joined)
    words = ("--kubeconfig", str(joined.admin.kubeconfig), "port-forward", name, ":8080")
    process = subprocess.Popen(("kubectl", *words), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = re.match(r"Forwarding from 127.0.0.1:(\d+)", process.stdout.readline())
        assert port is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/index.html", timeout=30) as answer:
            assert answer.read().decode().strip() == name
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "hostPath"),
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
    ],
)
def test_pods_that_reach_for_the_node_are_refused(joined: Joined, spec: Object, message: str) -> None:
    """A stock API server admits them; agents do not."""
    name = message.lower()
    containers = [{"name": "main", "image": IMAGE, "command": ["sleep", "1000"]}]
    body = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    assert joined.admin.post("/api/v1/namespaces/default/pods", body).status == 201
    path = f"/api/v1/namespaces/default/pods/{name}"
    wait_until(lambda: joined.admin.get(path).json["status"]["phase"] == "Failed", SECONDS_MAX)
    status = joined.admin.get(path).json["status"]
    assert status["reason"] == "PodForbidden" and message in status["message"]
    assert joined.admin.delete(path, {"gracePeriodSeconds": 0}).status == 200


def test_a_pod_that_names_its_node_waits(joined: Joined) -> None:
    """Only ring0's scheduler gives a plane room on nodes."""
    resources = {"requests": {"memory": "64Mi"}}
    main = {"name": "main", "image": IMAGE, "command": ["sleep", "1000"], "resources": resources}
    spec = {"nodeName": joined.cluster.nodes[0].name, "containers": [main]}
    body = {"metadata": {"name": "pushy"}, "spec": spec}
    assert joined.admin.post("/api/v1/namespaces/default/pods", body).status == 201
    events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dpushy"
    wait_until(
        lambda: "NotReserved" in [each["reason"] for each in joined.admin.get(events).json["items"]],
        SECONDS_MAX,
    )
    assert joined.admin.get("/api/v1/namespaces/default/pods/pushy").json["status"]["phase"] == "Pending"
    path = "/api/v1/namespaces/default/pods/pushy"
    assert joined.admin.delete(path, {"gracePeriodSeconds": 0}).status == 200


def test_ring0_keeps_no_objects_of_it_at_home(joined: Joined) -> None:
    answer = joined.cluster.server.system.get(f"/api/v1/tenants/{TENANT}/namespaces/default/pods")
    assert answer.status == 403 and "on a foreign plane" in answer.json["message"]


def test_leaving_stops_its_pods_and_leaves_its_objects(joined: Joined) -> None:
    assert joined.alcove("plane", "leave", "office").stdout == "plane/office left\n"
    assert condition(joined.tenant, "Joined") == "False"
    pods = joined.admin.get("/api/v1/namespaces/default/pods").json["items"]
    assert len(pods) == 2 and joined.admin.get("/api/v1/nodes").json["items"] == []
    for pod in pods:
        uid = pod["metadata"]["uid"]
        wait_until(
            lambda uid=uid: not any(real.traces(node.data, uid) for node in joined.cluster.nodes), SECONDS_MAX
        )
