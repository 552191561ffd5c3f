"""The CNI plugin as a runtime calls it: a process, an environment, a configuration, on a real node."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.agent.podkey import PodKey
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.testing.nodecluster import NodeCluster, node_cluster
from alcove.testing.nodenetworks import LabNodeNetwork
from alcove.testing.nodes import lacking
from alcove.testing.probes import IMPATIENT, TIMEOUT, ping, tcp_server, tcp_talks

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with node_cluster(tmp_path_factory.mktemp("cni"), 1, "203.0.113.5/24") as made:
        made.make_tenant("red", {"type": "vpc", "ip": "10.7.0.0", "prefix": 16})
        yield made


class Runtime:
    """A container runtime's way to call a CNI plugin: environment, configuration, a namespace of its own making."""

    def __init__(self, node: LabNodeNetwork, container: str) -> None:
        self.node = node
        self.container = container
        self.netns = f"{node.node.name}-{container}"
        self.namespace = namespaces.make(self.netns)

    def call(
        self, command: str, key: PodKey | None = None, config: Object | None = None
    ) -> tuple[int, Object]:
        """Exit code and what was printed."""
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.container,
            "CNI_NETNS": str(namespaces.path_of(self.netns)),
            "CNI_IFNAME": "eth0",
            "CNI_PATH": "/opt/cni/bin",
        }
        if key is not None:
            pairs = {"TENANT": key.tenant, "NAMESPACE": key.namespace, "NAME": key.name, "UID": key.uid}
            environment["CNI_ARGS"] = ";".join(
                ["IgnoreUnknown=1", *(f"K8S_POD_{name}={value}" for name, value in pairs.items())]
            )
        given = {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni", **(config or {})}
        done = subprocess.run(
            [sys.executable, "-m", "alcove.agent.cni"],
            input=json.dumps({**given, "socket": str(self.node.cni_socket)}),
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT * 10,
            check=False,
        )
        return done.returncode, json.loads(done.stdout or "{}")


def test_a_runtime_attaches_by_cni(cluster: NodeCluster) -> None:
    peer = cluster.place_pod("red", 0)
    key, _ = cluster.make_pod("red", cluster.nodes[0])
    runtime = Runtime(cluster.nodes[0], "0123abc")
    assert runtime.call("STATUS") == (0, {})
    assert runtime.call("ADD", peer.key)[1]["code"] == 102, "the agent's own pod"
    assert key not in held(cluster)
    code, result = runtime.call("ADD", key)
    assert code == 0, result
    assert result["interfaces"][0]["name"] == "eth0"
    assert result["ips"][0]["gateway"] == "10.7.0.1"
    assert result["dns"]["search"][0] == "default.svc.cluster.local"
    address = result["ips"][0]["address"].partition("/")[0]
    with tcp_server(runtime.namespace, address, 8080) as server:
        assert tcp_talks(peer.namespace, address, 8080, server)
    assert runtime.call("CHECK", key, {"prevResult": result}) == (0, {})
    assert key in held(cluster)
    assert key not in cluster.nodes[0].network.attached(), "it is the runtime's to detach"
    assert runtime.call("ADD", key)[1]["code"] == 102, "it has one already"
    valid = [{"containerID": "0123abc", "ifname": "eth0"}]
    assert runtime.call("GC", None, {"cni.dev/valid-attachments": valid}) == (0, {})
    assert runtime.call("CHECK", key, {"prevResult": result}) == (0, {})
    wrong = {**result, "ips": [{"address": "10.7.9.9/16"}]}
    assert runtime.call("CHECK", key, {"prevResult": wrong})[1]["code"] == 101
    for _ in range(2):
        assert runtime.call("DEL", key, {"prevResult": result}) == (0, {})
    assert not ping(peer.namespace, address, timeout=IMPATIENT)
    assert runtime.call("CHECK", key, {"prevResult": result})[1]["code"] == 3
    assert peer.key in cluster.nodes[0].network.attached(), "the agent's own stay"
    code, again = runtime.call("ADD", key)
    assert (code, again["ips"]) == (0, result["ips"]), "it has its address as long as it is there"
    assert runtime.call("GC", None, {"cni.dev/valid-attachments": []}) == (0, {})
    assert key not in held(cluster)
    os.close(runtime.namespace)
    namespaces.remove(runtime.netns)


def held(cluster: NodeCluster) -> list[PodKey]:
    return [record.key for record in cluster.nodes[0].network.records()]


class Podman:
    """Podman with nothing of the machine's own: its storage, networks and plugins are the test's."""

    def __init__(self, directory: Path, node: LabNodeNetwork) -> None:
        for name in ("plugins", "networks"):
            (directory / name).mkdir()
        plugin = directory / "plugins" / "alcove-cni"
        plugin.write_text(f"#!/bin/sh\nexec {sys.executable} -m alcove.agent.cni\n")
        plugin.chmod(0o755)
        own = {"type": "alcove-cni", "socket": str(node.cni_socket), "tenant": "red", "namespace": "default"}
        listed = {"cniVersion": "0.4.0", "name": "alcove", "plugins": [own]}
        (directory / "networks" / "alcove.conflist").write_text(json.dumps(listed))
        config = directory / "containers.conf"
        config.write_text(
            f'[network]\nnetwork_backend = "cni"\ncni_plugin_dirs = ["{directory}/plugins"]\n'
            f'network_config_dir = "{directory}/networks"\n'
            '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        places = (("--root", "root"), ("--runroot", "run"), ("--tmpdir", "tmp"))
        self._base = ["podman", *(part for flag, name in places for part in (flag, str(directory / name)))]
        self._base += ["--storage-driver", "vfs", "--runtime", shutil.which("runc") or "runc"]
        self._environment = {**os.environ, "CONTAINERS_CONF": str(config)}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._base, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def make_rootfs(directory: Path) -> Path:
    busybox = shutil.which("busybox")
    assert busybox
    for name in ("bin", "etc", "proc", "dev", "sys", "tmp"):
        (directory / name).mkdir(parents=True)
    shutil.copy(busybox, directory / "bin" / "busybox")
    for name in ("sleep", "ping", "nslookup"):
        (directory / "bin" / name).symlink_to("busybox")
    return directory


@pytest.mark.skipif(
    not all(map(shutil.which, ("podman", "runc", "busybox"))), reason="needs podman, runc and busybox"
)
def test_podman_calls_it(cluster: NodeCluster) -> None:
    # Podman's own paths may not be long.
    with tempfile.TemporaryDirectory() as directory:
        use_podman(cluster, Path(directory))


def use_podman(cluster: NodeCluster, directory: Path) -> None:
    peer = cluster.place_pod("red", 0)
    key, _ = cluster.make_pod("red", cluster.nodes[0])
    podman = Podman(directory, cluster.nodes[0])
    limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
    root = ("--rootfs", f"{make_rootfs(directory / 'rootfs')}:O")
    podman("run", "-d", "--name", key.name, "--network", "alcove", *limits, *root, "/bin/sleep", "600")
    try:
        assert key in held(cluster)
        podman("exec", key.name, "ping", "-c1", "-W30", peer.address)
        address = cluster.service_address("red", "default", "kubernetes-own")
        assert address in podman("exec", key.name, "nslookup", "kubernetes.default.svc.cluster.local")
    finally:
        podman("rm", "-f", "-t", "0", key.name)
    assert key not in held(cluster)
