"""`alcove kubectl` knows tenants where kubectl does not: in manifests, of nodes, in messages."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from alcove.testing.server import LocalServer, wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FORCED = {"arktos.futurewei.com/crd-sharing-policy": "forced"}


@pytest.fixture(scope="module")
def tenants(cluster: LocalServer) -> tuple[str, str]:
    for name in ("left", "right"):
        assert cluster.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
        default = f"/api/v1/tenants/{name}/namespaces/default"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}"
        for path in (
            f"{default}/serviceaccounts/default",
            f"{default}/configmaps/kube-root-ca.crt",
            f"{rbac}/clusterrolebindings/admin-role-binding",
        ):
            wait_until(lambda path=path: cluster.system.get(path).status == 200)
    return "left", "right"


def run(
    cluster: LocalServer, *words: str, config: Path | None = None, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "alcove.processes.main", "kubectl", *words],
        capture_output=True,
        text=True,
        timeout=300,
        input=stdin,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(cluster.directory),
            "KUBECONFIG": str(config or cluster.admin_kubeconfig),
        },
    )


def kubeconfig(cluster: LocalServer, tenant: str) -> Path:
    return cluster.as_tenant(tenant).kubeconfig


def config_map(name: str, tenant: str = "") -> str:
    metadata = {"name": name, **({"tenant": tenant} if tenant else {})}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def exists(cluster: LocalServer, tenant: str, name: str) -> bool:
    path = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps/{name}"
    return cluster.system.get(path).status == 200


def test_objects_go_to_the_tenant_that_they_name(
    cluster: LocalServer, tenants: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(config_map("one", "left"))
    assert run(cluster, "apply", "-f", str(file)).stdout == "configmap/one created\n"
    assert exists(cluster, "left", "one") and not exists(cluster, "system", "one")
    both = "---\n".join([config_map("two", "left"), config_map("two", "right"), config_map("two")])
    assert run(cluster, "create", "-f", "-", stdin=both).stdout == "configmap/two created\n" * 3
    assert all(exists(cluster, tenant, "two") for tenant in ("left", "right", "system"))
    refused = run(cluster, "delete", "-f", str(file), "--tenant", "right")
    assert refused.returncode == 1 and refused.stderr == (
        'error: the tenant from the provided object "left" does not match the tenant "right". '
        "You must pass '--tenant=left' to perform this operation.\n"
    )
    assert run(cluster, "delete", "-f", "-", stdin=both).returncode == 0
    assert not any(exists(cluster, tenant, "two") for tenant in ("left", "right", "system"))


def test_a_foreign_tenant_is_refused_once_and_by_name(cluster: LocalServer, tenants: tuple[str, str]) -> None:
    refused = run(cluster, "get", "pods", "--tenant", "right", config=kubeconfig(cluster, "left"))
    assert refused.returncode == 1
    assert refused.stderr == (
        'Error from server (Forbidden): pods is forbidden: User "admin" cannot list resource "pods" in API group ""'
        ' in the namespace "default" in the tenant "right"\n'
    )


def test_a_shared_crd_is_not_applied_by_a_tenant(
    cluster: LocalServer, tenants: tuple[str, str], tmp_path: Path
) -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    spec = {
        "group": "sea.example",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "scope": "Namespaced",
        "versions": [version],
    }
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.example", "labels": FORCED},
        "spec": spec,
    }
    file = tmp_path / "crd.yaml"
    file.write_text(yaml.safe_dump(crd))
    try:
        assert "created" in run(cluster, "apply", "-f", str(file)).stdout
        wait_until(lambda: cluster.as_tenant("left").get(f"{CRDS}/boats.sea.example").status == 200)
        assert "unchanged" in run(cluster, "apply", "-f", str(file)).stdout, "it is ring0's own"
        for words in ((), ("--server-side",)):
            done = run(cluster, "apply", "-f", str(file), *words, config=kubeconfig(cluster, "left"))
            assert done.returncode == 1, done.stdout
            assert "boats.sea.example is a system CRD, you cannot overwrite it" in done.stderr
    finally:
        cluster.system.delete(f"{CRDS}/boats.sea.example")


def test_describe_shows_the_tenant(cluster: LocalServer, tenants: tuple[str, str]) -> None:
    for tenant in tenants:
        run(cluster, "create", "configmap", "shown", "--tenant", tenant)
    lines = run(cluster, "describe", "configmap", "shown", "--tenant", "left").stdout.splitlines()
    assert lines[:3] == ["Name:         shown", "Tenant:       left", "Namespace:    default"]
    own = run(cluster, "describe", "configmaps", config=kubeconfig(cluster, "right")).stdout.splitlines()
    assert own.count("Tenant:       right") == sum(line.startswith("Name: ") for line in own) > 1
    assert "\nTenant:       system\n" in run(cluster, "describe", "namespace", "default").stdout
    missing = run(cluster, "describe", "configmap", "none", "--tenant", "left")
    assert missing.returncode == 1 and "NotFound" in missing.stderr


def test_the_context_is_honoured_with_a_tenant(
    cluster: LocalServer, tenants: tuple[str, str], tmp_path: Path
) -> None:
    config = yaml.safe_load(cluster.admin_kubeconfig.read_text())
    (context,) = config["contexts"]
    nowhere = {**config["clusters"][0]["cluster"], "server": "https://127.0.0.1:1"}
    config["clusters"].append({"name": "nowhere", "cluster": nowhere})
    other = {**context["context"], "cluster": "nowhere"}
    config["contexts"] = [{"name": "here", "context": context["context"]}, {"name": "away", "context": other}]
    config["current-context"] = "away"
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    done = run(
        cluster, "get", "namespaces", "-o", "name", "--tenant", "left", "--context", "here", config=file
    )
    assert "namespace/default" in done.stdout, done.stderr
    away = run(cluster, "get", "namespaces", "--tenant", "left", "--context=away", config=file)
    assert "127.0.0.1:1" in away.stderr
    none = run(cluster, "get", "namespaces", "--tenant", "left", "--context=none", config=file)
    assert none.returncode and 'the context "none"' in none.stderr


def test_the_first_tenant_exists_already(cluster: LocalServer) -> None:
    done = run(cluster, "create", "tenant", "system")
    assert done.returncode == 1
    assert done.stderr == 'Error from server (AlreadyExists): tenants "system" already exists\n'


def test_drain_evicts_the_pods_of_all_tenants(cluster: LocalServer, tenants: tuple[str, str]) -> None:
    assert cluster.system.post("/api/v1/nodes", {"metadata": {"name": "old"}}).status == 201
    paths = [f"/api/v1/tenants/{tenant}/namespaces/default/pods" for tenant in tenants]
    pod = {
        "metadata": {"name": "web"},
        "spec": {"nodeName": "old", "containers": [{"name": "c", "image": "i"}]},
    }
    for path in paths:
        assert cluster.system.post(path, pod).status == 201
    refused = run(cluster, "drain", "old", "--ignore-daemonsets")
    assert refused.returncode == 1 and "left/default/web" in refused.stderr
    done = run(cluster, "drain", "old", "--ignore-daemonsets", "--force", "--grace-period=0", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("node/old drained\n") and "evicting right/default/web" in done.stdout
    assert [cluster.system.get(f"{path}/web").status for path in paths] == [404, 404]
    assert cluster.system.get("/api/v1/nodes/old").json["spec"]["unschedulable"] is True
