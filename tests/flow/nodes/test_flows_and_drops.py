"""Flows and drops by name, of two tenants whose pods have the same addresses."""

import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import orjson
import pytest
from msgspec import to_builtins
from typer.testing import CliRunner

from alcove.agent.network.flood_events import FloodEvents
from alcove.agent.network.flow_export import OPENED_MAX, FlowExporter, JsonLinesFile
from alcove.agent.network.flow_follower import RingFollower
from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.network.view import NetworkView
from alcove.agent.server import capture
from alcove.agent.server.traces import TracedPacket
from alcove.api.errors import BadRequest, NotFound
from alcove.api.ids import TenantId
from alcove.api.node_api import FlowReport, KernelTrace, LiveReply, NameAnswer
from alcove.cli.trace_names import compare_names
from alcove.client.keys import HOME
from alcove.dataplane.desired import endpoint_key
from alcove.dataplane.maps import MapName
from alcove.dataplane.model import Protocol
from alcove.dataplane.node_dataplane import MEMORY_ENTRIES
from alcove.dns.model import ObjectId
from alcove.network.trace import NameLookup
from alcove.processes.main import app
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.packets import ROUTER_MAC, Tap, ethernet, ipv4, udp
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
    counts = {(each.tenant, each.network): each.opened for each in here.network.traffic.counts()}
    assert all(counts[tenant, "own"] > 0 for tenant in TENANTS)
    exported = here.call(here.network.traffic.all_flows(0.0))
    assert {each.tenant for each in exported.flows} >= set(TENANTS)


def follow(near: AttachedPod, **selection: object) -> RingFollower:
    wanted = FlowSelection(**selection)  # type: ignore[arg-type]
    follower = RingFollower(near.node.network.traffic, HOME, TenantId(near.key.tenant), wanted)
    near.node.call(follower.read())
    return follower


def followed(near: AttachedPod, follower: RingFollower) -> list[FlowReport]:
    near.node.call(polled(follower))
    return list(near.node.call(follower.read()).flows)


async def polled(follower: RingFollower) -> None:
    follower.poll()


def test_a_stream_has_each_new_connection_of_ones_own_and_of_the_pod_that_is_asked_for(
    cluster: NodeCluster, pods: Pods
) -> None:
    near, beside, far = pods["red"]
    all_of_red, of_near, of_blue = follow(near), follow(near, pod=near.key.name), follow(pods["blue"][0])
    with tcp_server(far.namespace, far.address, 8083):
        wait_until(lambda: reaches(near, far.address, 8083))
        wait_until(lambda: reaches(beside, far.address, 8083))
    both = followed(near, all_of_red)
    for pod in (near, beside):
        flow = opened(both, pod, 8083)[0]
        assert (flow.destination.name, flow.verdict, flow.packets_sent >= 2) == (
            far.key.name,
            "forwarded",
            True,
        )
    own = followed(near, of_near)
    assert opened(own, near, 8083) and not opened(own, beside, 8083)
    assert not opened(followed(near, all_of_red), near, 8083), "each comes once"
    names = {pod.key.name for pod in pods["red"]}
    assert not {each.source.name for each in followed(near, of_blue)} & names


def test_a_flow_by_a_service_has_the_services_name(cluster: NodeCluster, pods: Pods) -> None:
    near, _, far = pods["red"]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{far.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"seen": "yes"}}}))
    address = cluster.make_service("red", "seen", selector={"seen": "yes"})
    with tcp_server(far.namespace, far.address, 8080):
        wait_until(lambda: reaches(near, address, 80))
        of_service = follow(near, pod="seen")
        assert reaches(near, address, 80)
        assert opened(followed(near, of_service), near, 8080), "and followed by its name"
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
    there = arriving(far, beside, 5432)
    assert (there.verdict, there.message) == ("dropped", message)
    assert arriving(far, near, 5432).verdict == "forwarded"
    assert traced(cluster, beside, far, monkeypatch) == "dropped"
    assert traced(cluster, near, far, monkeypatch) == "forwarded"
    cluster.must(cluster.server.system.delete(f"{POLICIES}/only-web"))


def tried(source: AttachedPod, address: str, port: int) -> KernelTrace:
    """What the kernel of the pod's node does with a packet."""
    packet = TracedPacket(source.key, ip_address(address), port, Protocol.TCP)
    return source.node.call(source.node.network.tracer.trace(packet))


def arriving(target: AttachedPod, source: AttachedPod, port: int) -> KernelTrace:
    """What the kernel of the target's node does with a packet from the other node."""
    ends = ip_address(target.address), port, Protocol.TCP, ip_address(source.address)
    packet = TracedPacket(target.key, *ends, source.node.name)
    return target.node.call(target.node.network.tracer.trace(packet))


def test_a_real_packet_is_marked_and_followed_on_both_nodes(cluster: NodeCluster, pods: Pods) -> None:
    near, _, far = pods["red"]

    def sent(port: int, protocol: Protocol = Protocol.TCP) -> LiveReply:
        packet = TracedPacket(near.key, ip_address(far.address), port, protocol, is_live=True)
        live = near.node.call(near.node.network.tracer.trace(packet)).live
        assert live is not None
        return live

    with tcp_server(far.namespace, far.address, 8087):
        # Nodes may still have the policy of another test.
        accepted = wait_until(lambda: live if (live := sent(8087)).reply == "accepted" else None)
    assert 0.0 < accepted.milliseconds < 1e3
    for end in (near, far):
        flows = [each for each in flows_of(end) if each.source.port == accepted.source_port]
        assert [(each.source.name, each.destination.name) for each in flows] == [
            (near.key.name, far.key.name)
        ]
    assert sent(8088).reply == "refused"
    assert sent(8088, Protocol.UDP).reply == "unreachable"
    assert tried(near, far.address, 8087).live is None


def test_the_kernel_denies_by_name_and_lacks_what_was_taken_from_it(cluster: NodeCluster, pods: Pods) -> None:
    near, beside, far = pods["red"]
    path = f"/api/v1/tenants/red/namespaces/default/pods/{near.key.name}"
    cluster.must(cluster.server.system.patch(path, {"metadata": {"labels": {"role": "mute"}}}))
    spec = {"podSelector": {"matchLabels": {"role": "mute"}}, "egress": [], "policyTypes": ["Egress"]}
    cluster.must(cluster.server.system.post(POLICIES, {"metadata": {"name": "mute"}, "spec": spec}))
    wait_until(lambda: tried(near, far.address, 80).verdict == "dropped")
    denied = looked_up(near, "nobody").denied
    assert denied.startswith("egress to ") and denied.endswith(":53 denied by NetworkPolicy default/mute")
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

    direct = tried(near, beside.address, 80)
    assert (direct.verdict, direct.next_node) == ("forwarded", "")

    def is_lacking() -> bool:
        # Again if the node has just put it back with another change.
        plane.maps[MapName.ENDPOINTS].delete(key)
        trace = tried(near, beside.address, 80)
        # An unknown address is a matter of the subnet's bouncer: the other node, or this one, which drops the packet.
        return trace.verdict == "dropped" or trace.next_node == far.node.name

    try:
        wait_until(is_lacking)
    finally:
        plane.maps[MapName.ENDPOINTS].put(key, taken)


def looked_up(pod: AttachedPod, name: str) -> NameAnswer:
    return pod.node.call(pod.node.network.names.look_up(pod.key, name))


def test_a_name_is_looked_up_at_the_real_server_and_differs_where_that_does(
    cluster: NodeCluster, pods: Pods
) -> None:
    near, _, _ = pods["red"]
    address = cluster.make_service("red", "named", selector={"no": "pod"})
    found = wait_until(lambda: answer if (answer := looked_up(near, "named")).addresses else None)
    assert (found.name, found.addresses, found.denied) == (
        "named.default.svc.cluster.local.",
        (address,),
        "",
    )
    assert looked_up(near, "named.default.svc").addresses == (address,)
    assert looked_up(near, "named.default.svc.cluster.local.").addresses == (address,)
    assert looked_up(pods["blue"][0], "named").message == "there is no such name (NXDOMAIN)", "another tenant"
    for bad in ("", "two..dots", "x" * 300, "größer"):
        with pytest.raises(BadRequest):
            looked_up(near, bad)
    # The name is taken from the node's zone by hand: the objects do not know.
    [view] = near.node.network.traffic.views(HOME, TenantId("red")).values()
    near.node.call(dropped_name(view, "named"))
    lookup = NameLookup("named.default.svc", (address,))
    told = compare_names(lookup, to_builtins(looked_up(near, "named.default.svc")), near.node.name)
    assert told.endswith(f"but the DNS server of {near.node.name} says nothing")
    cluster.must(cluster.server.system.delete("/api/v1/tenants/red/namespaces/default/services/named"))


async def dropped_name(view: NetworkView, service: str) -> None:
    view.names.zone.drop_service(ObjectId("default", service))


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


def send_udp(near: AttachedPod, far: AttachedPod, source_ports: Iterable[int]) -> None:
    """A packet from each of these ports: as many connections, which end at once."""
    [record] = [each for each in near.node.network.records() if each.key == near.key]
    with Tap(near.namespace, "eth0") as gun:
        for source_port in source_ports:
            ports = source_port, 9
            packet = ipv4(near.address, far.address, 17, udp(near.address, far.address, *ports, b""))
            gun.send(ethernet(record.plugs[0].mac, ROUTER_MAC, 0x0800, packet))


def test_an_export_has_also_connections_that_the_kernel_has_forgotten(
    cluster: NodeCluster, pods: Pods, tmp_path: Path
) -> None:
    """There are more of them than its table holds."""
    near, _, far = pods["red"]
    traffic = near.node.network.traffic
    follower = RingFollower(traffic, None, None, FlowSelection(since=time.time(), limit=OPENED_MAX))
    file = JsonLinesFile("n1", tmp_path / "flows")
    exporter = FlowExporter(follower, traffic.all_flows, [file])
    near.node.call(exporter.export_new())
    ports = range(20_000, 20_000 + MEMORY_ENTRIES + 3_000)
    for start in range(0, len(ports), 2_000):
        send_udp(near, far, ports[start : start + 2_000])
        near.node.call(polled(follower))
        near.node.call(exporter.export_new())
    near.node.call(exporter.export_totals())
    flows = [orjson.loads(line) for line in (tmp_path / "flows").read_bytes().splitlines()]
    found = {each["source"].get("port") for each in flows if each["source"].get("name") == near.key.name}
    assert found >= set(ports) and exporter.left_out == 0
    assert file.sent == len(flows)


def test_a_pod_that_opens_more_connections_than_are_remembered_is_told_so(
    cluster: NodeCluster, pods: Pods
) -> None:
    near, _, far = pods["red"]
    told: list[tuple[str, str, str]] = []
    # The node's own events are by the clock: on a busy machine, these packets are no flood.
    events = FloodEvents(
        near.node.network._reconciler,
        lambda owner, involved, reason, _: told.append((owner.tenant, involved["name"], reason)),
    )
    near.node.call(events.check())
    send_udp(near, far, range(1024, 1024 + MEMORY_ENTRIES + 1))
    near.node.call(events.check())
    assert told == [("red", near.key.name, "TooManyConnections")]
