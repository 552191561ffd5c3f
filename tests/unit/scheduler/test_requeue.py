"""What an event wakes: those whom it may help, and nobody else."""

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.scheduler.events import ObjectKind
from alcove.testing.scheduling import OTHER, TENANT, Desk, node


def tenant(name: str, **quota: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"quota": quota}}


def guarantee(desk: Desk, cpu: str) -> None:
    desk.see(ObjectKind.TENANT, tenant("guaranteed", min={"requests.cpu": cpu}), SYSTEM)


@pytest.mark.parametrize("others", [10, 100])
def test_a_pod_that_ends_does_not_wake_tenants_that_their_own_quota_blocks(others: int) -> None:
    desk = Desk(node("n", cpu="1000", pods="1000"))
    guarantee(desk, "1")
    for number in range(others):
        desk.see(ObjectKind.TENANT, tenant(f"t{number}", hard={"requests.cpu": "1"}), SYSTEM)
        desk.pod(f"blocked-{number}", TenantId(f"t{number}"), cpu="2")
    running = desk.pod("running", cpu="1", on="n")
    assert desk.placed() == {}
    blocked = desk.core.queue.blocked
    assert len(blocked) == others
    desk.see(ObjectKind.POD, running, gone=True)
    assert len(blocked) == others


def test_a_pod_that_ends_wakes_those_that_fit_beside_what_is_guaranteed() -> None:
    desk = Desk(node("n", cpu="10"))
    guarantee(desk, "4")
    running = [desk.pod(f"running-{number}", cpu="2", on="n") for number in range(3)]
    desk.pod("small", OTHER, cpu="2")
    desk.pod("large", OTHER, cpu="4")
    assert desk.placed() == {}
    blocked = desk.core.queue.blocked
    assert len(blocked) == 2
    desk.see(ObjectKind.POD, running[0], gone=True)
    assert len(blocked) == 1, "the large one does not fit yet"
    assert desk.placed() == {"small": "n"}
    for each in running[1:]:
        desk.see(ObjectKind.POD, each, gone=True)
    assert desk.placed() == {"large": "n"}


def test_a_pod_that_ends_wakes_its_own_tenant_and_one_with_a_guarantee() -> None:
    desk = Desk(node("n", cpu="10"))
    guarantee(desk, "4")
    desk.see(ObjectKind.TENANT, tenant(str(OTHER), min={"requests.cpu": "2"}), SYSTEM)
    desk.see(ObjectKind.TENANT, tenant(str(TENANT), hard={"requests.cpu": "4"}), SYSTEM)
    running = desk.pod("running", cpu="4", on="n")
    desk.pod("own", cpu="4")
    desk.pod("guaranteed", OTHER, cpu="3")
    assert desk.placed() == {}
    desk.see(ObjectKind.POD, running, gone=True)
    assert len(desk.core.queue.blocked) == 0
    assert desk.placed() in ({"own": "n"}, {"guaranteed": "n"})


def test_a_runtime_class_of_one_tenant_leaves_what_is_known_of_others() -> None:
    desk = Desk(node("n", cpu="10", handlers=("gvisor",)))
    desk.pod("first", cpu="1")
    assert desk.placed() == {"first": "n"}
    results = vars(desk.core.evaluator.results)["_results"]
    known = dict(results)
    assert known
    runtime_class = {"metadata": {"name": "sandboxed"}, "handler": "gvisor"}
    desk.pod("sandboxed", OTHER, cpu="1", runtimeClassName="sandboxed")
    assert desk.placed() == {}
    desk.see(ObjectKind.RUNTIME_CLASS, runtime_class, OTHER)
    assert desk.placed() == {"sandboxed": "n"}
    desk.see(ObjectKind.RUNTIME_CLASS, {**runtime_class, "handler": "other"}, OTHER)
    assert all(results[shape] is result for shape, result in known.items())
