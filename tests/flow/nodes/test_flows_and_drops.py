"""Flows and drops by name, of two tenants whose pods have the same addresses."""

from contextlib import suppress
from ipaddress import ip_address

import orjson
import pytest
from typer.testing import CliRunner

from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.server import capture
from alcove.api.errors import NotFound
from alcove.api.ids import TenantId
from alcove.api.node_api import FlowReport, KernelTrace
from alcove.client.keys import HOME
from alcove.dataplane.desired import endpoint_key
from alcove.dataplane.maps import MapName
from alcove.dataplane.model import Protocol
from alcove.processes.main import app
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.podprobes import TENANTS, reaches
from alcove.testing.probes import tcp_server
from alcove.testing.server import wait_until

POLICIES = "/apis/networking.k8s.io/v1/tenants/red/namespaces/default/networkpolicies"
Pods = dict[str, list[AttachedPod]]


def flows_of(near: AttachedPod, tenant: str | None = None, **selection: object) -> list[FlowReport]:
    """What the pod's node has seen of a tenant; by default of the pod's own."""
    wanted = FlowSelection(**selection)  # type: ignore[arg-type]
    work = near.node.network.traffic.flows(HOME, TenantId(tenant or near.key.tenant), wanted)
    return list(near.node.call(work).flows)


def opened(flows: list[FlowReport], source: AttachedPod, port: int) -> list[FlowReport]:
    return [each for each in flows if (each.source.name, each.destination.port) == (source.key.name, port)]


def test_each_end_of_a_flow_has_its_name_and_only_ones_own(cluster: NodeCluster, pods: Pods) -> None:
    """The pods of both tenants have the same addresses: whose is whose is a matter of the network."""
    for tenant in TENANTS:
        near, _, far = pods[tenant]
        with tcp_server(far.namespace, far.address, 8081):
            wait_until(lambda near=near, far=far: reaches(near, far.address, 8081))
    for tenant in TENANTS:
        near, _, far = pods[tenant]
        for node, direction in ((near, "egress"), (far, "ingress")):
            flow = opened(flows_of(node, tenant), near, 8081)[0]
            assert (flow.tenant, flow.network, flow.direction) == (tenant, "own", direction)
            assert (flow.verdict, flow.protocol, flow.policies) == ("forwarded", "TCP", ())
            assert (flow.source.kind, flow.source.namespace) == ("Pod", "default")
            assert (flow.destination.kind, flow.destination.name) == ("Pod", far.key.name)
            assert flow.bytes_sent >= 100 and flow.packets_received >= 2
    names = {pod.key.name for pod in pods["blue"]}
    seen = {end.name for flow in flows_of(pods["red"][0]) for end in (flow.source, flow.destination)}
    assert not seen & names
    assert flows_of(pods["red"][0], "nobody") == []
    here = pods["red"][0].node
    exported = here.call(here.network.traffic.all_flows(0.0))
    assert {each.tenant for each in exported} >= set(TENANTS)


def test_a_flow_by_a_service_has_the_services_name(cluster: NodeCluster, pods: Pods) -> None:
    near, _, far = pods["red"]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"seen": "yes"}}}))
    address = cluster.make_service("red", "seen", selector={"seen": "yes"})
    with tcp_server(far.namespace, far.address, 8080):
        wait_until(lambda: reaches(near, address, 80))
    flow = next(each for each in opened(flows_of(near), near, 8080) if each.service is not None)
    assert flow.service is not None
    assert (flow.service.kind, flow.service.name, flow.service.port) == ("Service", "seen", 80)
    assert flow.destination.name == far.key.name
    assert flows_of(near, pod="seen"), "a service's flows are found by its name"
    cluster.must(cluster.server.system.delete("/api/v1/tenants/red/namespaces/default/services/seen"))


def test_a_drop_says_which_policy_denied_it_and_the_pod_gets_an_event(
    cluster: NodeCluster, pods: Pods, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, beside, far = pods["red"]
    for pod, role in ((near, "web"), (far, "db")):
        path = f"/api/v1/tenants/red/namespaces/default/pods/{pod.key.name}"
        cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"role": role}}}))
    web = {"from": [{"podSelector": {"matchLabels": {"role": "web"}}}], "ports": [{"port": 5432}]}
    spec = {"podSelector": {"matchLabels": {"role": "db"}}, "ingress": [web], "policyTypes": ["Ingress"]}
    cluster.must(cluster.server.system.post(POLICIES, {"metadata": {"name": "only-web"}, "spec": spec}))
    with tcp_server(far.namespace, far.address, 5432):
        wait_until(lambda: not reaches(beside, far.address, 5432))
        wait_until(lambda: reaches(near, far.address, 5432))
        denied = wait_until(lambda: opened(flows_of(far, verdict="dropped"), beside, 5432))[0]
        allowed = next(
            each for each in opened(flows_of(far, verdict="forwarded"), near, 5432) if each.policies
        )
    message = f"ingress from {beside.address} to {far.address}:5432 denied by NetworkPolicy default/only-web"
    assert (denied.reason, denied.message) == ("PolicyIngress", message)
    assert [(each.policy, each.allows) for each in denied.policies] == [("default/only-web", False)]
    assert [(each.policy, each.allows) for each in allowed.policies] == [("default/only-web", True)]
    wait_until(lambda: ("red", far.key.name, "PacketsDropped") in far.node.events, 60.0)
    assert message in far.node.messages
    assert all(tenant != "blue" for tenant, *_ in far.node.events)
    elsewhere = flows_of(far, namespace="other")
    assert elsewhere == [], "no end is in that namespace"
    away = tried(beside, far.address, 5432)
    assert (away.verdict, away.next_node, away.destination.name) == ("forwarded", far.node.name, far.key.name)
    assert tried(far, near.address, 9).verdict == "forwarded"
    assert traced(cluster, beside, far, monkeypatch) == "dropped"
    assert traced(cluster, near, far, monkeypatch) == "forwarded"
    cluster.must(cluster.server.system.delete(f"{POLICIES}/only-web"))


def tried(source: AttachedPod, address: str, port: int) -> KernelTrace:
    """What the kernel of the pod's node does with a packet."""
    work = source.node.network.traffic.trace(source.key, ip_address(address), port, Protocol.TCP)
    return source.node.call(work)


def test_the_kernel_denies_by_name_and_lacks_what_was_taken_from_it(cluster: NodeCluster, pods: Pods) -> None:
    near, beside, far = pods["red"]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{near.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"role": "mute"}}}))
    spec = {"podSelector": {"matchLabels": {"role": "mute"}}, "egress": [], "policyTypes": ["Egress"]}
    cluster.must(cluster.server.system.post(POLICIES, {"metadata": {"name": "mute"}, "spec": spec}))
    wait_until(lambda: tried(near, far.address, 80).verdict == "dropped")
    assert (
        tried(near, far.address, 80).message
        == f"egress to {far.address}:80 denied by NetworkPolicy default/mute"
    )
    cluster.must(cluster.server.system.delete(f"{POLICIES}/mute"))
    wait_until(lambda: tried(near, far.address, 80).verdict == "forwarded")
    plane = near.node.node.plane
    [record] = [each for each in near.node.network.records() if each.key == near.key]
    key = endpoint_key(record.plugs[0].vni, ip_address(beside.address))
    taken = plane.maps[MapName.ENDPOINTS].get(key)
    assert taken is not None

    def is_lacking() -> bool:
        plane.maps[MapName.ENDPOINTS].delete(
            key
        )  # Again if the node has just put it back with another change.
        return tried(near, beside.address, 80).verdict == "dropped"

    try:
        wait_until(is_lacking)
    finally:
        plane.maps[MapName.ENDPOINTS].put(key, taken)


def traced(
    cluster: NodeCluster, source: AttachedPod, target: AttachedPod, monkeypatch: pytest.MonkeyPatch
) -> str:
    """What the objects say, as `alcove trace` shows it to the tenant; the nodes here have no server to ask."""
    monkeypatch.setenv("KUBECONFIG", str(cluster.server.as_tenant("red").kubeconfig))
    words = ["trace", source.key.name, "--to", target.key.name, "--port", "5432", "-o", "json"]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    answer = orjson.loads(shown.stdout)
    assert any("default/only-web" in step["message"] for step in answer["steps"])
    return str(answer["verdict"])


def test_a_capture_has_a_pods_own_packets_in_both_directions(cluster: NodeCluster, pods: Pods) -> None:
    near, _, far = pods["red"]
    place = near.node.network.traffic.capture_place(near.key)
    with capture.open_socket(place, b"") as sock, tcp_server(far.namespace, far.address, 8085):
        wait_until(lambda: reaches(near, far.address, 8085))
        blocks = []
        with suppress(BlockingIOError):
            while True:
                blocks.append(capture.receive(sock, bytearray(2000)))
    sent, received = (far.address, near.address), (near.address, far.address)
    for to, back in (sent, received):
        addresses = ip_address(back).packed + ip_address(to).packed
        assert any(addresses in block for block in blocks)
    with pytest.raises(NotFound):
        near.node.network.traffic.capture_place(far.key)
