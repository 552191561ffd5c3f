"""`alcove up` where gVisor is installed and starts nothing: it says so first, and shows what there is."""

import subprocess
import sys
from pathlib import Path

import pytest

from alcove.testing import needs, snapshot
from alcove.testing.claims import free_port
from alcove.testing.machine import lacking

LACKING = lacking() or needs.tools("runsc", "crun", "unshare")
pytestmark = [
    pytest.mark.root,
    pytest.mark.alone,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]
# The cluster's processes see the broken runsc first; nobody else does.
SCRIPT = """
mount --bind {shadow} /usr/local/sbin
trap '{alcove} destroy --yes --data {data} >&2' EXIT
{alcove} up --data {data} --port {port}
export KUBECONFIG={data}/admin.kubeconfig
printf '\n== tenant\n'
kubectl --server {server}/tenants/red get pods -n vpc web -o 'jsonpath={{.status.phase}} {{.status.podIP}}'
printf '\n== ring0\n'
kubectl run own --image alcove/busybox --restart Never -- sh -c 'echo really'
# Not `kubectl wait --for=jsonpath`, which that of Debian 12 does not know.
phase() {{ kubectl get pod own -o 'jsonpath={{.status.phase}}'; }}
timeout_at=$((SECONDS + 60))
until [ "$(phase)" = Succeeded ]; do [ $SECONDS -lt $timeout_at ] || {{ kubectl describe pod own; break; }}; sleep 0.2; done
kubectl logs own
printf '\n== doctor\n'
{alcove} doctor --data {data} || echo "exit code $?"
"""


def test_ring0_runs_in_crun_and_tenants_are_hollow_and_it_is_said_first(tmp_path: Path) -> None:
    before = snapshot.look(str(tmp_path))
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "runsc").write_text("#!/bin/sh\necho 'unknown platform: systrap' >&2\nexit 128\n")
    (shadow / "runsc").chmod(0o755)
    port = free_port()
    script = SCRIPT.format(
        shadow=shadow,
        data=tmp_path / "state",
        port=port,
        server=f"https://127.0.0.1:{port}",
        alcove=f"{sys.executable} -m alcove.processes.main",
    )
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "bash", "-eu", "-c", script],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    up, tenant, ring0, doctor = (part.strip() for part in _parts(done.stdout))
    trial, made = up.index("gVisor fails its trial"), up.index("API server")
    assert trial < made and "backports" in up[:made] and "tenants' pods are hollow" in up[:made]
    assert "ready (crun, hollow" in up and "demo: tenants red and blue" in up
    assert tenant == "Running 10.0.0.11"
    assert ring0.endswith("really")
    assert "no tenants" in doctor and doctor.endswith("exit code 1")
    assert not (tmp_path / "state").exists()
    assert snapshot.left_since(before, str(tmp_path), 60) == []


def _parts(text: str) -> list[str]:
    """The output of `up`, and the lines after each heading."""
    parts = [""]
    for line in text.splitlines():
        if line.startswith("== "):
            parts.append("")
        else:
            parts[-1] += f"{line}\n"
    return parts
