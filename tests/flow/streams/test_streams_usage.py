"""kubectl top, and what it is made of."""

import asyncio
import time

import pytest

from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import LocalServer

pytestmark = [pytest.mark.root]

BUSY = {"name": "main", "command": ["sh", "-c", "while true; do :; done"]}
PODS = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"


def milli(text: str) -> int:
    return int(text.removesuffix("m"))


async def test_who_is_busy_shows(any_rig: NodeRig, server: LocalServer) -> None:
    rig, acme = any_rig, server.as_tenant("acme")
    await rig.pod("acme", "busy", [BUSY])
    await rig.pod("acme", "lazy", [{"name": "main"}])
    used: dict[str, int] = {}
    # How much the busy one gets, and how soon, depends on what else this machine does.
    async with asyncio.timeout(120):
        while not ("lazy" in used and 2 * used["lazy"] < used.get("busy", 0)):
            done = await rig.kubectl(acme, "top", "pod", "--no-headers")
            used = {line.split()[0]: milli(line.split()[1]) for line in done.out.splitlines()}
    containers = await rig.kubectl(acme, "top", "pod", "--containers", "--no-headers")
    assert ["busy", "main"] in [line.split()[:2] for line in containers.out.splitlines()]


async def test_a_tenant_sees_its_own_pods_and_no_nodes(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "mine", [{"name": "main"}], {"app": "a"})
    await rig.pod("beta", "theirs", [{"name": "main"}], {"app": "b"})
    names = {}
    for tenant in ("acme", "beta"):
        caller = server.as_tenant(tenant)
        response = await asyncio.to_thread(caller.get, PODS)
        assert response.status == 200
        names[tenant] = [each["metadata"]["name"] for each in response.json["items"]]
    assert names == {"acme": ["mine"], "beta": ["theirs"]}
    acme = server.as_tenant("acme")
    refused = await asyncio.to_thread(
        acme.get, "/apis/metrics.k8s.io/v1beta1/tenants/beta/namespaces/default/pods"
    )
    assert refused.status == 403
    assert (await asyncio.to_thread(acme.get, "/apis/metrics.k8s.io/v1beta1/nodes")).status == 404
    chosen = await asyncio.to_thread(acme.get, f"{PODS}?labelSelector=app%3Db")
    assert chosen.json["items"] == []
    one = await asyncio.to_thread(acme.get, f"{PODS}/mine")
    assert one.json["kind"] == "PodMetrics"
    assert one.json["containers"][0]["usage"].keys() == {"cpu", "memory"}
    assert (await asyncio.to_thread(acme.get, f"{PODS}/theirs")).status == 404
    top = await rig.kubectl(server.system, "top", "node", "--no-headers")
    assert rig.name in top.out.split()
    table = await rig.kubectl(acme, "get", "podmetrics")
    assert "CPU" in table.out and "mine" in table.out


async def test_a_node_that_is_gone_is_missing_and_slows_nobody(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "here", [{"name": "main"}])
    system = server.system
    await asyncio.to_thread(system.post, "/api/v1/nodes", {"metadata": {"name": "gone"}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.2"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 9}},
    }
    await asyncio.to_thread(system.patch, "/api/v1/nodes/gone/status", {"status": status})
    pod = {
        "metadata": {"name": "away"},
        "spec": {"nodeName": "gone", "containers": [{"name": "main", "image": "x"}]},
    }
    path = "/api/v1/tenants/acme/namespaces/default/pods"
    assert (await asyncio.to_thread(system.post, path, pod)).status == 201
    acme = server.as_tenant("acme")
    await asyncio.to_thread(acme.get, PODS)
    begun = time.monotonic()
    response = await asyncio.to_thread(acme.get, PODS)
    assert time.monotonic() - begun < 20.0
    assert [each["metadata"]["name"] for each in response.json["items"]] == ["here"]
