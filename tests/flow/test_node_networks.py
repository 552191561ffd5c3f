"""Networks on nodes: a real API server, the controllers, two nodes' data planes and what drives them.

Two tenants have the same range and the same addresses. What is inside a network talks, nothing across does.
"""

import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
from dnslib import RCODE, DNSRecord

from alcove.api.objects import Object
from alcove.client.kubeconfig import load
from alcove.dataplane import namespaces
from alcove.dataplane.maps import PathTaken
from alcove.dns.upstream import Resolver
from alcove.testing.nodecluster import Cluster, Pod, node_cluster
from alcove.testing.nodes import lacking
from alcove.testing.probes import IMPATIENT, TIMEOUT, connect, family_of, opened, ping, tcp_server, tcp_talks
from alcove.testing.resolver import one_address
from alcove.testing.server import wait_until

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]

TENANTS = ("red", "blue")
WORLD = "203.0.113.5"
RANGE = {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}


@contextmanager
def resolver() -> Iterator[Resolver]:
    """The world's DNS: one address for every name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            with suppress(OSError):
                while True:
                    question, peer = sock.recvfrom(4096)
                    for answer in one_address(DNSRecord.parse(question)):
                        sock.sendto(answer, peer)

        threading.Thread(target=serve, daemon=True).start()
        yield Resolver(*sock.getsockname())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with (
        resolver() as told,
        node_cluster(tmp_path_factory.mktemp("node-networks"), 3, f"{WORLD}/24", (told,)) as made,
    ):
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
    server = server or pod.attachment.nameservers[0]
    with opened(pod.namespace, family_of(server), socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        sock.connect((server, 53))
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
        for node in cluster.nodes.all[:2]:
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


def test_a_load_balancer_has_an_address_of_ring0s(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    """The world routes the range to the nodes; which of its addresses is whose, ring0 knows."""
    vpc = {"metadata": {"name": "outside"}, "spec": {"ip": "198.51.100.0", "prefix": 24}}
    cluster.must(cluster.server.system.post("/apis/mizar.com/v1/vpcs", vpc))
    pool = {"ip": "198.51.100.0", "prefix": 29, "vpc": "outside"}
    metadata = {"name": "outside", "labels": {"alcove.io/outside": "true"}}
    near, _, far = pods["red"]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"balanced": "red"}}}))
    cluster.make_service("red", "balanced", type="LoadBalancer", selector={"balanced": "red"})
    service = "/api/v1/tenants/red/namespaces/default/services/balanced"
    cluster.must(
        cluster.server.system.post("/apis/mizar.com/v1/subnets", {"metadata": metadata, "spec": pool})
    )

    def ingress() -> list[Object]:
        found = cluster.server.system.get(service).json["status"]["loadBalancer"].get("ingress", [])
        return list(found)

    [told] = wait_until(ingress)
    assert told == {"ip": "198.51.100.2", "ipMode": "VIP"}
    cluster.lab.route(cluster.world, "198.51.100.0/24", near.node.node.address)
    with tcp_server(far.namespace, far.address, 8080) as server:
        assert came_as(cluster, server, "198.51.100.2", 80).startswith("10.7.0.")
    cluster.must(cluster.server.system.patch(service, {"spec": {"type": "ClusterIP"}}))
    wait_until(lambda: not ingress())
    claim = "/apis/mizar.com/v1/endpoints?fieldSelector=spec.net%3Doutside"
    wait_until(lambda: not cluster.server.system.get(claim).json["items"])
    cluster.must(cluster.server.system.delete(service))
    cluster.must(cluster.server.system.delete("/apis/mizar.com/v1/subnets/outside"))
    cluster.must(cluster.server.system.delete("/apis/mizar.com/v1/vpcs/outside"))


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


def test_what_a_tenant_writes_is_not_believed(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    """Status, annotations and addresses are the tenant's own to write; none of it moves the data plane."""
    tenant, near, node = cluster.server.as_tenant("red"), pods["red"][0], pods["red"][0].node.node
    base = "/api/v1/namespaces/default"
    before = node.plane.world
    forged = {
        "type": "LoadBalancer",
        "network": "own",
        "clusterIP": "10.96.200.200",
        "externalIPs": [str(node.address)],
        "ports": [{"port": 10250, "nodePort": 30999}],
    }
    ports = {"ports": [{"port": 10250}]}
    tenant.post(f"{base}/services", {"metadata": {"name": "forged"}, "spec": {**forged, **ports}})
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": str(node.address)}]}}}
    tenant.patch(f"{base}/services/forged/status", ingress)
    lies = {"mizar.com/vpc": "blue-own", "mizar.com/subnet": "blue-own-subnet"}
    tenant.patch(f"{base}/pods/{near.key.name}", {"metadata": {"annotations": lies}})
    tenant.patch(f"{base}/pods/{near.key.name}/status", {"status": {"podIP": "10.7.0.250", "hostIP": WORLD}})
    real = cluster.make_service("red", "after-forgery")
    wait_until(lambda: any(str(each.address) == real for each in node.plane.world.services))
    world = node.plane.world
    assert [door for door in world.doors if door.port == 10250] == []
    assert world.ports == before.ports
    assert str(WORLD) not in {str(each.address) for each in world.endpoints}
    tenant.delete(f"{base}/services/forged")


def test_a_way_out_is_the_networks_to_open(cluster: Cluster) -> None:
    cluster.make_network("red", "open", {"type": "vpc", "ip": "10.8.0.0", "prefix": 24})
    pod = cluster.place_pod("red", 0, "open")
    path = "/apis/arktos.futurewei.com/v1/tenants/red/networks/open"
    with tcp_server(cluster.world, WORLD, 80):
        assert not reaches(pod, WORLD, 80)
        assert asked(pod, "example.com") == ["NXDOMAIN"]
        cluster.must(cluster.server.system.patch(path, {"spec": {"egress": {"enabled": True}}}))
        wait_until(lambda: reaches(pod, WORLD, 80))
        assert asked(pod, "example.com") == ["198.51.100.7"]
        with tcp_server(pod.node.node.namespace, str(pod.node.node.address), 10250):
            assert not reaches(pod, str(pod.node.node.address), 10250), "nodes are not the world"
        cluster.must(cluster.server.system.patch(path, {"spec": {"egress": {"enabled": False}}}))
        wait_until(lambda: not reaches(pod, WORLD, 80))
    cluster.remove_pod(pod)


def test_a_network_may_be_ipv6(cluster: Cluster) -> None:
    cluster.make_network("red", "six", {"type": "vpc", "ip": "fd00:7::", "prefix": 64})
    near, far = (cluster.place_pod("red", node, "six") for node in (0, 1))
    with tcp_server(far.namespace, far.address, 8080) as server:
        assert tcp_talks(near.namespace, far.address, 8080, server)
    api = cluster.service_address("red", "default", "kubernetes-six")
    assert asked(near, "kubernetes.default.svc.cluster.local", "AAAA") == [api]
    assert reaches(near, api, 443)
    with tcp_server(near.namespace, near.address, 7070):
        near.node.call(near.node.network.dial(near.key, 7070)).close()
    for pod in (near, far):
        cluster.remove_pod(pod)


def test_a_pod_may_have_several_interfaces(cluster: Cluster) -> None:
    spec = {"type": "vpc", "ip": "10.9.0.0", "prefix": 16, "subnets": ["left", "right"]}
    cluster.make_network("red", "two", spec)
    nics = [{"subnet": "left"}, {"subnet": "right", "ip": "10.9.128.9"}]
    pod = cluster.place_pod("red", 0, "two", nics=nics)
    other = cluster.place_pod("red", 1, "two")
    assert pod.attachment.addresses[1] == "10.9.128.9"
    for address in pod.attachment.addresses:
        with tcp_server(pod.namespace, address, 8080) as server:
            assert tcp_talks(other.namespace, address, 8080, server), address
    for each in (pod, other):
        cluster.remove_pod(each)


def test_who_bounces_and_divides_need_have_no_pod(cluster: Cluster) -> None:
    """The third node has no pods at all; the others find each other by it, at first."""
    third = cluster.nodes[2].node
    for number in range(3):
        name = f"served-{number}"
        subnets = [f"{name}-left", f"{name}-right"]
        spec = {"type": "vpc", "ip": "10.11.0.0", "prefix": 16, "subnets": subnets}
        cluster.make_network("red", name, spec)
        placed = [
            cluster.place_pod("red", node, name, nics=[{"subnet": subnet}])
            for node, subnet in ((0, subnets[0]), (1, subnets[0]), (1, subnets[1]))
        ]
        for source, target in permutations(placed, 2):
            # Whoever is asked about a new address may hear of it a moment later than its own node.
            wait_until(partial(ping, source.namespace, target.address, timeout=0.2))
        for pod in placed:
            cluster.remove_pod(pod)
    assert third.took(PathTaken.RELAYED) > 0
    assert not third.plane.world.ports


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
                stray = f"alcove-{near.node.node.instance}-pstray"
                os.close(namespaces.make(stray))
                near.node.start()
                again = near.node.call(near.node.network.attach(near.key, near.obj))
                assert again == near.attachment
                assert not namespaces.path_of(stray).exists(), "no record speaks of it"
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


def test_networks_go_on_without_an_api_server(cluster: Cluster, pods: dict[str, list[Pod]]) -> None:
    near, _, far = pods["blue"]
    address = cluster.service_address("blue", "default", "web")
    cluster.server.kill()
    try:
        with tcp_server(far.namespace, far.address, 8080):
            assert reaches(near, address, 80)
        assert asked(near, "web.default.svc.cluster.local") == [address]
        assert near.node.call(near.node.network.attach(near.key, near.obj)) == near.attachment
        near.node.stop()
        near.node.start()
        with tcp_server(far.namespace, far.address, 8080):
            assert reaches(near, address, 80), (
                "also when the agent starts meanwhile: what it cannot know, it leaves"
            )
    finally:
        cluster.server.start()
    wait_until(lambda: near.node.network.is_running(), 60.0)
    later = cluster.make_service("blue", "later")
    wait_until(lambda: asked(near, "later.default.svc.cluster.local") == [later], 60.0)
