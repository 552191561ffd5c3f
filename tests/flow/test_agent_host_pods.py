"""Pods that share the node's namespaces; and HTTP into pods that really run."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

import pytest

from alcove.agent import mount_calls
from alcove.api.objects import Object
from alcove.testing.cluster import PODS, RealCluster, create, ended, lacking, log_of, pod, ready, remove
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
SERVES = "mkdir -p /tmp/www; echo hello > /tmp/www/index.html; httpd -f -p {} -h /tmp/www"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("host-pods")) as running:
        yield running


@pytest.fixture(scope="module")
def system(cluster: RealCluster) -> Caller:
    return cluster.server.system


@pytest.fixture(scope="module")
def acme(cluster: RealCluster, system: Caller) -> Caller:
    caller = cluster.make_tenant("acme")
    for each in (caller, system):
        for handler in ("crun", "runc", "gvisor"):
            assert each.post(CLASS, {"metadata": {"name": handler}, "handler": handler}).status == 201
    return caller


@pytest.fixture(scope="module")
def trusted(cluster: RealCluster, system: Caller) -> Caller:
    """Of a tenant that ring0 trusts with its nodes."""
    caller = cluster.make_tenant("trusted")
    answer = system.patch("/api/v1/tenants/trusted", {"spec": {"podSecurity": "privileged"}})
    assert answer.status == 200, answer.body
    return caller


@pytest.mark.parametrize("handler", ["crun", "runc"])
def test_ring0_looks_at_the_nodes_processes(
    cluster: RealCluster, system: Caller, acme: Caller, handler: str
) -> None:
    own = os.getpid()
    script = f"cat /proc/{own}/comm; readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc; sleep 3000017 & exit 0"
    wanted = pod("looks", script, runtimeClassName=handler, hostPID=True, hostIPC=True, restartPolicy="Never")
    uid = create(system, wanted)
    assert ended(system, "looks")["status"]["phase"] == "Succeeded"
    spaces = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("pid", "ipc")]
    assert log_of(cluster, uid) == [Path("/proc/self/comm").read_text().strip(), *spaces]
    remove(system, "looks")
    wait_until(lambda: not _processes("3000017"))


def _processes(argument: str) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if argument.encode() in (each / "cmdline").read_bytes().split(b"\0"):
                found.append(each.name)
        except OSError:
            continue
    return found


def test_what_gvisor_cannot_give_is_said(system: Caller, acme: Caller) -> None:
    create(system, pod("sandboxed", runtimeClassName="gvisor", hostPID=True))
    found = ended(system, "sandboxed")
    assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "PodForbidden")
    assert "use a RuntimeClass with handler crun or runc" in found["status"]["message"]
    remove(system, "sandboxed")


def sharing(field: str, **spec: object) -> Object:
    wanted = pod("no")
    wanted["spec"] |= {**spec, field: True}
    return wanted


@pytest.mark.parametrize("field", ["hostPID", "hostIPC", "hostNetwork"])
def test_tenants_are_refused_when_they_ask(acme: Caller, field: str) -> None:
    for name in ("crun", "gvisor"):
        answer = acme.post(PODS, sharing(field, runtimeClassName=name))
        assert answer.status == 403, answer.body
        assert f"host namespaces ({field}=true)" in answer.json["message"]
    spaces = "/api/v1/namespaces"
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    acme.post(spaces, {"metadata": {"name": "mine", "labels": labels}})
    answer = acme.post(f"{spaces}/mine/pods", sharing(field))
    assert answer.status == 403, "its own namespaces' labels loosen nothing"


def test_a_tenant_that_ring0_trusts_has_what_ring0_has(
    cluster: RealCluster, trusted: Caller, tmp_path: Path
) -> None:
    (tmp_path / "of-the-node").write_text("hello\n")
    script = f"cat /proc/{os.getpid()}/comm /node/of-the-node; grep CapEff /proc/self/status"
    wanted = pod("looks", script, hostPID=True, hostNetwork=True, restartPolicy="Never")
    wanted["spec"]["volumes"] = [{"name": "node", "hostPath": {"path": str(tmp_path)}}]
    mounts = [{"name": "node", "mountPath": "/node"}]
    wanted["spec"]["containers"][0] |= {"volumeMounts": mounts, "securityContext": {"privileged": True}}
    uid = create(trusted, wanted)
    found = ended(trusted, "looks")
    assert found["status"]["phase"] == "Succeeded", found["status"]
    name, file, capabilities = log_of(cluster, uid)
    assert (name, file) == (Path("/proc/self/comm").read_text().strip(), "hello")
    assert int(capabilities.split()[1], 16) >> 21 & 1, "a privileged container lacks CAP_SYS_ADMIN"
    remove(trusted, "looks")


def test_probes_reach_pods_on_the_nodes_network(system: Caller, acme: Caller) -> None:
    wanted = pod("on-the-node", SERVES.format(18080), hostNetwork=True)
    probe = {"httpGet": {"path": "/index.html", "port": 18080}, "periodSeconds": 1}
    wanted["spec"]["containers"][0]["readinessProbe"] = probe
    create(system, wanted)
    ready(system, "on-the-node")
    answer = system.get(f"{PODS}/on-the-node:18080/proxy/index.html")
    assert (answer.status, answer.body) == (200, b"hello\n")
    remove(system, "on-the-node")


@pytest.mark.parametrize("handler", ["crun", "gvisor"])
def test_http_goes_into_pods_and_services(cluster: RealCluster, acme: Caller, handler: str) -> None:
    wanted = pod("web", SERVES.format(8080), runtimeClassName=handler)
    wanted["metadata"]["labels"] = {"app": "web"}
    wanted["spec"]["containers"][0] |= {
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1},
    }
    create(acme, wanted)
    ports = [{"name": "web", "port": 80, "targetPort": "http"}]
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    acme.post("/api/v1/namespaces/default/services", service)
    ready(acme, "web")
    path = "/api/v1/namespaces/default"
    for name in ("web", "web:8080", "web:http"):
        assert acme.kubectl("get", "--raw", f"{path}/pods/{name}/proxy/index.html") == "hello\n"
    message = acme.kubectl("get", "--raw", f"{path}/pods/web:8081/proxy/", check=False)
    assert "error trying to reach service" in message
    wait_until(lambda: acme.get(f"{path}/services/web:80/proxy/index.html").body == b"hello\n")
    node = cluster.nodes[0].name
    listed = cluster.server.system.get(f"/api/v1/nodes/{node}/proxy/pods").json
    assert "web" in [each["metadata"]["name"] for each in listed["items"]]
    assert b"alcove_agent_pods " in cluster.server.system.get(f"/api/v1/nodes/{node}/proxy/metrics").body
    remove(acme, "web")
    acme.delete("/api/v1/namespaces/default/services/web")


@pytest.mark.parametrize("handler", ["crun", "runc"])
def test_mounts_inside_a_host_path_are_read_only_too(
    cluster: RealCluster, system: Caller, acme: Caller, tmp_path: Path, handler: str
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    mount_calls.mount("tmpfs", inner, "tmpfs", 0, "size=1m")
    try:
        name = f"recursive-{handler}"
        script = "touch /h/inner/plain && echo plain; touch /r/inner/deep && echo deep; exit 0"
        wanted = pod(name, script, runtimeClassName=handler, restartPolicy="Never")
        wanted["spec"]["volumes"] = [{"name": "h", "hostPath": {"path": str(tmp_path)}}]
        mount = {"name": "h", "readOnly": True}
        wanted["spec"]["containers"][0]["volumeMounts"] = [
            {**mount, "mountPath": "/h"},
            {**mount, "mountPath": "/r", "recursiveReadOnly": "Enabled"},
        ]
        uid = create(system, wanted)
        ended(system, name, 120)
        assert [line for line in log_of(cluster, uid) if "touch" not in line] == ["plain"]
        remove(system, name)
    finally:
        mount_calls.unmount_all(inner)


@pytest.mark.parametrize("owner", ["system", "trusted"])
def test_a_host_port_is_served_by_its_node_until_the_pod_is_gone(
    owner: str, request: pytest.FixtureRequest
) -> None:
    caller: Caller = request.getfixturevalue(owner)
    wanted = pod("ported", SERVES.format(8080))
    wanted["spec"]["containers"][0]["ports"] = [{"containerPort": 8080, "hostPort": 18080}]
    create(caller, wanted)
    found = ready(caller, "ported", 120)
    url = f"http://{found['status']['hostIP']}:18080/"

    def answer() -> bytes:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return bytes(response.read())
        except (OSError, HTTPException):
            return b""

    wait_until(lambda: answer() == b"hello\n")
    remove(caller, "ported")
    wait_until(lambda: answer() == b"")


def test_load_balancers_are_told_whether_the_node_has_endpoints(cluster: RealCluster, acme: Caller) -> None:
    """The port was given to the service, and nothing answered there."""
    wanted = pod("balanced", SERVES.format(8080), runtimeClassName="crun")
    wanted["metadata"]["labels"] = {"app": "balanced"}
    create(acme, wanted)
    services = "/api/v1/namespaces/default/services"
    spec = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "selector": {"app": "balanced"},
        "ports": [{"port": 80, "targetPort": 8080}],
    }
    made = acme.post(services, {"metadata": {"name": "balanced"}, "spec": spec})
    assert made.status == 201, made.body
    assert "warning" not in made.headers, made.headers
    url = f"http://{cluster.nodes[0].address}:{made.json['spec']['healthCheckNodePort']}/healthz"

    def answer() -> tuple[int, int]:
        """Status, and the number of endpoints."""
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.status, json.load(response)["localEndpoints"]
        except HTTPError as error:
            return error.code, json.load(error)["localEndpoints"]
        except (OSError, HTTPException):
            return 0, 0

    ready(acme, "balanced", 120)
    wait_until(lambda: answer() == (200, 1))
    acme.patch(f"{services}/balanced", {"spec": {"selector": {"app": "another"}}})
    wait_until(lambda: answer() == (503, 0))
    acme.delete(f"{services}/balanced")
    wait_until(lambda: answer() == (0, 0))
    remove(acme, "balanced")
