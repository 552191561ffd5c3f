"""Flows through the API: of which tenant, of which namespace, from which nodes; and as `alcove flows` shows them."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.podkey import PodKey
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server.traces import TracedPacket
from alcove.api.errors import BadRequest
from alcove.api.ids import TenantId
from alcove.api.node_api import (
    FlowEnd,
    FlowPolicy,
    FlowReport,
    KernelTrace,
    LiveReply,
    NameAnswer,
    NodeFlows,
)
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.dataplane.model import Protocol
from alcove.processes.main import app
from alcove.testing.containers import ContainerLab
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import LocalServer, ServerResponse

FLOWS = "/apis/sight.alcove.io/v1alpha1/flows"
OF_BETA = "/apis/sight.alcove.io/v1alpha1/tenants/beta/flows"
EVERYWHERE = "/apis/sight.alcove.io/v1alpha1/tenants/all/flows"


def report(tenant: str, source: str, message: str = "", address: str = "10.0.0.5") -> FlowReport:
    """A drop, to which a policy of its tenant led."""
    return FlowReport(
        tenant=tenant,
        network="own",
        direction="egress",
        verdict="dropped",
        protocol="TCP",
        source=FlowEnd(address, 0, "Pod", "default", source),
        destination=FlowEnd("10.0.0.9", 5432, "Pod", "db", "postgres"),
        start=1_700_000_000.0,
        end=1_700_000_100.0,
        packets_sent=3,
        reason="PolicyEgress",
        message=message or f"denied by NetworkPolicy default/{tenant}",
        policies=(FlowPolicy("egress", f"default/{tenant}", False),),
    )


class SeenFlows:
    """What a node's networks have seen; remembers what it was asked for."""

    def __init__(self) -> None:
        self.reports = [report("acme", "till"), report("beta", "vault-canary")]
        self.asked: list[FlowSelection] = []
        self.full: tuple[str, ...] = ()

    async def read(self, plane: PlaneId, tenant: TenantId | None, selection: FlowSelection) -> NodeFlows:
        assert plane == HOME
        self.asked.append(selection)
        return NodeFlows(tuple(each for each in self.reports if tenant in (None, each.tenant)), 2, self.full)

    def follow(self, plane: PlaneId, tenant: TenantId | None, selection: FlowSelection) -> "FollowedFlows":
        return FollowedFlows(lambda: self.read(plane, tenant, selection))


class FollowedFlows:
    """Has all flows at each reading."""

    def __init__(self, read: Callable[[], Awaitable[NodeFlows]]) -> None:
        self._read = read

    def poll(self) -> float:
        return 0.1

    async def read(self) -> NodeFlows:
        return await self._read()


async def trace(packet: TracedPacket) -> KernelTrace:
    """What a node's kernel does: pods of acme may send, to a pod on another node."""
    assert (packet.pod.tenant, packet.pod.namespace, packet.protocol) == ("acme", "default", Protocol.UDP)
    address = str(packet.address)
    if packet.source is None:
        assert packet.pod.name == "one"
        end = FlowEnd(address, packet.port, "Pod", "default", "two" if address == "10.0.0.9" else "one")
        live = LiveReply(62_000, "answered", 0.4) if packet.is_live else None
        return KernelTrace("forwarded", end, "n2", source="10.0.0.5", live=live)
    assert not packet.is_live, "only the pod's own node sends it"
    assert (packet.pod.name, packet.sender, str(packet.source)) == ("two", "watched", "10.0.0.5")
    return KernelTrace("dropped", FlowEnd(address, packet.port), message="denied there")


async def look_up(pod: PodKey, name: str) -> NameAnswer:
    """What a node's DNS server says."""
    assert (pod.tenant, pod.namespace, pod.name) == ("acme", "default", "one")
    if name == "bad..name":
        raise BadRequest("query parameter name must be a DNS name")
    if name != "db":
        return NameAnswer(name, message="there is no such name (NXDOMAIN)", server="10.96.0.10")
    return NameAnswer("db.default.svc.cluster.local.", ("10.96.0.7",), server="10.96.0.10", denied="no")


@pytest.fixture
def seen() -> SeenFlows:
    return SeenFlows()


@pytest.fixture
async def watched(server: LocalServer, folder: Path, seen: SeenFlows) -> AsyncIterator[NodeRig]:
    """A node that has a pod of each tenant."""
    rig = NodeRig(server, ContainerLab(HollowRuntime(), folder), "watched")
    rig.flows, rig.follow_flows, rig.trace, rig.look_up = seen.read, seen.follow, trace, look_up
    async with rig:
        for tenant in ("acme", "beta"):
            rig.has_pod(await make_pod(server, tenant, "one", "watched"))
        yield rig
        for tenant in ("acme", "beta"):
            await remove_pod(server, tenant, "one")


async def make_pod(server: LocalServer, tenant: str, name: str, node: str) -> Object:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
    path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
    body = {"metadata": {"name": name}, "spec": spec}
    created = await asyncio.to_thread(server.system.post, path, body)
    assert created.status == 201, created.body
    pod: Object = created.json
    return pod


async def remove_pod(server: LocalServer, tenant: str, name: str) -> None:
    path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{name}"
    await asyncio.to_thread(server.system.delete, path, {"gracePeriodSeconds": 0})


async def get(caller: object, path: str) -> ServerResponse:
    return await asyncio.to_thread(caller.get, path)  # type: ignore[attr-defined]


async def test_a_tenant_sees_its_own_flows_and_ring0_all(watched: NodeRig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    own = await get(acme, FLOWS)
    assert own.status == 200, own.body
    [flow] = own.json["items"]
    assert flow["source"] == {"address": "10.0.0.5", "kind": "Pod", "namespace": "default", "name": "till"}
    assert (flow["metadata"]["tenant"], flow["node"], flow["reason"]) == ("acme", "watched", "PolicyEgress")
    assert (flow["start"], flow["end"]) == ("2023-11-14T22:13:20Z", "2023-11-14T22:15:00Z")
    assert own.json["metadata"]["remainingItemCount"] == 2
    assert b"vault-canary" not in own.body
    for path in (OF_BETA, EVERYWHERE, "/tenants/beta" + FLOWS):
        refused = await get(acme, path)
        assert refused.status == 403 and b"vault-canary" not in refused.body
    everything = await get(server.system, EVERYWHERE)
    assert {each["metadata"]["tenant"] for each in everything.json["items"]} == {"acme", "beta"}


async def test_a_selection_reaches_the_node_and_a_bad_one_does_not(
    watched: NodeRig, server: LocalServer, seen: SeenFlows
) -> None:
    acme = server.as_tenant("acme")
    path = "/apis/sight.alcove.io/v1alpha1/namespaces/shop/flows"
    assert (await get(acme, f"{path}?verdict=dropped&pod=till&sinceSeconds=60&limit=5")).status == 200
    [asked] = seen.asked
    assert asked.since > 1_700_000_000
    assert replace(asked, since=0.0) == FlowSelection(0.0, "dropped", "shop", "till", 5)
    for bad in (
        "verdict=perhaps",
        "sinceSeconds=-1",
        "sinceSeconds=1e9",
        "limit=-1",
        "sinceSeconds=" + "9" * 30,
    ):
        assert (await get(acme, f"{FLOWS}?{bad}")).status in (400, 422), bad
    assert len(seen.asked) == 1


async def test_a_node_that_does_not_respond_is_left_out_with_a_warning(
    watched: NodeRig, server: LocalServer
) -> None:
    system = server.system
    await asyncio.to_thread(system.post, "/api/v1/nodes", {"metadata": {"name": "silent"}})
    try:
        response = await get(system, EVERYWHERE)
        assert len(response.json["items"]) == 2
        assert "silent" in response.headers["warning"]
    finally:
        await asyncio.to_thread(system.delete, "/api/v1/nodes/silent")


async def test_kubectl_and_alcove_show_flows(
    watched: NodeRig, server: LocalServer, seen: SeenFlows, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = server.as_tenant("acme")
    table = await watched.kubectl(acme, "get", "flows", "-A")
    assert table.code == 0, table.errors
    assert "default/till" in table.out and "db/postgres:5432" in table.out
    # Names are checked by the API server; a message may have what a packet or a policy had.
    seen.reports[0] = report("acme", "till", "denied\x1b[2J\x9b by \r\nnobody")
    monkeypatch.setenv("KUBECONFIG", str(acme.kubeconfig))
    shown = await asyncio.to_thread(CliRunner().invoke, app, ["drops", "--to", "postgres"])
    assert shown.exit_code == 0, shown.output
    assert "denied\\x1b[2J\\x9b by \\r\\nnobody" in shown.stdout
    assert "PolicyEgress" in shown.stdout and "vault-canary" not in shown.stdout
    listed = await asyncio.to_thread(CliRunner().invoke, app, ["flows", "--since", "1h", "-o", "json"])
    assert listed.exit_code == 0, listed.output
    assert "\x1b" not in listed.stdout and "\x9b" not in listed.stdout
    [flow] = orjson.loads(listed.stdout)["items"]
    assert flow["message"] == "denied\x1b[2J\x9b by \r\nnobody"
    words = ["top", "networks", "--interval", "0.1", "-o", "json"]
    busiest = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert busiest.exit_code == 0, busiest.output
    [row] = orjson.loads(busiest.stdout)
    assert {"acme", "own"} <= set(row.values()) and "vault-canary" not in busiest.stdout
    seen.full = ("acme/own",)
    other = await asyncio.to_thread(CliRunner().invoke, app, ["flows", "--to", "10.0.0.9:80"])
    assert (other.exit_code, other.stdout) == (0, "")
    assert "older flows are missing" in other.stderr and "acme/own" in other.stderr
    refused = await asyncio.to_thread(CliRunner().invoke, app, ["flows", "--tenant", "beta"])
    assert refused.exit_code == 6


async def next_event(process: asyncio.subprocess.Process) -> Object:
    """The next event that kubectl prints of a watch."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        event: Object = orjson.loads(await process.stdout.readline())
    return event


async def test_a_watch_of_flows_streams_ones_own_until_the_pod_is_gone(
    watched: NodeRig, server: LocalServer, seen: SeenFlows
) -> None:
    acme = server.as_tenant("acme")
    process = await watched.begin(acme, "get", "--raw", f"{FLOWS}?watch=true&pod=one&limit=1")
    try:
        first = await next_event(process)
        assert (first["type"], first["object"]["source"]["name"]) == ("ADDED", "till")
        assert first["object"]["lost"] == 2, "the node says that there are two more"
        seen.reports += [
            report("acme", "new-one", address="10.0.0.6"),
            report("beta", "vault-canary-2", address="10.0.0.6"),
        ]
        second = await next_event(process)
        assert second["object"]["source"]["name"] == "new-one"
        assert second["object"]["metadata"]["tenant"] == "acme"
        path = "/api/v1/namespaces/default/pods/one"
        deleted = await asyncio.to_thread(acme.delete, path, {"gracePeriodSeconds": 0})
        assert deleted.status == 200, deleted.body
        last = await next_event(process)
        assert (last["type"], last["object"]["code"]) == ("ERROR", 404)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        assert {asked.pod for asked in seen.asked} == {"one"}
    finally:
        if process.returncode is None:
            process.kill()


async def test_alcove_and_kubectl_follow_flows_as_they_come(
    watched: NodeRig, server: LocalServer, seen: SeenFlows
) -> None:
    acme = server.as_tenant("acme")
    command = [sys.executable, "-m", "alcove.processes.main", "drops", "-f", "--pod", "one"]
    env = {**os.environ, "KUBECONFIG": str(acme.kubeconfig)}
    pipe = asyncio.subprocess.PIPE
    following = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe)
    table = await watched.begin(acme, "get", "flows", "--watch-only")
    try:
        assert following.stdout is not None and table.stdout is not None and following.stderr is not None
        async with asyncio.timeout(120):
            assert b"MESSAGE" in await following.stdout.readline()
            assert b"default/till" in await following.stdout.readline()
            seen.reports.append(report("acme", "new-one", address="10.0.0.6"))
            assert b"default/new-one" in await following.stdout.readline()
            while b"default/new-one" not in await table.stdout.readline():
                pass
            path = "/api/v1/namespaces/default/pods/one"
            await asyncio.to_thread(acme.delete, path, {"gracePeriodSeconds": 0})
            assert b'pods "one" not found' in await following.stderr.read()
            assert await following.wait() != 0
    finally:
        for process in (following, table):
            if process.returncode is None:
                process.kill()


async def test_a_trace_is_of_ones_own_pod_and_a_real_destination(
    watched: NodeRig, server: LocalServer, folder: Path
) -> None:
    acme = server.as_tenant("acme")
    path = "/apis/sight.alcove.io/v1alpha1{}/namespaces/default/traces"
    spec = {"pod": "one", "address": "10.0.0.9", "port": 53, "protocol": "UDP"}

    async def post(tenant: str = "", **changes: object) -> ServerResponse:
        return await asyncio.to_thread(acme.post, path.format(tenant), {"spec": {**spec, **changes}})

    traced = await post()
    assert traced.status == 201, traced.body
    end = {"address": "10.0.0.9", "port": 53, "kind": "Pod", "namespace": "default", "name": "two"}
    sent = {"node": "watched", "verdict": "forwarded", "destination": end, "nextNode": "another node"}
    assert traced.json["status"] == sent, "there is no such pod, and none on the next node"
    by_ring0 = await asyncio.to_thread(server.system.post, path.format("/tenants/acme"), {"spec": spec})
    assert by_ring0.json["status"]["nextNode"] == "n2"
    both = (await post(name="db")).json["status"]
    answer = {"name": "db.default.svc.cluster.local.", "addresses": ["10.96.0.7"]}
    assert both == {**sent, "lookup": {**answer, "server": "10.96.0.10", "denied": "no"}}
    only = await post(name="nobody", address="")
    assert set(only.json["status"]) == {"node", "lookup"}, "without an address, nothing is tried"
    assert only.json["status"]["lookup"]["message"] == "there is no such name (NXDOMAIN)"
    live = (await post(live=True)).json["status"]["live"]
    assert live == {"sourcePort": 62_000, "reply": "answered", "milliseconds": 0.4}
    await make_pod(server, "acme", "two", "silent")
    try:
        receiver = (await post()).json["status"]["receiver"]
        assert receiver["node"] == "silent" and receiver["message"].startswith("not tried: ")
    finally:
        await remove_pod(server, "acme", "two")
    other = NodeRig(server, ContainerLab(HollowRuntime(), folder), "other")
    other.trace = trace  # It has no DNS server.
    async with other:
        other.has_pod(await make_pod(server, "acme", "two", "other"))
        try:
            receiver = (await post(live=True)).json["status"]["receiver"]
            there = {"address": "10.0.0.9", "port": 53}
            assert receiver == {
                "node": "other", "verdict": "dropped", "destination": there, "message": "denied there",
            }  # fmt: skip
        finally:
            await remove_pod(server, "acme", "two")
    assert (await post("/tenants/beta")).status == 403
    assert (await post("/tenants/nobody")).status == 403
    assert (await post(pod="nobody")).status == 404
    for bad in (
        {"address": "here"},
        {"protocol": "ICMP"},
        {"port": 70_000},
        {"port": -1},
        {"protocol": "SCTP", "live": True},
        {"name": "bad..name"},
        {"name": "x" * 254},
        {"name": "db", "address": "", "live": True},
    ):
        assert (await post(**bad)).status == 400, bad


async def test_policies_are_checked_and_proposed_from_what_was_seen(
    watched: NodeRig, server: LocalServer, seen: SeenFlows, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = server.as_tenant("acme")
    monkeypatch.setenv("KUBECONFIG", str(acme.kubeconfig))
    pods = "/api/v1/namespaces/default/pods"
    labelled = await asyncio.to_thread(acme.patch, f"{pods}/one", {"metadata": {"labels": {"app": "till"}}})
    assert labelled.status == 200, labelled.body
    gone = replace(report("acme", "one"), verdict="forwarded", reason="", message="", policies=())
    seen.reports += [gone, replace(gone, destination=FlowEnd("192.0.2.9", 443))]
    words = ["policy", "propose", "--from-flows", "--since", "1h", "-o", "json"]
    proposed = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert proposed.exit_code == 0, proposed.output
    [policy] = orjson.loads(proposed.stdout)["items"]
    assert policy["spec"]["podSelector"] == {"matchLabels": {"app": "till"}}
    assert "pod db/postgres: the pod is gone" in proposed.stderr
    path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy["spec"]["podSelector"] = {"matchLabels": {"app": "tail"}}
    made = await asyncio.to_thread(acme.post, path, policy)
    assert made.status == 201, made.body
    try:
        checked = await asyncio.to_thread(CliRunner().invoke, app, ["policy", "check"])
        assert checked.exit_code == 1, checked.output
        assert "default/till-seen" in checked.stdout and "SelectsNothing" in checked.stdout
    finally:
        await asyncio.to_thread(acme.delete, f"{path}/till-seen")
    clean = await asyncio.to_thread(CliRunner().invoke, app, ["policy", "check"])
    assert (clean.exit_code, clean.stdout) == (0, "no problems found\n")
