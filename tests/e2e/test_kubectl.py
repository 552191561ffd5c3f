"""The machine's kubectl against the API server, with nothing but a kubeconfig: in ring0 and in a tenant."""

import json
import os
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing import needs
from alcove.testing.server import Caller, LocalServer

OTHERS = sorted(Path(shutil.which("kubectl") or "/").resolve().parent.glob("kubectl.1.*"))
"""Some packages bring kubectl of several releases. Each has its own ideas of discovery and of schemas."""
DEPLOYMENT = textwrap.dedent("""\
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      labels: {app: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
          - name: web
            image: nginx:1.27
            ports: [{containerPort: 80}]
    """)


@pytest.fixture(params=["ring0", "tenant"])
def caller(request: pytest.FixtureRequest, server: LocalServer, tenant: Caller) -> Iterator[Caller]:
    who = server.system if request.param == "ring0" else tenant
    yield who
    who.kubectl("delete", "deployments,configmaps,pods", "--all", "--grace-period=0", "--force")


def read(caller: Caller, *what: str) -> dict[str, object]:
    obj: dict[str, object] = json.loads(caller.kubectl("get", *what, "-o", "json"))
    return obj


def test_apply_get_describe_edit_delete(caller: Caller, tmp_path: Path) -> None:
    assert "created" in caller.kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "unchanged" in caller.kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "configured" in caller.kubectl(
        "apply", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    )
    shown = caller.kubectl("get", "deployments", "-o", "wide")
    assert "0/3" in shown and "nginx:1.27" in shown
    assert "StrategyType:" in caller.kubectl("describe", "deployment", "web")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/replicas: 3/replicas: 4/" "$1"\n')
    editor.chmod(0o755)
    message = caller.kubectl("edit", "deployment", "web", "--validate=true", env={"KUBE_EDITOR": str(editor)})
    assert "edited" in message
    assert read(caller, "deployment", "web")["spec"]["replicas"] == 4  # type: ignore[index]
    assert "deleted" in caller.kubectl("delete", "deployment", "web")
    assert "NotFound" in caller.kubectl("get", "deployment", "web", check=False)


@pytest.mark.parametrize("program", OTHERS, ids=lambda path: path.name)
def test_kubectl_of_other_releases_works(server: LocalServer, program: Path, tmp_path: Path) -> None:
    (tmp_path / "kubectl").symlink_to(program)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    flags = ("--cache-dir", str(tmp_path / "cache"))
    who = server.system
    try:
        assert "created" in who.kubectl("apply", "-f", "-", *flags, stdin=DEPLOYMENT, env=env)
        assert "configured" in who.kubectl(
            "apply", "-f", "-", *flags, stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 3"), env=env
        )
        assert "0/3" in who.kubectl("get", "deploy", "web", *flags, env=env)
        assert "StrategyType:" in who.kubectl("describe", "deploy", "web", *flags, env=env)
        assert "minReadySeconds" in who.kubectl("explain", "deployments.spec", *flags, env=env)
    finally:
        who.kubectl("delete", "deployment", "web")


def test_server_side_apply_reports_conflicts(caller: Caller) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    caller.kubectl(*apply, "--field-manager=first", stdin=DEPLOYMENT)
    other = DEPLOYMENT.replace("replicas: 2", "replicas: 5")
    message = caller.kubectl(*apply, "--field-manager=second", stdin=other, check=False)
    assert 'conflict with "first"' in message and ".spec.replicas" in message
    caller.kubectl(*apply, "--field-manager=second", "--force-conflicts", stdin=other)
    assert read(caller, "deployment", "web")["spec"]["replicas"] == 5  # type: ignore[index]


def test_a_manifest_that_lost_its_only_label_is_applied_again(caller: Caller) -> None:
    manifest = (
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain"LABELS}, "data": {"a": "1"}}'
    )
    apply = ("apply", "--server-side", "--field-manager=ci", "-f", "-")
    caller.kubectl(*apply, stdin=manifest.replace("LABELS", ', "labels": {"tier": "web"}'))
    assert "serverside-applied" in caller.kubectl(*apply, stdin=manifest.replace("LABELS", ""))
    assert "labels" not in read(caller, "configmap", "plain")["metadata"]  # type: ignore[operator]


def test_patch_label_annotate_replace_scale(caller: Caller) -> None:
    caller.kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    caller.kubectl("label", "deployment", "web", "tier=front")
    caller.kubectl("annotate", "deployment", "web", "note=hello")
    caller.kubectl("patch", "deployment", "web", "-p", '{"spec":{"paused":true}}')
    caller.kubectl(
        "patch", "deployment", "web", "--type=json", "-p", '[{"op":"remove","path":"/spec/paused"}]'
    )
    caller.kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"minReadySeconds":7}}')
    caller.kubectl("scale", "deployment", "web", "--replicas=6")
    found = read(caller, "deployment", "web")
    assert found["metadata"]["labels"] == {"app": "web", "tier": "front"}  # type: ignore[index]
    assert found["metadata"]["annotations"]["note"] == "hello"  # type: ignore[index]
    assert (found["spec"]["replicas"], found["spec"]["minReadySeconds"]) == (6, 7)  # type: ignore[index]
    assert "paused" not in found["spec"]  # type: ignore[operator]
    assert "replaced" in caller.kubectl("replace", "-f", "-", stdin=DEPLOYMENT)
    assert read(caller, "deployment", "web")["spec"]["replicas"] == 2  # type: ignore[index]


def test_diff_shows_what_would_change(caller: Caller) -> None:
    caller.kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert caller.kubectl("diff", "-f", "-", stdin=DEPLOYMENT) == ""
    message = caller.kubectl(
        "diff", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 9"), check=False
    )
    assert "+  replicas: 9" in message and "-  replicas: 2" in message


def test_generated_objects_and_dry_run(caller: Caller) -> None:
    caller.kubectl("create", "configmap", "settings", "--from-literal=a=b")
    assert read(caller, "configmap", "settings")["data"] == {"a": "b"}
    message = caller.kubectl("run", "probe", "--image=busybox", "--dry-run=server", "-o", "yaml")
    assert "serviceAccountName: default" in message
    assert "NotFound" in caller.kubectl("get", "pod", "probe", check=False)


@pytest.mark.skipif(bool(needs.kubectl(24)), reason=needs.kubectl(24))
def test_wait_and_rollout_status(caller: Caller) -> None:
    caller.kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
    }
    caller.kubectl(
        "patch",
        "deployment",
        "web",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": status}),
    )
    assert "successfully rolled out" in caller.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    caller.kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=2", "--timeout=60s")
    caller.kubectl("delete", "deployment", "web", "--wait=false")
    caller.kubectl("wait", "deployment/web", "--for=delete", "--timeout=60s")


@pytest.mark.skipif(bool(needs.kubectl(28)), reason=needs.kubectl(28))
def test_rights_and_tokens(caller: Caller) -> None:
    assert caller.kubectl("auth", "can-i", "create", "deployments").strip() == "yes"
    assert "admin" in caller.kubectl("auth", "whoami")
    assert "*.*" in caller.kubectl("auth", "can-i", "--list")
    caller.kubectl("create", "serviceaccount", "robot")
    assert caller.kubectl("create", "token", "robot").count(".") == 2
    message = caller.kubectl(
        "auth", "can-i", "list", "pods", "--as=system:serviceaccount:default:robot", check=False
    )
    assert message.startswith("no")
    caller.kubectl("delete", "serviceaccount", "robot")


def test_api_resources_and_explain(caller: Caller) -> None:
    message = caller.kubectl("api-resources", "-o", "name")
    assert {"pods", "deployments.apps", "networks.arktos.futurewei.com"} <= set(message.split())
    assert "containers" in caller.kubectl("explain", "pod.spec")
    assert "RollingUpdate" in caller.kubectl("explain", "deployment.spec.strategy.type")


@pytest.mark.skipif(bool(needs.kubectl(27)), reason=needs.kubectl(27))
def test_unknown_fields_are_reported(caller: Caller) -> None:
    wrong = DEPLOYMENT.replace("replicas: 2", "replicas: 2\n  repliacs: 3")
    message = caller.kubectl("apply", "-f", "-", stdin=wrong, check=False)
    assert 'unknown field "spec.repliacs"' in message
    message = caller.kubectl("apply", "--validate=warn", "-f", "-", stdin=wrong, check=False)
    assert 'Warning: unknown field "spec.repliacs"' in message and "created" in message
