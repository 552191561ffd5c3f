"""Tools of others, where they are installed: kubectls of other releases (OTHER_KUBECTL has their paths, with colons between
them), and Ansible's kubernetes.core. The set-up installs none of them."""

import os
import shutil
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing import cluster
from alcove.testing.server import Caller, wait_until

OTHERS = [path for path in os.environ.get("OTHER_KUBECTL", "").split(os.pathsep) if path]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(cluster.lacking()), reason=cluster.lacking()),
]
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: alcove/busybox
        command: [sh, -c, "echo first; mkdir /tmp/w; echo hello >/tmp/w/index.html; httpd -f -p 8080 -h /tmp/w"]
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.RealCluster]:
    with cluster.RealCluster(tmp_path_factory.mktemp("tools")) as made:
        yield made


class OtherKubectl:
    def __init__(self, path: str, caller: Caller) -> None:
        self._words = (path, "--kubeconfig", str(caller.kubeconfig))
        self._cache = ("--cache-dir", str(caller.kubeconfig.with_suffix(".other-cache")))

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*self._words, *self._cache, *words], input=stdin, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([*self._words, *self._cache, *words], stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not OTHERS, reason="needs OTHER_KUBECTL, the paths of other kubectls")
@pytest.mark.parametrize("number", range(max(1, len(OTHERS))))
def test_another_kubectl(running: cluster.RealCluster, tmp_path: Path, number: int) -> None:
    kubectl = OtherKubectl(OTHERS[number], running.make_tenant(f"shop-{number}"))
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", stdin=MANIFEST % 1)
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=MANIFEST % 2
    )
    kubectl("scale", "deployment/web", "--replicas=2")
    kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    table = kubectl("get", "pods", "-o", "wide")
    assert table.startswith("NAME") and table.count("Running") == 2
    assert "Replicas:" in kubectl("describe", "deployment", "web")
    assert "number of desired pods" in kubectl("explain", "deployment.spec.replicas").lower()
    assert "deployments" in kubectl("api-resources", "--api-group=apps")
    name = kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
    assert kubectl("logs", name) == "first\n"
    assert kubectl("exec", name, "--", "cat", "/tmp/w/index.html") == "hello\n"
    assert kubectl("exec", "-i", name, "--", "tr", "a-z", "A-Z", stdin="quiet\n") == "QUIET\n"
    (tmp_path / "sent").write_bytes(os.urandom(100_000))
    kubectl("cp", str(tmp_path / "sent"), f"{name}:/tmp/sent")
    kubectl("cp", f"{name}:/tmp/sent", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()
    forward = kubectl.start("port-forward", f"pod/{name}", ":8080")
    try:
        assert forward.stdout is not None
        port = int(forward.stdout.readline().split(":")[1].split()[0])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as opened:
            opened.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert b"".join(iter(lambda: opened.recv(4096), b"")).endswith(b"hello\n")
    finally:
        forward.terminate()
        forward.communicate()
    kubectl("delete", "deployment", "web", "--timeout=60s")


PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    web: "{{ lookup('file', manifest) | from_yaml }}"
  tasks:
    - kubernetes.core.k8s: {state: present, namespace: default, definition: "{{ web }}", wait: true, wait_timeout: 60}
    - kubernetes.core.k8s: {state: present, namespace: default, definition: "{{ web }}"}
      register: again
    - assert: {that: not again.changed}
    - kubernetes.core.k8s:
        state: present
        namespace: default
        apply: true
        definition: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "1"}}
    - kubernetes.core.k8s:
        state: present
        namespace: default
        server_side_apply: {field_manager: ansible, force_conflicts: true}
        apply: true
        definition: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {a: "2"}}
    - kubernetes.core.k8s_json_patch:
        {api_version: v1, kind: ConfigMap, namespace: default, name: settings, patch: [{op: add, path: /data/b, value: "3"}]}
    - kubernetes.core.k8s_scale: {kind: Deployment, api_version: apps/v1, namespace: default, name: web, replicas: 2, wait_timeout: 60}
    - kubernetes.core.k8s_info: {kind: Pod, namespace: default, label_selectors: [app=web], wait: true, wait_timeout: 60}
      register: pods
    - assert: {that: pods.resources | length == 2}
    - kubernetes.core.k8s_exec: {namespace: default, pod: "{{ pods.resources[0].metadata.name }}", command: cat /tmp/w/index.html}
      register: result
    - assert: {that: "result.stdout == 'hello\\n' and result.rc == 0"}
    - kubernetes.core.k8s_log: {namespace: default, name: "{{ pods.resources[0].metadata.name }}"}
      register: log
    - assert: {that: "log.log_lines[0] == 'first'"}
    - kubernetes.core.k8s_cp:
        {namespace: default, pod: "{{ pods.resources[0].metadata.name }}", remote_path: /tmp/sent, local_path: "{{ manifest }}"}
    - kubernetes.core.k8s_rollback: {api_version: apps/v1, kind: Deployment, namespace: default, name: web}
    - kubernetes.core.k8s_cluster_info: {}
    - kubernetes.core.k8s: {state: absent, namespace: default, definition: "{{ web }}", wait: true, wait_timeout: 60}
"""


def _lacks_ansible() -> str:
    if shutil.which("ansible-doc") is None:
        return "needs ansible"
    found = subprocess.run(["ansible-doc", "kubernetes.core.k8s"], capture_output=True)
    return "" if found.returncode == 0 else "needs Ansible's collection kubernetes.core"


@pytest.mark.skipif(bool(_lacks_ansible()), reason=_lacks_ansible())
def test_ansible(running: cluster.RealCluster, tmp_path: Path) -> None:
    bank = running.make_tenant("bank")
    (tmp_path / "web.yaml").write_text(MANIFEST % 1)
    (tmp_path / "play.yaml").write_text(textwrap.dedent(PLAYBOOK))
    environment = {**os.environ, "K8S_AUTH_KUBECONFIG": str(bank.kubeconfig), "ANSIBLE_HOME": str(tmp_path)}
    command = ["ansible-playbook", "-i", "localhost,", "-e", f"manifest={tmp_path / 'web.yaml'}"]
    done = subprocess.run(
        [*command, str(tmp_path / "play.yaml")], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    wait_until(lambda: not bank.get(cluster.PODS).json["items"], 30)
    assert bank.get("/api/v1/namespaces/default/configmaps/settings").json["data"] == {"a": "2", "b": "3"}
