"""Networks on nodes: what is inside one talks, names are its own, policies hold, and nothing goes across."""

import ssl
from functools import partial
from itertools import permutations

import pytest

from alcove.client.kubeconfig import load
from alcove.dataplane.maps import PathTaken
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.podprobes import TENANTS, WORLD, asked, reaches, resolves
from alcove.testing.probes import IMPATIENT, connect, ping, tcp_server, tcp_talks
from alcove.testing.server import wait_until


def test_inside_everything_talks_and_across_nothing(pods: dict[str, list[AttachedPod]]) -> None:
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


@pytest.mark.parametrize("tenant", TENANTS)
def test_a_service_is_its_own_in_each_network(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], tenant: str
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
def test_a_network_knows_its_own_names(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]], tenant: str
) -> None:
    pod = pods[tenant][0]
    assert pod.attachment.nameservers == (cluster.service_address(tenant, "kube-system", "kube-dns-own"),)
    address = cluster.make_service(tenant, f"only-{tenant}")
    resolves(pod, f"only-{tenant}.default.svc.cluster.local", [address])
    other = next(each for each in TENANTS if each != tenant)
    assert asked(pods[other][0], f"only-{tenant}.default.svc.cluster.local") == ["NXDOMAIN"]
    api = cluster.service_address(tenant, "default", "kubernetes-own")
    resolves(pod, "kubernetes.default.svc.cluster.local", [api])
    dashed = pod.address.replace(".", "-")
    resolves(pods[tenant][2], f"{dashed}.default.pod.cluster.local", [pod.address])
    assert asked(pod, "example.com") == ["NXDOMAIN"], "there is no way out"


def test_the_tenants_api_is_in_its_network(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
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


def test_probes_come_from_the_gateway(pods: dict[str, list[AttachedPod]]) -> None:
    for pod in (pods["red"][0], pods["blue"][2]):
        with tcp_server(pod.namespace, pod.address, 7070) as server:
            with pod.node.call(pod.node.network.dial(pod.key, 7070)):
                accepted, (source, _) = server.accept()
                accepted.close()
            assert source == "10.7.0.1"
        with pytest.raises(ConnectionRefusedError):
            pod.node.call(pod.node.network.dial(pod.key, 7071))


def test_policies_hold_while_they_are_there(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
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
        wait_until(lambda: reaches(beside, near.address, 8080))
        cluster.must(cluster.server.system.post(path, {"metadata": {"name": "guard"}, "spec": spec}))
        wait_until(lambda: not reaches(beside, near.address, 8080))
        wait_until(lambda: reaches(far, near.address, 8080))
        with pytest.raises(TimeoutError):
            asked(near, "kubernetes.default.svc.cluster.local", timeout=0.5)
        near.node.call(near.node.network.dial(near.key, 8080)).close()
        dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
        more = {"spec": {"egress": [{"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]}]}}
        cluster.must(cluster.server.system.patch(f"{path}/guard", more))
        wait_until(lambda: _answers(near))
        cluster.must(cluster.server.system.delete(f"{path}/guard"))
        wait_until(lambda: reaches(beside, near.address, 8080))


def _answers(pod: AttachedPod) -> bool:
    try:
        return asked(pod, "kubernetes.default.svc.cluster.local", timeout=0.5) != ["NXDOMAIN"]
    except TimeoutError:
        return False


def test_what_a_tenant_writes_is_not_believed(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
    """Status, annotations and addresses are the tenant's own to write; none of it moves the data plane."""
    tenant, near, node = cluster.server.as_tenant("red"), pods["red"][0], pods["red"][0].node.node
    base = "/api/v1/namespaces/default"
    before = node.plane.state
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
    wait_until(lambda: any(str(each.address) == real for each in node.plane.state.services))
    state = node.plane.state
    assert [node_port for node_port in state.node_ports if node_port.port == 10250] == []
    assert state.veths == before.veths
    assert str(WORLD) not in {str(each.address) for each in state.endpoints}
    tenant.delete(f"{base}/services/forged")


def test_a_network_may_be_ipv6(cluster: NodeCluster) -> None:
    cluster.make_network("red", "six", {"type": "vpc", "ip": "fd00:7::", "prefix": 64})
    near, far = (cluster.place_pod("red", node, "six") for node in (0, 1))
    with tcp_server(far.namespace, far.address, 8080) as server:
        assert tcp_talks(near.namespace, far.address, 8080, server)
    api = cluster.service_address("red", "default", "kubernetes-six")
    resolves(near, "kubernetes.default.svc.cluster.local", [api], "AAAA")
    wait_until(lambda: reaches(near, api, 443))
    with tcp_server(near.namespace, near.address, 7070):
        near.node.call(near.node.network.dial(near.key, 7070)).close()
    for pod in (near, far):
        cluster.remove_pod(pod)


def test_a_pod_may_have_several_interfaces(cluster: NodeCluster) -> None:
    spec = {"type": "vpc", "ip": "10.9.0.0", "prefix": 16, "subnets": ["left", "right"]}
    cluster.make_network("red", "two", spec)
    nics = [{"subnet": "left"}, {"subnet": "right", "ip": "10.9.128.9"}]
    pod = cluster.place_pod("red", 0, "two", nics=nics)
    other = cluster.place_pod("red", 1, "two")
    assert pod.attachment.addresses[1] == "10.9.128.9"
    pod.node.call(pod.node.network.restore_addresses(pod.key))
    for address in pod.attachment.addresses:
        with tcp_server(pod.namespace, address, 8080) as server:
            assert tcp_talks(other.namespace, address, 8080, server), address
    for each in (pod, other):
        cluster.remove_pod(each)


def test_a_network_may_have_a_vpc_of_ring0s_and_give_it_to_another(cluster: NodeCluster) -> None:
    system = cluster.server.system
    vpc = {"metadata": {"name": "given"}, "spec": {"ip": "10.20.0.0", "prefix": 16}}
    cluster.must(system.post("/apis/mizar.com/v1/vpcs", vpc))
    subnet = {"metadata": {"name": "given-a"}, "spec": {"ip": "10.20.1.0", "prefix": 24, "vpc": "given"}}
    cluster.must(system.post("/apis/mizar.com/v1/subnets", subnet))
    path = "/apis/mizar.com/v1/subnets/given-a"
    wait_until(lambda: system.get(path).json["spec"]["status"] == "Provisioned")
    for name in ("first", "second"):
        cluster.make_network("red", name, {"type": "vpc", "vpcID": "given"})
        pod = cluster.place_pod("red", 0, name)
        assert pod.address == "10.20.1.2"
        api = cluster.service_address("red", "default", f"kubernetes-{name}")
        resolves(pod, "kubernetes.default.svc.cluster.local", [api])
        cluster.remove_pod(pod)
        cluster.must(system.delete(f"/apis/arktos.futurewei.com/v1/tenants/red/networks/{name}"))
        networks = f"/apis/arktos.futurewei.com/v1/tenants/red/networks/{name}"
        wait_until(partial(_is_gone, cluster, networks))


def _is_gone(cluster: NodeCluster, path: str) -> bool:
    return cluster.server.system.get(path).status == 404


def test_who_bounces_and_divides_need_have_no_pod(cluster: NodeCluster) -> None:
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
    assert not third.plane.state.veths


def test_flat_networks_share_a_range_and_nothing_else(cluster: NodeCluster) -> None:
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
        resolves(near, "kubernetes.default.svc.cluster.local", [address])
    for pod in (each for both in placed.values() for each in both):
        cluster.remove_pod(pod)
