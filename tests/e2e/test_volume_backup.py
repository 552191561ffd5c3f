"""Files in volumes go with a tenant's backup: to a new tenant, a dedicated one, a clone, and one that was deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing import cluster as real
from alcove.testing.cluster import PODS, RealCluster
from alcove.testing.dedicated import READY_SECONDS_MAX, DedicatedTenants
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.skipif(bool(real.lacking()), reason=real.lacking()), pytest.mark.slow]

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LARGE_MIB = 64
MEMORY_MIB_MAX = 135
"""Of the command, or of kubectl; it takes 105 without any file, 64 of them for the key of a passphrase."""
WRITE = (
    "cd /data; test -e note || { echo kept > note; chmod 640 note; chown 7:8 note; ln -s note link; "
    f"dd if=/dev/urandom of=large bs=1M count={LARGE_MIB}; sha256sum large > sum; }}; "
    "sha256sum -c sum && ls -ln note && cat link; touch /tmp/done; sleep 1000"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("volumes")) as running:
        yield running


def alcove(cluster: RealCluster, *words: str | Path) -> int:
    """Runs `alcove tenant …`; returns the MiB of memory that it took."""
    command = [sys.executable, "-m", "alcove.processes.main", "tenant", *map(str, words)]
    command += ["--kubeconfig", str(cluster.server.admin_kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return usage.ru_maxrss >> 10


def deployment() -> Object:
    template = real.pod("x", WRITE)
    template["metadata"] = {"labels": {"app": "writer"}}
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    template["spec"]["containers"][0]["readinessProbe"] = {
        "exec": {"command": ["test", "-e", "/tmp/done"]},
        "periodSeconds": 1,
    }
    template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    selector = {"matchLabels": {"app": "writer"}}
    spec = {"replicas": 1, "selector": selector, "template": template, "strategy": {"type": "Recreate"}}
    return {"metadata": {"name": "writer"}, "spec": spec}


def log(caller: Caller) -> str:
    """What the writer has found in its volume, once it is ready."""

    def pod() -> str:
        for each in caller.get(PODS).json["items"]:
            states = each["status"].get("conditions") or ()
            if any(one["type"] == "Ready" and one["status"] == "True" for one in states):
                return str(each["metadata"]["name"])
        return ""

    return caller.kubectl("logs", str(wait_until(pod, READY_SECONDS_MAX)))


def check(caller: Caller) -> None:
    """The files are as they were written, once, with their owners and modes."""
    found = log(caller)
    assert "large: OK" in found and "kept" in found, found
    assert "-rw-r-----    1 7        8 " in found, found
    assert "records" not in found, "written again"


@pytest.fixture(scope="module")
def backup(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    """A backup of the tenant `acme`, and how it is opened."""
    acme = cluster.make_tenant("acme")
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "128Mi"}}},
    }
    assert acme.post(CLAIMS, claim).status == 201
    assert acme.post(DEPLOYMENTS, deployment()).status == 201
    assert "large: OK" in log(acme)
    directory = tmp_path_factory.mktemp("backup")
    passphrase, file = directory / "passphrase", directory / "acme.backup"
    passphrase.write_text("correct horse battery")
    sealed = ("--passphrase-file", passphrase)
    taken = alcove(cluster, "backup", "acme", "--volumes", "-o", file, *sealed)
    assert taken < MEMORY_MIB_MAX and file.stat().st_size > LARGE_MIB << 20
    left = [each["metadata"]["name"] for each in acme.get(PODS).json["items"]]
    assert not any(name.startswith("alcove-backup") for name in left)
    return (file, *sealed)


def test_a_deleted_tenant_comes_back_with_its_files(
    cluster: RealCluster, backup: tuple[str | Path, ...], tmp_path: Path
) -> None:
    system = cluster.server.system
    assert system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
    assert alcove(cluster, "restore", *backup) < MEMORY_MIB_MAX
    # Certificates that are older than their tenant are not valid.
    alcove(cluster, "kubeconfig", "acme", "-o", tmp_path / "acme.kubeconfig")
    check(Caller(tmp_path / "acme.kubeconfig"))


def test_a_clone_has_the_files_too(cluster: RealCluster, backup: tuple[str | Path, ...]) -> None:
    assert backup
    alcove(cluster, "clone", "acme", "copy", "--volumes")
    check(cluster.server.as_tenant("copy"))
    assert cluster.server.system.delete("/api/v1/tenants/copy").status == 200


def test_files_go_to_a_dedicated_tenant_and_from_there(
    cluster: RealCluster, backup: tuple[str | Path, ...], tmp_path: Path
) -> None:
    big = DedicatedTenants(cluster, tmp_path).create("big")
    alcove(cluster, "restore", *backup, "--tenant", "big", "--existing", "keep")
    check(big)
    again = tmp_path / "big.backup"
    alcove(cluster, "backup", "big", "--volumes", "-o", again)
    assert again.stat().st_size > LARGE_MIB << 20


def test_a_tenant_that_is_asleep_is_saved_with_its_files_before_it_is_deleted(
    cluster: RealCluster, backup: tuple[str | Path, ...], tmp_path: Path
) -> None:
    system, path = cluster.server.system, "/api/v1/tenants/last"
    cluster.make_tenant("last")
    alcove(cluster, "restore", *backup, "--tenant", "last", "--existing", "keep")
    check(cluster.server.as_tenant("last"))
    spec = {"backup": {"to": str(tmp_path), "volumes": True}, "backupBeforeDelete": True}
    assert system.patch(path, {"spec": {**spec, "sleep": {"asleep": True}}}).status == 200
    wait_until(lambda: real.condition(system.get(path).json, "Asleep") == "True", READY_SECONDS_MAX)
    assert system.delete(path).status == 200
    wait_until(lambda: system.get(path).status == 404, READY_SECONDS_MAX)
    [place] = tmp_path.glob("last-*/*.backup")
    assert place.stat().st_size > LARGE_MIB << 20
    alcove(cluster, "restore", place)
    alcove(cluster, "kubeconfig", "last", "-o", tmp_path / "last.kubeconfig")
    check(Caller(tmp_path / "last.kubeconfig"))
