"""The scheduler as a process, through a real API server: what users see of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing.scheduler import PODS, LocalScheduler, add_node, create
from alcove.testing.scheduling import node
from alcove.testing.server import Caller, LocalServer, wait_until

_NUMBERS = count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """An API server with two nodes and the scheduler."""
    directory: Path = tmp_path_factory.mktemp("scheduler")
    with LocalServer(directory / "server") as server:
        server.make_namespace("system", "kube-system")
        for name in ("n1", "n2"):
            add_node(server, node(name, cpu="4"))
        with LocalScheduler(server.admin_kubeconfig, directory):
            yield server


@pytest.fixture
def admin(cluster: LocalServer) -> Iterator[Caller]:
    """A tenant's, which leaves nothing on the nodes."""
    caller = cluster.make_tenant(f"tenant-{next(_NUMBERS)}")
    yield caller
    for each in caller.get(PODS).json["items"]:
        caller.delete(f"{PODS}/{each['metadata']['name']}?gracePeriodSeconds=0")


def node_of(caller: Caller, name: str) -> str:
    return str(caller.get(f"{PODS}/{name}").json["spec"].get("nodeName", ""))


def condition(caller: Caller, name: str) -> Object:
    conditions = caller.get(f"{PODS}/{name}").json["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


def test_pods_are_bound_and_get_an_event(admin: Caller) -> None:
    create(admin, "web", cpu="1")
    wait_until(lambda: node_of(admin, "web"))
    assert condition(admin, "web")["status"] == "True"
    messages = wait_until(lambda: admin.kubectl("get", "events", "-o", "jsonpath={.items[*].message}"))
    assert messages == f"Successfully assigned default/web to {node_of(admin, 'web')}"


def test_a_pod_that_fits_nowhere_gets_the_reason_and_is_placed_when_it_fits(admin: Caller) -> None:
    create(admin, "big", cpu="4")
    create(admin, "bigger", cpu="4")
    create(admin, "late", cpu="3")
    message = wait_until(lambda: condition(admin, "late").get("message"))
    assert message == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    shown = wait_until(lambda: admin.kubectl("get", "events", "--field-selector", "reason=FailedScheduling"))
    assert "0/2 nodes are available: 2 Insufficient cpu." in shown
    admin.delete(f"{PODS}/big?gracePeriodSeconds=0")
    wait_until(lambda: node_of(admin, "late"))


def test_gates_hold_a_pod_until_they_are_removed(admin: Caller) -> None:
    create(admin, "gated", schedulingGates=[{"name": "example.com/wait"}])
    create(admin, "free")
    wait_until(lambda: node_of(admin, "free"))
    assert node_of(admin, "gated") == ""
    assert admin.patch(f"{PODS}/gated", {"spec": {"schedulingGates": None}}).status == 200
    wait_until(lambda: node_of(admin, "gated"))


def test_pods_of_another_scheduler_are_left_alone(admin: Caller) -> None:
    create(admin, "foreign", schedulerName="mine")
    create(admin, "ours")
    wait_until(lambda: node_of(admin, "ours"))
    assert node_of(admin, "foreign") == ""


def test_the_more_important_takes_the_place_of_the_less(admin: Caller) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert admin.post(classes, {"metadata": {"name": "high"}, "value": 1000}).status == 201
    create(admin, "low-1", cpu="4")
    create(admin, "low-2", cpu="4")
    wait_until(lambda: node_of(admin, "low-1") and node_of(admin, "low-2"))
    create(admin, "urgent", cpu="4", priorityClassName="high")
    nominated = wait_until(lambda: admin.get(f"{PODS}/urgent").json["status"].get("nominatedNodeName"))
    leaving = [each for each in ("low-1", "low-2") if node_of(admin, each) == nominated]
    wait_until(lambda: admin.get(f"{PODS}/{leaving[0]}").json["metadata"].get("deletionTimestamp"))
    victim = admin.get(f"{PODS}/{leaving[0]}").json
    reasons = [
        each["reason"] for each in victim["status"]["conditions"] if each["type"] == "DisruptionTarget"
    ]
    assert reasons == ["PreemptionByScheduler"]
    # No node agent runs here: what it does at the end of a pod's grace is done by hand.
    admin.delete(f"{PODS}/{leaving[0]}?gracePeriodSeconds=0")
    wait_until(lambda: node_of(admin, "urgent") == nominated)


def test_one_tenant_never_evicts_another(cluster: LocalServer, admin: Caller) -> None:
    other = cluster.make_tenant(f"other-{next(_NUMBERS)}")
    create(other, "theirs-1", cpu="4")
    create(other, "theirs-2", cpu="4")
    wait_until(lambda: node_of(other, "theirs-1") and node_of(other, "theirs-2"))
    admin.post(
        "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "max"}, "value": 1_000_000_000}
    )
    create(admin, "mine", cpu="4", priorityClassName="max")
    message = wait_until(lambda: condition(admin, "mine").get("message"))
    assert message.endswith(
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    for name in ("theirs-1", "theirs-2"):
        assert "deletionTimestamp" not in other.get(f"{PODS}/{name}").json["metadata"]
        other.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    wait_until(lambda: node_of(admin, "mine"))


def test_budgets_choose_whom_to_evict(admin: Caller) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert admin.post(classes, {"metadata": {"name": "high"}, "value": 1000}).status == 201
    create(admin, "guarded", cpu="4", labels={"app": "db"})
    create(admin, "free", cpu="4")
    wait_until(lambda: node_of(admin, "guarded") and node_of(admin, "free"))
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    # Without a controller nobody says how much may be disrupted: nothing may.
    assert admin.post(budgets, {"metadata": {"name": "db"}, "spec": spec}).status == 201
    create(admin, "urgent", cpu="4", priorityClassName="high")
    nominated = wait_until(lambda: admin.get(f"{PODS}/urgent").json["status"].get("nominatedNodeName"))
    assert nominated == node_of(admin, "free")
    assert "deletionTimestamp" not in admin.get(f"{PODS}/guarded").json["metadata"]


def test_a_sandbox_is_had_only_where_it_was_proven(cluster: LocalServer, admin: Caller) -> None:
    runtime = {"metadata": {"name": "strong"}, "handler": "runsc"}
    assert admin.post("/apis/node.k8s.io/v1/runtimeclasses", runtime).status == 201
    create(admin, "sandboxed", runtimeClassName="strong")
    message = wait_until(lambda: condition(admin, "sandboxed").get("message"))
    assert message.startswith("0/2 nodes are available: 2 node(s) didn't have the pod's runtime handler.")
    proven = {"status": {"runtimeHandlers": [{"name": "runc"}, {"name": "runsc"}]}}
    assert cluster.system.patch("/api/v1/nodes/n2/status", proven).status == 200
    wait_until(lambda: node_of(admin, "sandboxed") == "n2")


def test_what_is_guaranteed_to_one_tenant_no_other_gets(cluster: LocalServer, admin: Caller) -> None:
    name = f"guaranteed-{next(_NUMBERS)}"
    cluster.make_tenant(name)
    path = f"/api/v1/tenants/{name}"
    assert cluster.system.patch(path, {"spec": {"quota": {"min": {"requests.cpu": "6"}}}}).status == 200
    numbers = count()

    def is_guaranteed() -> bool:
        """Whether the scheduler has heard of it: what is left is less than this pod wants."""
        probe = f"probe-{next(numbers)}"
        create(admin, probe, cpu="3")
        wait_until(lambda: node_of(admin, probe) or condition(admin, probe).get("message"))
        is_placed = bool(node_of(admin, probe))
        admin.delete(f"{PODS}/{probe}?gracePeriodSeconds=0")
        return not is_placed

    wait_until(is_guaranteed)
    create(admin, "small", cpu="2")
    wait_until(lambda: node_of(admin, "small"))
    create(admin, "more", cpu="1")
    message = wait_until(lambda: condition(admin, "more").get("message"))
    assert message == "remaining cpu is guaranteed to other tenants"
    assert cluster.system.patch(path, {"spec": {"quota": None}}).status == 200
    wait_until(lambda: node_of(admin, "more"))


def test_volumes_are_chosen_with_the_node(cluster: LocalServer, admin: Caller) -> None:
    storage = "/apis/storage.k8s.io/v1/storageclasses"
    waiting = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert admin.post(storage, waiting).status == 201
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
    volume = {
        "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nfs": {"server": "disks", "path": "/mnt/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }
    assert admin.post("/api/v1/persistentvolumes", volume).status == 201
    ready = admin.patch("/api/v1/persistentvolumes/disk/status", {"status": {"phase": "Available"}})
    assert ready.status == 200
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    assert admin.post(claims, claim).status == 201
    create(admin, "db", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    taken = wait_until(lambda: admin.get("/api/v1/persistentvolumes/disk").json["spec"].get("claimRef"))
    assert (taken["namespace"], taken["name"]) == ("default", "data")
    assert node_of(admin, "db") == ""
    # What the volume controller does then.
    bound = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": "disk"},
    }
    assert admin.patch(f"{claims}/data", bound).status == 200
    wait_until(lambda: node_of(admin, "db") == "n2")


def test_pods_come_and_go_while_being_placed(admin: Caller) -> None:
    for number in range(40):
        create(admin, f"brief-{number}", cpu="10m")
        if number % 2:
            admin.delete(f"{PODS}/brief-{number}?gracePeriodSeconds=0")
    create(admin, "last", cpu="10m")
    wait_until(lambda: node_of(admin, "last"))
    wait_until(lambda: all(node_of(admin, f"brief-{number}") for number in range(0, 40, 2)))
