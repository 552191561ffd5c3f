"""Tenants' shares, and what draining does to a pod: tables."""

import pytest

from alcove.api.objects import Object
from alcove.cli.drain import DrainAction, DrainOptions, fate
from alcove.cli.shares import ResourceTotals, capacity, requested, shares, used


def container(cpu: str, memory: str, **more: object) -> Object:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def pod(tenant: str, *containers: Object, phase: str = "Running", **spec: object) -> Object:
    return {
        "metadata": {"tenant": tenant, "name": "p"},
        "spec": {"containers": list(containers), **spec},
        "status": {"phase": phase},
    }


def test_containers_add_up_and_init_containers_do_not() -> None:
    small, large = container("100m", "10Mi"), container("1", "5Mi")
    assert requested(pod("a", small, small)) == ResourceTotals(200, 20 << 20, 1)
    assert requested(pod("a", small, initContainers=[large])) == ResourceTotals(1000, 10 << 20, 1)
    sidecar = container("50m", "1Mi", restartPolicy="Always")
    assert requested(pod("a", small, initContainers=[sidecar])) == ResourceTotals(150, 11 << 20, 1)
    assert requested(pod("a", small, overhead={"cpu": "5m"})).cpu_milli == 105


def test_shares_are_of_what_nodes_have_and_the_largest_is_first() -> None:
    nodes = [{"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "4"}}}] * 2
    total = capacity(nodes)
    assert total == ResourceTotals(4000, 2 << 30, 8)
    pods = [
        pod("a", container("1", "0")),
        pod("b", container("0", "1536Mi")),
        pod("b", container("4", "0"), phase="Succeeded"),
    ]
    found = shares(["a", "b", "idle"], pods, total)
    assert [(share.tenant, share.dominant) for share in found] == [("b", 0.75), ("a", 0.25), ("idle", 0.0)]


def test_what_is_used_adds_up_by_tenant() -> None:
    usage = {"cpu": "21713125n", "memory": "4520Ki"}
    items: list[Object] = [
        {"metadata": {"tenant": "a"}, "containers": [{"usage": usage}, {"usage": usage}]},
        {"metadata": {"tenant": "b"}, "containers": []},
    ]
    assert used(items) == {"a": ResourceTotals(44, 2 * 4520 * 1024)}


def test_no_nodes_is_no_division_by_zero() -> None:
    assert shares(["a"], [pod("a", container("1", "1"))], ResourceTotals())[0].dominant == 0.0


OWNED = [{"kind": "ReplicaSet", "controller": True}]
DAEMON = [{"kind": "DaemonSet", "controller": True}]


@pytest.mark.parametrize(
    ("metadata", "spec", "phase", "empty_dirs", "unmanaged", "wanted"),
    [
        ({"ownerReferences": OWNED}, {}, "Running", False, False, DrainAction.GOES),
        ({"ownerReferences": DAEMON}, {}, "Running", True, True, DrainAction.STAYS),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, {}, "Running", True, True, DrainAction.STAYS),
        ({}, {}, "Running", False, False, DrainAction.UNMANAGED),
        ({}, {}, "Running", False, True, DrainAction.GOES),
        ({}, {}, "Succeeded", False, False, DrainAction.GOES),
        (
            {"ownerReferences": OWNED},
            {"volumes": [{"emptyDir": {}}]},
            "Running",
            False,
            False,
            DrainAction.HAS_DATA,
        ),
        (
            {"ownerReferences": OWNED},
            {"volumes": [{"emptyDir": {}}]},
            "Running",
            True,
            False,
            DrainAction.GOES,
        ),
    ],
)
def test_who_goes_when_a_node_is_drained(
    metadata: Object, spec: Object, phase: str, empty_dirs: bool, unmanaged: bool, wanted: DrainAction
) -> None:
    rules = DrainOptions(empty_dirs, unmanaged, None, 1.0)
    assert fate({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, rules) is wanted
