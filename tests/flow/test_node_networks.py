"""Networks on nodes: a real API server, the controllers, two nodes' data planes and what drives them.

Two tenants have the same range and the same addresses. What is inside a network talks, nothing across does.
"""

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dnslib import RCODE, DNSRecord

from alcove.agent.network import Attachment
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.kubeconfig import load
from alcove.dataplane import namespaces
from alcove.testing.controlplane import LocalControllers
from alcove.testing.nodenetworks import NodeNetwork, NodeNetworks
from alcove.testing.nodes import Lab, lacking
from alcove.testing.probes import IMPATIENT, TIMEOUT, connect, opened, ping, tcp_server, tcp_talks
from alcove.testing.server import LocalServer, wait_until

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]

NUMBERS = count()
TENANTS = ("red", "blue")
WORLD = "203.0.113.5"
RANGE = {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}


class Pod:
    """A pod that is attached: a namespace and its address."""

    def __init__(self, node: NodeNetwork, key: PodKey, obj: Object, attachment: Attachment) -> None:
        self.node = node
        self.key = key
        self.obj = obj
        self.attachment = attachment
        name = Path(attachment.namespace_path).name
        found = namespaces.open_named(name)
        assert found is not None
        self.namespace = found

    @property
    def address(self) -> str:
        return self.attachment.addresses[0]


class Cluster:
    def __init__(self, server: LocalServer, nodes: NodeNetworks, world: int) -> None:
        self.server = server
        self.nodes = nodes
        self.world = world

    def must(self, answer: Any, *statuses: int) -> Object:
        assert answer.status in (statuses or (200, 201)), answer.body
        return answer.json  # type: ignore[no-any-return]

    def make_tenant(self, name: str, network: Object | None = None) -> None:
        self.must(self.server.system.post("/api/v1/tenants", {"metadata": {"name": name}}))
        account = f"/api/v1/tenants/{name}/namespaces/default/serviceaccounts/default"
        wait_until(lambda: self.server.system.get(account).status == 200)
        if network is not None:
            self.make_network(name, "own", network)

    def make_network(self, tenant: str, name: str, spec: Object) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks"
        self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        self.ready(tenant, name)

    def ready(self, tenant: str, name: str) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/{name}"
        wait_until(lambda: self.server.system.get(path).json.get("status", {}).get("phase") == "Ready")

    def place_pod(self, tenant: str, node: int, network: str = "own") -> Pod:
        """Makes a pod on the node and attaches it."""
        where = self.nodes[node]
        key, obj = self.make_pod(tenant, where, network)
        pod = Pod(where, key, obj, where.call(where.network.attach(key, obj)))
        self.set_ready(pod)
        return pod

    def make_pod(self, tenant: str, where: NodeNetwork, network: str = "own") -> tuple[PodKey, Object]:
        name = f"pod-{next(NUMBERS)}"
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        spec = {"network": network, "nodeName": where.name, "containers": [{"name": "c", "image": "none"}]}
        obj = self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        return PodKey(HOME, TenantId(tenant), "default", name, obj["metadata"]["uid"]), obj

    def set_ready(self, pod: Pod, *, ready: bool = True) -> None:
        """As the agent would, once its containers run."""
        condition = {"type": "Ready", "status": str(ready)}
        told = {"podIP": pod.address, "podIPs": [{"ip": pod.address}]}
        path = f"/api/v1/tenants/{pod.key.tenant}/namespaces/default/pods/{pod.key.name}/status"
        status = {"phase": "Running", "conditions": [condition], **told}
        self.must(self.server.system.patch(path, {"status": status}))

    def remove_pod(self, pod: Pod) -> None:
        pod.node.call(pod.node.network.detach(pod.key))
        path = f"/api/v1/tenants/{pod.key.tenant}/namespaces/default/pods/{pod.key.name}"
        self.must(self.server.system.delete(f"{path}?gracePeriodSeconds=0"))

    def make_service(self, tenant: str, name: str, **spec: Any) -> str:
        """Its address, once it has one."""
        path = f"/api/v1/tenants/{tenant}/namespaces/default/services"
        spec = {"network": "own", "ports": [{"port": 80, "targetPort": 8080}], **spec}
        self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        found = wait_until(lambda: self.server.system.get(f"{path}/{name}").json["spec"].get("clusterIP"))
        return str(found)

    def service_address(self, tenant: str, namespace: str, name: str) -> str:
        path = f"/api/v1/tenants/{tenant}/namespaces/{namespace}/services/{name}"
        return str(self.must(self.server.system.get(path))["spec"]["clusterIP"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("node-networks")
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(directory / "server"))
        stack.enter_context(LocalControllers(server, directory))
        lab = stack.enter_context(Lab(2, started=False))
        nodes = stack.enter_context(NodeNetworks(server, directory, lab))
        made = Cluster(server, nodes, lab.add_host("world", f"{WORLD}/24"))
        for tenant in TENANTS:
            made.make_tenant(tenant, RANGE)
        yield made


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> dict[str, list[Pod]]:
    """Of each tenant two on the first node and one on the second."""
    return {tenant: [cluster.place_pod(tenant, node) for node in (0, 0, 1)] for tenant in TENANTS}


def test_inside_everything_talks_and_across_nothing(pods: dict[str, list[Pod]]) -> None:
    red, blue = pods["red"], pods["blue"]
    assert [pod.address for pod in red] == [pod.address for pod in blue], "the same addresses in both"
    for own in (red, blue):
        for source in own:
            for target in own:
                if source is not target:
                    with tcp_server(target.namespace, target.address, 8080) as server:
                        assert tcp_talks(source.namespace, target.address, 8080, server)
                    assert ping(source.namespace, target.address)
    with tcp_server(blue[0].namespace, blue[0].address, 9090) as server:
        assert not tcp_talks(red[1].namespace, blue[0].address, 9090, server, timeout=IMPATIENT)


def reaches(pod: Pod, address: str, port: int) -> bool:
    """Whether somebody listens there; the kernel answers for whoever does."""
    client = connect(pod.namespace, address, port, timeout=0.2)
    if client is not None:
        client.close()
    return client is not None


def asked(pod: Pod, name: str, kind: str = "A", server: str = "") -> list[str]:
    """What the pod's DNS says: the answers, or the code."""
    question = DNSRecord.question(name, kind)
    with opened(pod.namespace, socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        sock.connect((server or pod.attachment.nameservers[0], 53))
        sock.send(question.pack())
        answer = DNSRecord.parse(sock.recv(4096))
    assert answer.header.id == question.header.id
    return [str(each.rdata) for each in answer.rr] or [RCODE[answer.header.rcode]]


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_service_is_its_own_in_each_network(
    cluster: Cluster, pods: dict[str, list[Pod]], tenant: str
) -> None:
    near, _, far = pods[tenant]
    label = {"metadata": {"labels": {"app": f"web-{tenant}"}}}
    path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, label))
    address = cluster.make_service(tenant, "web", selector={"app": f"web-{tenant}"})
    with tcp_server(far.namespace, far.address, 8080):
        wait_until(lambda: reaches(near, address, 80))
        cluster.set_ready(far, ready=False)
        wait_until(lambda: not reaches(near, address, 80))
        cluster.set_ready(far)
        wait_until(lambda: reaches(near, address, 80))


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_network_knows_its_own_names(cluster: Cluster, pods: dict[str, list[Pod]], tenant: str) -> None:
    pod = pods[tenant][0]
    assert pod.attachment.nameservers == (cluster.service_address(tenant, "kube-system", "kube-dns-own"),)
    address = cluster.make_service(tenant, f"only-{tenant}")
    wait_until(lambda: asked(pod, f"only-{tenant}.default.svc.cluster.local") == [address], 1.0)
    other = next(each for each in TENANTS if each != tenant)
    assert asked(pods[other][0], f"only-{tenant}.default.svc.cluster.local") == ["NXDOMAIN"]
    api = cluster.service_address(tenant, "default", "kubernetes-own")
    assert asked(pod, "kubernetes.default.svc.cluster.local") == [api]
    dashed = pod.address.replace(".", "-")
    assert asked(pods[tenant][2], f"{dashed}.default.pod.cluster.local") == [pod.address]
    assert asked(pod, "example.com") == ["NXDOMAIN"], "there is no way out"


def test_the_tenants_api_is_in_its_network(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    for tenant in TENANTS:
        pod = pods[tenant][2]
        path = f"/api/v1/tenants/{tenant}/namespaces/default/serviceaccounts/default/token"
        token = cluster.must(cluster.server.system.post(path, {"spec": {}}))["status"]["token"]
        client = connect(pod.namespace, cluster.service_address(tenant, "default", "kubernetes-own"), 443)
        assert client is not None
        ca = load(cluster.server.admin_kubeconfig).ca_pem.decode()
        with ssl.create_default_context(cadata=ca).wrap_socket(
            client, server_hostname="kubernetes.default.svc"
        ) as secured:
            request = "GET /apis/authentication.k8s.io/v1 HTTP/1.1\r\nHost: kubernetes.default.svc\r\n"
            secured.sendall(f"{request}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: secured.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        assert b"selfsubjectreviews" in answer


def test_probes_come_from_the_gateway(pods: dict[str, list[Pod]]) -> None:
    for pod in (pods["red"][0], pods["blue"][2]):
        with tcp_server(pod.namespace, pod.address, 7070) as server:
            with pod.node.call(pod.node.network.dial(pod.key, 7070)):
                accepted, (source, _) = server.accept()
                accepted.close()
            assert source == "10.7.0.1"
        with pytest.raises(ConnectionRefusedError):
            pod.node.call(pod.node.network.dial(pod.key, 7071))


def test_policies_hold_while_they_are_there(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    """The peer that is let in is on another node: of it this one knows labels and address only."""
    near, beside, far = pods["red"]
    for pod, app in ((near, "guarded"), (far, "friend")):
        path = f"/api/v1/tenants/red/namespaces/default/pods/{pod.key.name}"
        cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"app": app}}}))
    friends = {"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}
    spec = {"podSelector": {"matchLabels": {"app": "guarded"}}, "ingress": [friends], "egress": []}
    spec["policyTypes"] = ["Ingress", "Egress"]
    path = "/apis/networking.k8s.io/v1/tenants/red/namespaces/default/networkpolicies"
    with tcp_server(near.namespace, near.address, 8080):
        assert reaches(beside, near.address, 8080)
        cluster.must(cluster.server.system.post(path, {"metadata": {"name": "guard"}, "spec": spec}))
        wait_until(lambda: not reaches(beside, near.address, 8080))
        wait_until(lambda: reaches(far, near.address, 8080))
        with pytest.raises(TimeoutError):
            asked(near, "kubernetes.default.svc.cluster.local")
        near.node.call(near.node.network.dial(near.key, 8080)).close()
        dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
        more = {"spec": {"egress": [{"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]}]}}
        cluster.must(cluster.server.system.patch(f"{path}/guard", more))
        wait_until(lambda: _answers(near))
        cluster.must(cluster.server.system.delete(f"{path}/guard"))
        wait_until(lambda: reaches(beside, near.address, 8080))


def _answers(pod: Pod) -> bool:
    try:
        return asked(pod, "kubernetes.default.svc.cluster.local") != ["NXDOMAIN"]
    except TimeoutError:
        return False


def test_the_world_comes_in_by_node_ports(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    """By any node that has pods of the network, to whichever pod; with `Local`, clients keep their address."""
    far = pods["red"][2]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"door": "red"}}}))
    cluster.make_service("red", "outside", type="NodePort", selector={"door": "red"})
    service = "/api/v1/tenants/red/namespaces/default/services/outside"
    port = wait_until(lambda: cluster.server.system.get(service).json["spec"]["ports"][0].get("nodePort"))
    with tcp_server(far.namespace, far.address, 8080) as server:
        for node in cluster.nodes.all:
            assert came_as(cluster, server, str(node.node.address), port).startswith("10.7.0.")
        cluster.must(cluster.server.system.patch(service, {"spec": {"externalTrafficPolicy": "Local"}}))
        here, elsewhere = str(far.node.node.address), str(pods["red"][0].node.node.address)
        wait_until(lambda: came_as(cluster, server, here, port) == WORLD)
        wait_until(lambda: connect(cluster.world, elsewhere, port, timeout=IMPATIENT) is None)
        cluster.must(cluster.server.system.delete(service))
        wait_until(lambda: connect(cluster.world, here, port, timeout=IMPATIENT) is None)
    claim = f"/apis/mizar.com/v1/endpoints/port-{port}-tcp"
    wait_until(lambda: cluster.server.system.get(claim).status == 404)
    gateways = "/apis/mizar.com/v1/endpoints?fieldSelector=spec.type%3Dgateway"
    wait_until(lambda: not cluster.server.system.get(gateways).json["items"])


def came_as(cluster: Cluster, server: socket.socket, address: str, port: int) -> str:
    """Whom a pod sees when the world comes in."""

    def attempt() -> str:
        client = connect(cluster.world, address, port, timeout=0.2)
        if client is None:
            return ""
        client.close()
        accepted, (source, _) = server.accept()
        accepted.close()
        return str(source)

    return str(wait_until(attempt))


def test_a_node_port_is_one_tenants(cluster: Cluster) -> None:
    ports = [{"port": 80, "nodePort": 30777}]
    for tenant in TENANTS:
        cluster.make_service(tenant, "wanted", type="NodePort", ports=ports)
    claim = "/apis/mizar.com/v1/endpoints/port-30777-tcp"
    owner = wait_until(lambda: cluster.server.system.get(claim).json)["spec"]["pod"]
    loser = next(tenant for tenant in TENANTS if tenant not in owner)
    events = f"/api/v1/tenants/{loser}/namespaces/default/events?fieldSelector=reason%3DFailedProvision"
    wait_until(lambda: b"port 30777 is already allocated" in cluster.server.system.get(events).body)
    winner = owner.split("/")[0]
    path = "namespaces/default/services/wanted"
    cluster.must(cluster.server.system.delete(f"/api/v1/tenants/{winner}/{path}"))
    cluster.must(cluster.server.system.delete(f"/api/v1/tenants/{loser}/{path}"))


def test_a_way_out_is_the_networks_to_open(cluster: Cluster) -> None:
    cluster.make_network("red", "open", {"type": "vpc", "ip": "10.8.0.0", "prefix": 24})
    pod = cluster.place_pod("red", 0, "open")
    path = "/apis/arktos.futurewei.com/v1/tenants/red/networks/open"
    with tcp_server(cluster.world, WORLD, 80):
        assert not reaches(pod, WORLD, 80)
        cluster.must(cluster.server.system.patch(path, {"spec": {"egress": {"enabled": True}}}))
        wait_until(lambda: reaches(pod, WORLD, 80))
        with tcp_server(pod.node.node.namespace, str(pod.node.node.address), 10250):
            assert not reaches(pod, str(pod.node.node.address), 10250), "nodes are not the world"
        cluster.must(cluster.server.system.patch(path, {"spec": {"egress": {"enabled": False}}}))
        wait_until(lambda: not reaches(pod, WORLD, 80))
    cluster.remove_pod(pod)


def test_flat_networks_share_a_range_and_nothing_else(cluster: Cluster) -> None:
    """`default` is flat: all tenants' are of one range, with a number each."""
    placed = {}
    for tenant in TENANTS:
        cluster.ready(tenant, "default")
        placed[tenant] = [cluster.place_pod(tenant, node, "default") for node in (0, 1)]
    for tenant, (near, far) in placed.items():
        with tcp_server(far.namespace, far.address, 8080) as server:
            assert tcp_talks(near.namespace, far.address, 8080, server)
            for other in placed[next(each for each in TENANTS if each != tenant)]:
                assert not reaches(other, far.address, 8080)
        address = cluster.service_address(tenant, "default", "kubernetes-default")
        assert asked(near, "kubernetes.default.svc.cluster.local") == [address]
    for pod in (each for both in placed.values() for each in both):
        cluster.remove_pod(pod)


def test_an_agent_that_starts_again_drops_nothing(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    near, _, far = pods["blue"]
    address = cluster.service_address("blue", "default", "web")
    with tcp_server(far.namespace, far.address, 8080) as server:
        client = connect(near.namespace, address, 80)
        assert client is not None
        accepted, _ = server.accept()
        with client, accepted, Stream(client, accepted) as stream:
            for _ in range(2):
                near.node.stop()
                stream.must_flow()
                near.node.start()
                again = near.node.call(near.node.network.attach(near.key, near.obj))
                assert again == near.attachment
                stream.must_flow()
        assert near.key in near.node.network.attached()
        assert asked(near, "web.default.svc.cluster.local") == [address]
        assert tcp_talks(near.namespace, address, 80, server)


class Stream:
    """Bytes that go round a connection all the time; a gap is a fault."""

    GAP_SECONDS_MAX = 0.15

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._client, self._server = client, server
        self._ended = threading.Event()
        self._rounds = 0
        self._gap = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(TIMEOUT)
        assert self._gap < self.GAP_SECONDS_MAX, f"nothing for {self._gap:.3f} s"

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.monotonic()
            self._client.sendall(b"x")
            self._server.recv(1)
            self._server.sendall(b"y")
            self._client.recv(1)
            self._gap = max(self._gap, time.monotonic() - begun)
            self._rounds += 1
            time.sleep(0.001)

    def must_flow(self) -> None:
        before = self._rounds
        wait_until(lambda: self._rounds > before + 10)


def test_a_pod_that_goes_leaves_nothing(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    pod = cluster.place_pod("blue", 0)
    path = Path(pod.attachment.namespace_path)
    assert path.exists()
    cluster.remove_pod(pod)
    assert not path.exists()
    assert pod.key not in pod.node.network.attached()
    wait_until(lambda: not ping(pods["blue"][2].namespace, pod.address, timeout=IMPATIENT))
    pod.node.call(pod.node.network.detach(pod.key))


class Runtime:
    """A container runtime's way to call a CNI plugin: environment, configuration, a namespace of its own making."""

    def __init__(self, node: NodeNetwork, container: str) -> None:
        self.node = node
        self.container = container
        self.netns = f"{node.node.name}-{container}"
        self.namespace = namespaces.make(self.netns)

    def call(self, command: str, key: PodKey | None = None, **config: Any) -> tuple[int, Object]:
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
        given = {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni", **config}
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


def test_a_runtime_attaches_by_cni(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    key, _ = cluster.make_pod("red", cluster.nodes[0])
    runtime = Runtime(cluster.nodes[0], "0123abc")
    assert runtime.call("STATUS") == (0, {})
    code, result = runtime.call("ADD", key)
    assert code == 0, result
    assert result["interfaces"][0]["name"] == "eth0"
    assert result["ips"][0]["gateway"] == "10.7.0.1"
    assert result["dns"]["search"][0] == "default.svc.cluster.local"
    address = result["ips"][0]["address"].partition("/")[0]
    with tcp_server(runtime.namespace, address, 8080) as server:
        assert tcp_talks(pods["red"][2].namespace, address, 8080, server)
    assert runtime.call("CHECK", key, prevResult=result) == (0, {})
    assert runtime.call("ADD", key)[1]["code"] == 102, "it has one already"
    valid = [{"containerID": "0123abc", "ifname": "eth0"}]
    assert runtime.call("GC", **{"cni.dev/valid-attachments": valid}) == (0, {})
    assert runtime.call("CHECK", key, prevResult=result) == (0, {})
    wrong = {**result, "ips": [{"address": "10.7.9.9/16"}]}
    assert runtime.call("CHECK", key, prevResult=wrong)[1]["code"] == 101
    for _ in range(2):
        assert runtime.call("DEL", key, prevResult=result) == (0, {})
    assert not ping(pods["red"][0].namespace, address, timeout=IMPATIENT)
    assert runtime.call("CHECK", key, prevResult=result)[1]["code"] == 3
    assert pods["red"][0].key in cluster.nodes[0].network.attached(), "the agent's own stay"
    code, again = runtime.call("ADD", key)
    assert (code, again["ips"]) == (0, result["ips"]), "it has its address as long as it is there"
    assert runtime.call("GC", **{"cni.dev/valid-attachments": []}) == (0, {})
    assert key not in cluster.nodes[0].network.attached()
    os.close(runtime.namespace)
    namespaces.remove(runtime.netns)
