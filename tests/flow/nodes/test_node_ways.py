"""Ways into networks and out of them: node ports, load balancers, host names, the world."""

from contextlib import ExitStack
from functools import partial

from alcove.api.objects import Object
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.podprobes import TENANTS, WORLD, asked, came_as, fetched, reaches, resolves, site
from alcove.testing.probes import IMPATIENT, connect, tcp_server
from alcove.testing.server import wait_until


def test_the_world_comes_in_by_node_ports(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
    """By any node that has pods of the network, to whichever pod; with `Local`, clients keep their address."""
    far = pods["red"][2]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"door": "red"}}}))
    cluster.make_service("red", "outside", type="NodePort", selector={"door": "red"})
    service = "/api/v1/tenants/red/namespaces/default/services/outside"
    port = wait_until(lambda: cluster.server.system.get(service).json["spec"]["ports"][0].get("nodePort"))
    near, stranger = pods["red"][0], pods["blue"][0]
    with tcp_server(far.namespace, far.address, 8080):
        for node in cluster.nodes.all:
            wait_until(partial(reaches, near, str(node.node.address), port))
            assert not reaches(stranger, str(node.node.address), port), "another network's"
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


def test_a_load_balancer_has_an_address_of_ring0s(
    cluster: NodeCluster, pods: dict[str, list[AttachedPod]]
) -> None:
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

    [result] = wait_until(ingress)
    assert result == {"ip": "198.51.100.2", "ipMode": "VIP"}
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


def test_the_world_comes_in_by_host_names(cluster: NodeCluster, pods: dict[str, list[AttachedPod]]) -> None:
    """Two tenants' Ingresses on the same nodes, to services of the same name and address."""
    for tenant in TENANTS:
        pod = pods[tenant][2]
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{pod.key.name}"
        cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"site": "yes"}}}))
        cluster.make_service(tenant, "site", selector={"site": "yes"})
        grant = {"spec": {"domains": [f"{tenant}.example"]}}
        cluster.must(cluster.server.system.patch(f"/api/v1/tenants/{tenant}", grant))
        backend = {"service": {"name": "site", "port": {"number": 80}}}
        rule = {
            "host": f"{tenant}.example",
            "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]},
        }
        obj = {
            "metadata": {"name": "site", "labels": {"arktos.futurewei.com/network": "own"}},
            "spec": {"ingressClassName": "alcove", "rules": [rule]},
        }
        base = f"/apis/networking.k8s.io/v1/tenants/{tenant}/namespaces/default/ingresses"
        cluster.must(cluster.server.system.post(base, obj))
    with ExitStack() as stack:
        for tenant in TENANTS:
            stack.enter_context(site(pods[tenant][2], tenant))
        for tenant in TENANTS:
            for node in cluster.nodes.all[:2]:
                result = wait_until(partial(fetched, cluster, str(node.node.address), f"{tenant}.example"))
                assert result.endswith(f"this is {tenant}")
    for tenant in TENANTS:
        for kind in ("apis/networking.k8s.io/v1", "api/v1"):
            what = "ingresses" if "networking" in kind else "services"
            cluster.must(
                cluster.server.system.delete(f"/{kind}/tenants/{tenant}/namespaces/default/{what}/site")
            )


def test_a_node_port_is_one_tenants(cluster: NodeCluster) -> None:
    winner, loser = TENANTS
    spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30777}]}
    cluster.make_service(winner, "wanted", **spec)
    path = f"/api/v1/tenants/{loser}/namespaces/default/services"
    refused = cluster.server.system.post(path, {"metadata": {"name": "wanted"}, "spec": spec})
    assert refused.status == 422 and b"provided port is already allocated" in refused.body
    claim = cluster.server.system.get("/apis/mizar.com/v1/endpoints/port-30777-tcp").json
    assert claim["spec"]["pod"].startswith(f"{winner}/")
    cluster.must(cluster.server.system.delete(f"/api/v1/tenants/{winner}/namespaces/default/services/wanted"))
    wait_until(lambda: cluster.server.system.get("/apis/mizar.com/v1/endpoints/port-30777-tcp").status == 404)
    cluster.make_service(loser, "wanted", **spec)
    cluster.must(cluster.server.system.delete(f"{path}/wanted"))


def test_ring0_and_the_network_together_open_the_way_out(cluster: NodeCluster) -> None:
    """The world's address is not public here: the network's egress is not enough."""
    cluster.make_network("red", "open", {"type": "vpc", "ip": "10.8.0.0", "prefix": 24})
    pod = cluster.place_pod("red", 0, "open")
    system, path = cluster.server.system, "/apis/arktos.futurewei.com/v1/tenants/red/networks/open"

    def enable(value: bool) -> None:
        cluster.must(system.patch(path, {"spec": {"egress": {"enabled": value}}}))

    def allow(*cidrs: str) -> None:
        cluster.must(system.patch("/api/v1/tenants/red", {"spec": {"egress": {"allowedCIDRs": list(cidrs)}}}))

    with tcp_server(cluster.world, WORLD, 80):
        allow("203.0.113.0/24")
        assert not reaches(pod, WORLD, 80)
        assert asked(pod, "example.com") == ["NXDOMAIN"]
        enable(True)
        wait_until(lambda: reaches(pod, WORLD, 80))
        resolves(pod, "example.com", ["198.51.100.7"])
        with tcp_server(pod.node.node.namespace, str(pod.node.node.address), 10250):
            allow("203.0.113.0/24", "192.168.0.0/16")
            assert not reaches(pod, str(pod.node.node.address), 10250), "nodes are not the world"
        allow()
        wait_until(lambda: not reaches(pod, WORLD, 80))
        allow("203.0.113.5/32")
        wait_until(lambda: reaches(pod, WORLD, 80))
        tenant = cluster.server.as_tenant("red")
        assert tenant.patch("/api/v1/tenants/red", {"spec": {"egress": {"allowedCIDRs": []}}}).status == 403
        enable(False)
        wait_until(lambda: not reaches(pod, WORLD, 80))
    allow()
    cluster.remove_pod(pod)
