"""Clients of others, unchanged, with nothing but a kubeconfig: their ordinary list, watch and patch loops."""

import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import kubernetes
import lightkube
import pytest
from kubernetes import watch
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap

from alcove.testing.server import Caller, wait_until

untyped_config: Any = kubernetes.config
untyped_watch: Any = watch


@pytest.fixture
def api(tenant: Caller) -> Any:
    return kubernetes.client.CoreV1Api(untyped_config.new_client_from_config(str(tenant.kubeconfig)))


def test_kubernetes_client_lists_watches_and_patches(api: Any) -> None:
    body = {"metadata": {"name": "a"}, "data": {"n": "0"}}
    api.create_namespaced_config_map("default", body)
    listed = api.list_namespaced_config_map("default")
    assert [item.metadata.name for item in listed.items] == ["a"]
    seen: list[tuple[str, str]] = []
    ready = threading.Event()

    def follow() -> None:
        stream = untyped_watch.Watch().stream(
            api.list_namespaced_config_map,
            "default",
            resource_version=listed.metadata.resource_version,
            timeout_seconds=60,
        )
        ready.set()
        for event in stream:
            seen.append((event["type"], event["object"].data["n"]))
            if event["type"] == "DELETED":
                return

    follower = threading.Thread(target=follow)
    follower.start()
    ready.wait(60)
    api.patch_namespaced_config_map("a", "default", {"data": {"n": "1"}})
    api.delete_namespaced_config_map("a", "default")
    follower.join(60)
    assert seen == [("MODIFIED", "1"), ("DELETED", "1")]
    with pytest.raises(kubernetes.client.ApiException) as refused:
        api.read_namespaced_config_map("a", "default")
    assert refused.value.status == 404


def test_lightkube(tenant: Caller) -> None:
    config = lightkube.KubeConfig.from_file(str(tenant.kubeconfig))
    client = lightkube.Client(config=config, field_manager="lightkube")
    client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"n": "0"}))
    assert [item.metadata.name for item in client.list(ConfigMap) if item.metadata] == ["a"]
    client.patch(ConfigMap, "a", {"data": {"n": "1"}})
    applied = client.apply(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"m": "2"}))
    assert applied.data == {"n": "1", "m": "2"}
    for event, item in client.watch(ConfigMap, server_timeout=60):
        assert (event, item.data) == ("ADDED", {"n": "1", "m": "2"})
        break
    client.delete(ConfigMap, "a")


OPERATOR = """
import kopf

@kopf.on.create("configmaps", labels={"watched": "yes"})
def created(name, patch, **_):
    patch.metadata.annotations["operator"] = f"saw {name}"
"""


def test_kopf_runs_its_handlers(tenant: Caller, tmp_path: Path) -> None:
    (tmp_path / "operator.py").write_text(textwrap.dedent(OPERATOR))
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--namespace=default",
        "--standalone",
        str(tmp_path / "operator.py"),
    ]
    maps = "/api/v1/namespaces/default/configmaps"
    environment = {"KUBECONFIG": str(tenant.kubeconfig), "PATH": "/usr/bin:/bin"}
    with (tmp_path / "log").open("w") as log:
        operator = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        tenant.post(maps, {"metadata": {"name": "a", "labels": {"watched": "yes"}}})
        noted = wait_until(
            lambda: tenant.get(f"{maps}/a").json["metadata"].get("annotations", {}).get("operator")
        )
        assert noted == "saw a"
    finally:
        operator.terminate()
        operator.wait(60)


@pytest.mark.parametrize(("kind", "status"), [("strategic-merge-patch+json", 200), ("merge-patch+json", 400)])
def test_a_strategic_patch_may_say_that_it_is_something_else(tenant: Caller, kind: str, status: int) -> None:
    """As Ansible's k8s_scale does: it patches a Scale and calls it a Deployment."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert tenant.post(path, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    patch = {"kind": "Deployment", "spec": {"replicas": 2}}
    answer = tenant.patch(f"{path}/web/scale", patch, kind)
    assert answer.status == status
    if status == 200:
        assert (answer.json["kind"], answer.json["spec"]) == ("Scale", {"replicas": 2})
    assert tenant.patch(f"{path}/web", {"kind": "Pod", "metadata": {"labels": labels}}, kind).status == status
