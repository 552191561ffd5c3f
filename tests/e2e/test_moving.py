"""Real pods over a move to an own API server and back: containers, processes, addresses, volumes and connections stay."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

import pytest

from alcove.api.objects import Object
from alcove.testing import cluster as real
from alcove.testing.cluster import PODS, RealCluster
from alcove.testing.dedicated import READY_SECONDS_MAX
from alcove.testing.server import Caller, wait_until

pytestmark = [
    pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()),
    pytest.mark.slow,
]

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("moving")) as running:
        yield running


def move(cluster: RealCluster, to: str) -> str:
    words = ["tenant", "move", "acme", "--to", to, "--kubeconfig", str(cluster.server.admin_kubeconfig)]
    command = [sys.executable, "-m", "alcove.processes.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS_MAX)
    status = cluster.server.system.get("/api/v1/tenants/acme").json["status"]
    assert done.returncode == 0, (done.stdout + done.stderr, status)
    return done.stderr


def facts(caller: Caller, name: str) -> Object:
    """What tells one run of a pod from another."""
    found = caller.get(f"{PODS}/{name}").json
    [container] = found["status"]["containerStatuses"]
    return {
        "uid": found["metadata"]["uid"],
        "node": found["spec"]["nodeName"],
        "address": found["status"]["podIP"],
        "container": container["containerID"],
        "started": container["state"]["running"]["startedAt"],
        "restarts": container["restartCount"],
    }


def beats(caller: Caller, name: str) -> list[int]:
    """The seconds at which the pod's process wrote to its log."""
    return [int(line) for line in caller.kubectl("logs", name).split()]


def test_a_pod_keeps_its_process_and_address_over_a_move_and_back(cluster: RealCluster) -> None:
    spec: Object = {} if cluster.runs_gvisor else {"podSecurity": "privileged"}
    system = cluster.server.system
    tenant = {"metadata": {"name": "acme"}, "spec": spec}
    assert system.post("/api/v1/tenants", tenant).status == 201
    wait_until(lambda: real.tenant_is_ready(cluster.server, "acme"), READY_SECONDS_MAX)
    admin = cluster.server.as_tenant("acme")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    assert admin.post(CLAIMS, {"metadata": {"name": "data"}, "spec": claim}).status == 201
    web = real.pod("web", "mkdir /tmp/w; echo here > /tmp/w/index.html; httpd -f -p 8080 -h /tmp/w")
    beat = real.pod("beat", "while true; do date +%s; date +%s >> /data/beats; sleep 1; done")
    beat["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    beat["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    for each in (web, beat):
        real.create(admin, each)
    for name in ("web", "beat"):
        real.ready(admin, name, READY_SECONDS_MAX)
    before = {name: facts(admin, name) for name in ("web", "beat")}
    address = before["web"]["address"]
    for to in ("dedicated", "shared"):
        progress = move(cluster, to)
        assert "Copying" in progress
        assert {name: facts(admin, name) for name in before} == before
        # Logs and exec follow when the agent has joined or left the plane.
        wait_until(lambda: admin.kubectl("exec", "beat", "--", "true", check=False) == "")
        asks = f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 5 {address} 8080"
        assert "here" in admin.kubectl("exec", "beat", "--", "sh", "-c", asks), "the network works"
        moments = beats(admin, "beat")
        assert max(later - earlier for earlier, later in pairwise(moments)) <= 3
        kept = admin.kubectl("exec", "beat", "--", "sh", "-c", "wc -l < /data/beats")
        assert int(kept) >= len(moments) - 2, "the volume is the same"
        # What runs there can be changed there.
        real.create(admin, real.pod(f"after-{to}"))
        real.ready(admin, f"after-{to}", READY_SECONDS_MAX)
    # Agents that start anew find the pods of a tenant that has moved.
    move(cluster, "dedicated")
    [agent] = cluster.agents.values()
    agent.stop()
    agent.start()
    agent.wait()
    wait_until(lambda: admin.kubectl("exec", "beat", "--", "true", check=False) == "", READY_SECONDS_MAX)
    assert {name: facts(admin, name) for name in before} == before
    assert system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
