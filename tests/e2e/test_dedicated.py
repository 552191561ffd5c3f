"""A tenant with an API server of its own, which ring0 runs: from create to delete, with real pods."""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from alcove.testing import cluster as real
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.dedicated import READY_SECONDS_MAX, RING0, DedicatedTenants
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()),
    pytest.mark.slow,
]

PROXIED = "/api/v1/namespaces/default/services/talks:80/proxy/index.html"
SETS = "/apis/apps/v1/namespaces/kube-system/statefulsets"


def run(*words: str) -> str:
    command = [sys.executable, "-m", "alcove.processes.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS_MAX)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def alcove(dedicated: DedicatedTenants, *words: str) -> str:
    return run(*words, "--kubeconfig", str(dedicated.cluster.server.admin_kubeconfig))


def at_home(dedicated: DedicatedTenants, tenant: str, directory: Path) -> Caller:
    """The tenant's administrator at the home plane, with the kubeconfig that `alcove tenant kubeconfig` writes."""
    written = directory / "home.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", tenant, "-o", str(written))
    assert written.read_text().count(f"/tenants/{tenant}") == 1
    return Caller(written)


@pytest.fixture(scope="module")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DedicatedTenants]:
    directory = tmp_path_factory.mktemp("dedicated")
    with RealCluster(directory) as cluster:
        yield DedicatedTenants(cluster, directory)


@pytest.fixture(scope="module")
def acme(dedicated: DedicatedTenants) -> Caller:
    return dedicated.create("acme")


def test_status_says_that_everything_is_ready(dedicated: DedicatedTenants, acme: Caller) -> None:
    names = ("CertificatesReady", "StoreReady", "APIServerReady", "Joined", "Initialized")
    wait_until(lambda: all(condition(dedicated.tenant("acme"), each) == "True" for each in names))
    status = dedicated.tenant("acme")["status"]
    assert status["endpoint"].startswith("https://10.249.")
    assert "BEGIN CERTIFICATE" in status["controlPlane"]["certificateAuthority"]
    assert "default" in acme.kubectl("get", "namespaces")
    assert acme.get("/api/v1/tenants/system/pods").status == 403


def test_pods_run_with_logs_exec_and_proxy(dedicated: DedicatedTenants, acme: Caller, tmp_path: Path) -> None:
    """At the plane's own address, and at the home plane's with the kubeconfig that `alcove tenant kubeconfig` writes."""
    command = "echo hello; mkdir /tmp/www; echo page > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    real.create(acme, real.pod("web", command))
    real.ready(acme, "web", READY_SECONDS_MAX)
    for caller in (acme, at_home(dedicated, "acme", tmp_path)):
        wait_until(lambda caller=caller: "hello" in caller.kubectl("logs", "web", check=False))
        assert "inside" in caller.kubectl("exec", "web", "--", "echo", "inside")
        assert [each.split()[0] for each in caller.kubectl("get", "nodes", "--no-headers").splitlines()] == [
            "n1"
        ]
        answer = caller.get("/api/v1/namespaces/default/pods/web:8080/proxy/index.html")
        assert answer.status == 200 and answer.body == b"page\n", answer.body


def test_streams_reach_pods_by_both_addresses(
    dedicated: DedicatedTenants, acme: Caller, tmp_path: Path
) -> None:
    """Whoever attaches is heard, a forwarded port leads to the pod, and a service is proxied."""
    command = (
        "echo page > /tmp/index.html; httpd -p 8080 -h /tmp; while read x; do echo heard $x; done; sleep 1000"
    )
    wanted = real.pod("talks", command)
    wanted["metadata"]["labels"] = {"app": "talks"}
    wanted["spec"]["containers"][0]["stdin"] = True
    real.create(acme, wanted)
    ports = [{"port": 80, "targetPort": 8080}]
    service = {"metadata": {"name": "talks"}, "spec": {"selector": {"app": "talks"}, "ports": ports}}
    assert acme.post("/api/v1/namespaces/default/services", service).status == 201
    real.ready(acme, "talks", READY_SECONDS_MAX)
    for caller in (acme, at_home(dedicated, "acme", tmp_path)):
        wait_until(lambda caller=caller: heard(caller, "talks"), READY_SECONDS_MAX)
        wait_until(lambda caller=caller: forwarded_page(caller, "talks") == b"page\n", READY_SECONDS_MAX)
        wait_until(lambda caller=caller: caller.get(PROXIED).body == b"page\n", READY_SECONDS_MAX)


def heard(caller: Caller, pod: str) -> bool:
    """Whether the pod answers a line that is sent by `kubectl attach`."""
    with kubectl(caller, "attach", "-i", pod) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(b"me\n")
            process.stdin.flush()
            return process.stdout.readline() == b"heard me\n"
        except BrokenPipeError:
            return False


def forwarded_page(caller: Caller, pod: str) -> bytes:
    with kubectl(caller, "port-forward", f"pod/{pod}", ":8080") as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if not words:
            return b""
        port = int(words[2].rpartition(b":")[2])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=60) as answer:
                return bytes(answer.read())
        except (OSError, http.client.HTTPException):
            return b""  # It does not listen yet.


@contextmanager
def kubectl(caller: Caller, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    command = ["kubectl", "--kubeconfig", str(caller.kubeconfig), *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_pod_calls_its_own_api_server_with_its_token(acme: Caller) -> None:
    """At `kubernetes.default.svc`, which it verifies with the authority in its volume."""
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    token, authority = (
        acme.kubectl("exec", "talks", "--", "cat", f"{folder}/{name}") for name in ("token", "ca.crt")
    )
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    head = f"POST {review} HTTP/1.1\r\nHost: kubernetes.default.svc\r\nContent-Type: application/json\r\n"
    request = f"{head}Authorization: Bearer {token}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    with kubectl(acme, "exec", "-i", "talks", "--", "nc", "kubernetes.default.svc", "443") as process:
        answer = said_over_tls(process, authority, request.encode())
    assert answer.startswith(b"HTTP/1.1 201"), answer
    assert b'"username":"system:serviceaccount:default:default"' in answer
    assert b'"authentication.kubernetes.io/pod-name":["talks"]' in answer


def said_over_tls(process: subprocess.Popen[bytes], authority: str, request: bytes) -> bytes:
    """The answer of the server that the process relays its pipes to."""
    assert process.stdin is not None and process.stdout is not None
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cadata=authority)
    tls = context.wrap_bio(received, to_send, server_hostname="kubernetes.default.svc")
    answer, is_sent = b"", False
    while True:
        try:
            if not is_sent:
                tls.do_handshake()
                tls.write(request)
                is_sent = True
            data = tls.read(65_536)
            if not data:
                return answer
            answer += data
        except ssl.SSLWantReadError:
            process.stdin.write(to_send.read())
            process.stdin.flush()
            data = os.read(process.stdout.fileno(), 65_536)
            if not data:
                return answer
            received.write(data)


def test_a_tenant_sees_what_its_pods_use_and_send(
    dedicated: DedicatedTenants, acme: Caller, tmp_path: Path
) -> None:
    """Metrics, flows and traces, by both addresses."""
    service = acme.get("/api/v1/namespaces/default/services/talks").json["spec"]["clusterIP"]
    asks = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {service} 80"
    wait_until(lambda: acme.kubectl("exec", "web", "--", "sh", "-c", asks, check=False), READY_SECONDS_MAX)
    for caller in (acme, at_home(dedicated, "acme", tmp_path)):
        wait_until(lambda caller=caller: measured(caller) >= {"talks", "web"}, READY_SECONDS_MAX)
        via = ("--kubeconfig", str(caller.kubeconfig))
        flow = json.loads(run("flows", "--pod", "web", "--to", "talks:80", "-o", "json", *via))["items"][0]
        assert (flow["source"]["name"], flow["destination"]["name"]) == ("web", "talks")
        trace = json.loads(run("trace", "web", "--to", "talks", "--port", "8080", "-o", "json", *via))
        assert trace["verdict"] == trace["kernel"]["verdict"] == "forwarded", trace


def measured(caller: Caller) -> set[str]:
    used = caller.get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods").json.get("items") or ()
    return {each["metadata"]["name"] for each in used}


def test_another_user_is_issued_a_certificate_by_the_plane(
    dedicated: DedicatedTenants, acme: Caller, tmp_path: Path
) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    written = tmp_path / "guest.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", "acme", "--user", "guest", "-o", str(written))
    answer = Caller(written).get("/api/v1/namespaces")
    assert answer.status == 403 and 'User "guest"' in answer.json["message"]


def test_secrets_are_encrypted_in_its_store(dedicated: DedicatedTenants, acme: Caller) -> None:
    path = "/api/v1/namespaces/default"
    shown = {"metadata": {"name": "shown"}, "data": {"a": "plain-as-day"}}
    hidden = {"metadata": {"name": "hidden"}, "stringData": {"a": "kept-in-the-dark"}}
    assert acme.post(f"{path}/configmaps", shown).status == 201
    assert acme.post(f"{path}/secrets", hidden).status == 201
    stores = list(dedicated.cluster.nodes[0].data.rglob("store.db*"))
    content = b"".join(each.read_bytes() for each in stores)
    assert b"plain-as-day" in content
    for each in (b"kept-in-the-dark", base64.b64encode(b"kept-in-the-dark")):
        assert each not in content


def test_a_killed_api_server_comes_back_with_its_objects(dedicated: DedicatedTenants, acme: Caller) -> None:
    body = {"metadata": {"name": "kept"}, "data": {"a": "b"}}
    assert acme.post("/api/v1/namespaces/default/configmaps", body).status == 201
    pid = dedicated.plane_pid("acme")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: dedicated.plane_pid("acme") not in (0, pid), READY_SECONDS_MAX)

    def kept() -> bool:
        try:
            return acme.get("/api/v1/namespaces/default/configmaps/kept").status == 200
        except OSError:
            return False

    wait_until(kept, READY_SECONDS_MAX)
    assert real.ready(acme, "web", READY_SECONDS_MAX), "its pods have not noticed"


def test_a_sleeping_tenant_has_no_process_and_wakes(
    dedicated: DedicatedTenants, acme: Caller, tmp_path: Path
) -> None:
    """The first request starts its API server, and waits for it; its pods come back when the tenant wakes."""
    home = at_home(dedicated, "acme", tmp_path)
    address = acme.get("/api/v1/namespaces/default/services/talks").json["spec"]["clusterIP"]
    alcove(dedicated, "tenant", "sleep", "acme", "--timeout", str(READY_SECONDS_MAX))
    wait_until(lambda: dedicated.plane_pid("acme") == 0, READY_SECONDS_MAX)
    pods = home.get("/api/v1/namespaces/default/pods")
    assert pods.status == 200, pods.body
    assert {each["metadata"]["name"] for each in pods.json["items"]} == {"web", "talks"}
    assert not any(each["spec"].get("nodeName") for each in pods.json["items"])
    assert condition(dedicated.tenant("acme"), "Asleep") == "True"
    alcove(dedicated, "tenant", "wake", "acme", "--timeout", str(READY_SECONDS_MAX))
    for name in ("web", "talks"):
        real.ready(home, name, READY_SECONDS_MAX)
    assert home.get("/api/v1/namespaces/default/services/talks").json["spec"]["clusterIP"] == address
    wait_until(lambda: forwarded_page(home, "talks") == b"page\n", READY_SECONDS_MAX)


def test_deleted_pieces_come_back(dedicated: DedicatedTenants, acme: Caller) -> None:
    secret = f"{RING0}/secrets/plane-acme.admin"
    assert dedicated.system.delete(secret).status == 200
    wait_until(lambda: dedicated.system.get(secret).status == 200, READY_SECONDS_MAX)
    before = dedicated.system.get(f"{SETS}/plane-acme").json["metadata"]["uid"]
    assert dedicated.system.delete(f"{SETS}/plane-acme").status == 200

    def replaced() -> bool:
        answer = dedicated.system.get(f"{SETS}/plane-acme")
        return answer.status == 200 and answer.json["metadata"]["uid"] != before

    wait_until(replaced, READY_SECONDS_MAX)
    wait_until(lambda: condition(dedicated.tenant("acme"), "APIServerReady") == "True", READY_SECONDS_MAX)


def test_a_deleted_tenant_leaves_nothing(dedicated: DedicatedTenants, acme: Caller) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    assert dedicated.system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: dedicated.system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
    paths = (
        f"{SETS}/plane-acme",
        f"{RING0}/secrets/plane-acme",
        f"{RING0}/secrets/planekey-acme",
        f"{RING0}/persistentvolumeclaims/plane-acme",
    )
    for path in (*paths, f"{RING0}/secrets/plane-acme.admin", f"{RING0}/pods/plane-acme-0"):
        wait_until(lambda path=path: dedicated.system.get(path).status == 404, READY_SECONDS_MAX)
    wait_until(lambda: dedicated.plane_pid("acme") == 0, READY_SECONDS_MAX)
    wait_until(lambda: not dedicated.system.get("/api/v1/persistentvolumes").json["items"], READY_SECONDS_MAX)
