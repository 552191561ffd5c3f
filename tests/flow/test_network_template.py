"""New tenants' networks by a template of the operator's."""

import subprocess
import sys
from pathlib import Path

import pytest

from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import LocalServer, wait_until

YAML = """\
apiVersion: arktos.futurewei.com/v1
kind: Network
metadata:
  name: default
  tenant: somebody-else
  labels: {made-for: "{{ tenant }}"}
spec:
  type: mizar
  vpcID: "{{.}}-default-network"
"""
JSON = '{"metadata": {"name": "default"}, "spec": {"type": "vpc", "vpcID": "vpc-{{.}}"}}'


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (YAML, {"type": "mizar", "vpcID": "acme-default-network"}),
        pytest.param(JSON, {"type": "vpc", "vpcID": "vpc-acme"}, marks=pytest.mark.slow),
    ],
    ids=["yaml", "json"],
)
def test_the_network_is_rendered_for_the_tenant(tmp_path: Path, text: str, spec: dict[str, str]) -> None:
    template = tmp_path / "network"
    template.write_text(text)
    option = ("--default-network-template-path", str(template))
    with LocalServer(tmp_path / "server") as server, LocalControllers(server, tmp_path, *option):
        server.system.post("/api/v1/tenants", {"metadata": {"name": "acme"}})
        path = "/apis/arktos.futurewei.com/v1/tenants/acme/networks/default"
        wait_until(lambda: server.system.get(path).status == 200)
        made = server.system.get(path).json
        assert made["metadata"]["tenant"] == "acme"
        assert {field: made["spec"][field] for field in spec} == spec


@pytest.mark.parametrize("text", ["{", "kind: Pod\nspec: {}", "[]", "metadata: {}"])
def test_a_template_that_is_none_is_refused_at_the_start(
    server: LocalServer, tmp_path: Path, text: str
) -> None:
    template = tmp_path / "network"
    template.write_text(text)
    arguments = [
        "--kubeconfig",
        str(server.admin_kubeconfig),
        "--default-network-template-path",
        str(template),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "alcove.processes.main", "controllers", *arguments],
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 1 and str(template) in done.stderr and "Traceback" not in done.stderr
