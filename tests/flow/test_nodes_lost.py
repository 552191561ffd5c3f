"""Nodes that stop renewing their leases, and what happens to the pods of all tenants there."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from alcove.api import meta
from alcove.controllers.nodes import NodeLifecycle, TaintEviction, UnreadyPods, health, zones
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS = "/api/v1/namespaces/default/pods"
EXISTS = {"operator": "Exists", "effect": "NoExecute"}


@pytest.fixture(autouse=True)
def running(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(zones, "NODES_PER_SECOND", 20.0)
    if server.system.get("/api/v1/namespaces/kube-node-lease").status == 404:
        server.make_namespace("system", "kube-node-lease")
    _remove_nodes(server)  # Silent nodes of other tests: where most are lost, none is given up.
    with RunningControllers(server.admin_kubeconfig, (NodeLifecycle, TaintEviction, UnreadyPods)):
        yield
    _remove_nodes(server)


def _remove_nodes(server: LocalServer) -> None:
    for node in server.system.get(NODES).json["items"]:
        server.system.delete(f"{NODES}/{node['metadata']['name']}")
        server.system.delete(f"{LEASES}/{node['metadata']['name']}")


def say(ring0: Caller, name: str, ready: str = "True", **others: str) -> None:
    """What a node's agent posts of itself."""
    beat = meta.format_micro_time(time.time())
    conditions = [
        {"type": type_, "status": status, "lastHeartbeatTime": beat[:19] + "Z", "reason": "Said"}
        for type_, status in {"Ready": ready, **others}.items()
    ]
    answer = ring0.patch(f"{NODES}/{name}/status", {"status": {"conditions": conditions}})
    assert answer.status == 200, answer.body


def join(server: LocalServer, *names: str) -> None:
    for name in names:
        assert server.system.post(NODES, {"metadata": {"name": name}}).status == 201
        assert server.system.post(LEASES, {"metadata": {"name": name}}).status == 201
        renew(server.system, name)
        say(server.system, name)


def renew(ring0: Caller, name: str) -> None:
    spec = {"holderIdentity": name, "renewTime": meta.format_micro_time(time.time())}
    assert ring0.patch(f"{LEASES}/{name}", {"spec": spec}).status == 200


@contextmanager
def beating(server: LocalServer, *, by_lease: str, by_status: str) -> Iterator[None]:
    """Two nodes that report their status, each in another way."""
    over = threading.Event()
    ring0 = Caller(server.admin_kubeconfig)

    def beat() -> None:
        while not over.wait(0.2):
            renew(ring0, by_lease)
            say(ring0, by_status)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def taints(server: LocalServer, name: str) -> set[str]:
    found = server.system.get(f"{NODES}/{name}").json["spec"].get("taints") or ()
    return {f"{each['key'].removeprefix('node.kubernetes.io/')}:{each['effect']}" for each in found}


def ready(server: LocalServer, name: str) -> dict[str, Any]:
    conditions = server.system.get(f"{NODES}/{name}").json["status"]["conditions"]
    return next(each for each in conditions if each["type"] == "Ready")


def place(caller: Caller, name: str, node: str, *tolerations: dict[str, Any]) -> None:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "tolerations": list(tolerations)}
    assert caller.post(PODS, {"metadata": {"name": name}, "spec": spec}).status == 201
    condition = {"type": "Ready", "status": "True"}
    assert caller.patch(f"{PODS}/{name}/status", {"status": {"conditions": [condition]}}).status == 200


def readiness(caller: Caller, name: str) -> tuple[str, str | None]:
    conditions = caller.get(f"{PODS}/{name}").json["status"]["conditions"]
    return next((each["status"], each.get("reason")) for each in conditions if each["type"] == "Ready")


def is_leaving(caller: Caller, name: str) -> bool:
    answer = caller.get(f"{PODS}/{name}")
    return answer.status == 404 or "deletionTimestamp" in answer.json["metadata"]


def events(caller: Caller, name: str) -> set[str]:
    query = f"fieldSelector=involvedObject.name={name}"
    return {each["reason"] for each in caller.get(f"/api/v1/namespaces/default/events?{query}").json["items"]}


def test_a_node_that_falls_silent_is_lost_and_its_pods_of_all_tenants_leave(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "GRACE_SECONDS", 6.0)
    one, two = server.make_tenant("lost-one"), server.make_tenant("lost-two")
    join(server, "silent", "living", "also-living")
    with beating(server, by_lease="living", by_status="also-living"):
        for each in (one, two):
            place(each, "stays", "living")
            place(each, "goes", "silent", {**EXISTS, "tolerationSeconds": 1})
            place(each, "clings", "silent", EXISTS)
        wait_until(lambda: "unreachable:NoExecute" in taints(server, "silent"))
        check_all_left(server, one, two)


def check_all_left(server: LocalServer, one: Caller, two: Caller) -> None:
    lost = ready(server, "silent")
    assert (lost["status"], lost["reason"]) == ("Unknown", "NodeStatusUnknown")
    wait_until(lambda: taints(server, "silent") == {"unreachable:NoSchedule", "unreachable:NoExecute"})
    assert ready(server, "living")["status"] == "True" and taints(server, "living") == set()
    for each in (one, two):
        wait_until(lambda: is_leaving(each, "goes"))  # noqa: B023 - called at once
        pod = each.get(f"{PODS}/goes").json
        target = next(c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget")
        assert target["reason"] == "DeletionByTaintManager"
        wait_until(lambda: {"TaintManagerEviction", "NodeNotReady"} <= events(each, "goes"))  # noqa: B023
        assert not is_leaving(each, "stays") and not is_leaving(each, "clings")
        wait_until(lambda: readiness(each, "clings") == ("False", "NodeNotReady"))  # noqa: B023
        assert readiness(each, "stays") == ("True", None)
    wait_until(lambda: "NodeNotReady" in events(server.system, "silent"))


def test_a_node_that_is_back_is_free_of_taints_and_pods_stay(server: LocalServer, tenant: Caller) -> None:
    join(server, "shaky", "steady")
    place(tenant, "waits", "shaky", {**EXISTS, "tolerationSeconds": 600})
    say(server.system, "shaky", "False")
    wait_until(lambda: taints(server, "shaky") == {"not-ready:NoSchedule", "not-ready:NoExecute"})
    say(server.system, "shaky", "True", MemoryPressure="True")
    wait_until(lambda: taints(server, "shaky") == {"memory-pressure:NoSchedule"})
    wait_until(lambda: "TaintManagerEviction" in events(tenant, "waits"))
    assert not is_leaving(tenant, "waits")


def test_when_all_are_lost_nobody_is_given_up(server: LocalServer, tenant: Caller) -> None:
    join(server, "a", "b")
    place(tenant, "hopes", "a")
    say(server.system, "a", "False")
    wait_until(lambda: "not-ready:NoExecute" in taints(server, "a"))
    say(server.system, "b", "False")
    wait_until(lambda: taints(server, "a") == {"not-ready:NoSchedule"})
    wait_until(lambda: taints(server, "b") == {"not-ready:NoSchedule"})


def test_taints_made_by_hand_evict_as_well(server: LocalServer, tenant: Caller) -> None:
    join(server, "hand")
    place(tenant, "plain", "hand")
    place(tenant, "tough", "hand", {"key": "broken", **EXISTS})
    server.system.patch(f"{NODES}/hand", {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}})
    wait_until(lambda: is_leaving(tenant, "plain"))
    assert not is_leaving(tenant, "tough")


def test_a_cordoned_node_is_tainted_and_other_taints_stay(server: LocalServer) -> None:
    join(server, "full")
    own = {"key": "example.com/own", "value": "v", "effect": "NoSchedule"}
    server.system.patch(f"{NODES}/full", {"spec": {"unschedulable": True, "taints": [own]}})
    wait_until(lambda: taints(server, "full") == {"example.com/own:NoSchedule", "unschedulable:NoSchedule"})
    server.system.patch(f"{NODES}/full", {"spec": {"unschedulable": False}})
    wait_until(lambda: taints(server, "full") == {"example.com/own:NoSchedule"})
