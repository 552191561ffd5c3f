"""A tenant with an API server of its own, which ring0 runs: from create to delete, with real pods."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.testing import cluster as real
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()),
    pytest.mark.slow,
]

READY_SECONDS_MAX = 180.0
RING0 = "/api/v1/namespaces/kube-system"
SETS = "/apis/apps/v1/namespaces/kube-system/statefulsets"


class Dedicated:
    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.system = cluster.server.system
        self._directory = directory

    def create(self, name: str, **control_plane: Any) -> Caller:
        spec: Object = {"controlPlane": {"mode": "Dedicated", "storage": {"size": "128Mi"}, **control_plane}}
        if not self.cluster.runs_gvisor:
            spec["podSecurity"] = "privileged"  # Its pods run in plain containers then.
        answer = self.system.post("/api/v1/tenants", {"metadata": {"name": name}, "spec": spec})
        assert answer.status == 201, answer.body
        return self.admin(name)

    def tenant(self, name: str) -> Object:
        found: Object = self.system.get(f"/api/v1/tenants/{name}").json
        return found

    def admin(self, name: str, user: str = "admin") -> Caller:
        """Waits for the plane, and for the kubeconfig that ring0 issues."""
        path = f"{RING0}/secrets/plane-{name}-user-{user}"
        try:
            wait_until(lambda: self.system.get(path).status == 200, READY_SECONDS_MAX)
        except AssertionError as error:
            raise AssertionError(self.tenant(name).get("status")) from error
        data = self.system.get(path).json["data"]["kubeconfig"]
        kubeconfig = self._directory / f"{name}-{user}.kubeconfig"
        kubeconfig.write_bytes(base64.b64decode(data))
        caller = Caller(kubeconfig)
        wait_until(lambda: condition(self.tenant(name), "Joined") == "True", READY_SECONDS_MAX)
        wait_until(
            lambda: caller.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200,
            READY_SECONDS_MAX,
        )
        return caller

    def plane_pid(self, name: str) -> int:
        """The API server's process on this machine."""
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = each.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--tenant" in words and words[words.index(b"--tenant") + 1] == name.encode():
                return int(each.parent.name)
        return 0


def alcove(dedicated: Dedicated, *words: str) -> str:
    via = ("--kubeconfig", str(dedicated.cluster.server.admin_kubeconfig))
    command = [sys.executable, "-m", "alcove.processes.main", *words, *via]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dedicated]:
    directory = tmp_path_factory.mktemp("dedicated")
    with RealCluster(directory) as cluster:
        yield Dedicated(cluster, directory)


@pytest.fixture(scope="module")
def acme(dedicated: Dedicated) -> Caller:
    return dedicated.create("acme")


def test_status_says_that_everything_is_ready(dedicated: Dedicated, acme: Caller) -> None:
    names = ("CertificatesReady", "StoreReady", "APIServerReady", "Joined", "Initialized")
    wait_until(lambda: all(condition(dedicated.tenant("acme"), each) == "True" for each in names))
    status = dedicated.tenant("acme")["status"]
    assert status["endpoint"].startswith("https://10.249.")
    assert "BEGIN CERTIFICATE" in status["controlPlane"]["certificateAuthority"]
    assert "default" in acme.kubectl("get", "namespaces")
    assert acme.get("/api/v1/tenants/system/pods").status == 403


def test_pods_run_with_logs_exec_and_proxy(dedicated: Dedicated, acme: Caller, tmp_path: Path) -> None:
    """At the plane's own address, and at the home plane's with the kubeconfig that `alcove tenant kubeconfig` writes."""
    command = "echo hello; mkdir /tmp/www; echo page > /tmp/www/index.html; httpd -f -p 8080 -h /tmp/www"
    real.create(acme, real.pod("web", command))
    real.ready(acme, "web", READY_SECONDS_MAX)
    written = tmp_path / "home.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", "acme", "-o", str(written))
    for caller in (acme, Caller(written)):
        wait_until(lambda caller=caller: "hello" in caller.kubectl("logs", "web", check=False))
        assert "inside" in caller.kubectl("exec", "web", "--", "echo", "inside")
        assert [each.split()[0] for each in caller.kubectl("get", "nodes", "--no-headers").splitlines()] == [
            "n1"
        ]
        answer = caller.get("/api/v1/namespaces/default/pods/web:8080/proxy/index.html")
        assert answer.status == 200 and answer.body == b"page\n", answer.body
    assert Caller(written).kubeconfig.read_text().count("/tenants/acme") == 1


def test_another_user_is_issued_a_certificate_by_the_plane(
    dedicated: Dedicated, acme: Caller, tmp_path: Path
) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    written = tmp_path / "guest.kubeconfig"
    alcove(dedicated, "tenant", "kubeconfig", "acme", "--user", "guest", "-o", str(written))
    answer = Caller(written).get("/api/v1/namespaces")
    assert answer.status == 403 and 'User "guest"' in answer.json["message"]


def test_a_killed_api_server_comes_back_with_its_objects(dedicated: Dedicated, acme: Caller) -> None:
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


def test_deleted_pieces_come_back(dedicated: Dedicated, acme: Caller) -> None:
    secret = f"{RING0}/secrets/plane-acme-user-admin"
    assert dedicated.system.delete(secret).status == 200
    wait_until(lambda: dedicated.system.get(secret).status == 200, READY_SECONDS_MAX)
    before = dedicated.system.get(f"{SETS}/plane-acme").json["metadata"]["uid"]
    assert dedicated.system.delete(f"{SETS}/plane-acme").status == 200

    def replaced() -> bool:
        answer = dedicated.system.get(f"{SETS}/plane-acme")
        return answer.status == 200 and answer.json["metadata"]["uid"] != before

    wait_until(replaced, READY_SECONDS_MAX)
    wait_until(lambda: condition(dedicated.tenant("acme"), "APIServerReady") == "True", READY_SECONDS_MAX)


def test_a_deleted_tenant_leaves_nothing(dedicated: Dedicated, acme: Caller) -> None:
    assert acme.get("/api/v1/namespaces").status == 200
    assert dedicated.system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: dedicated.system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
    paths = (
        f"{SETS}/plane-acme",
        f"{RING0}/secrets/plane-acme",
        f"{RING0}/persistentvolumeclaims/plane-acme",
    )
    for path in (*paths, f"{RING0}/secrets/plane-acme-user-admin", f"{RING0}/pods/plane-acme-0"):
        wait_until(lambda path=path: dedicated.system.get(path).status == 404, READY_SECONDS_MAX)
    wait_until(lambda: dedicated.plane_pid("acme") == 0, READY_SECONDS_MAX)
    wait_until(lambda: not dedicated.system.get("/api/v1/persistentvolumes").json["items"], READY_SECONDS_MAX)
