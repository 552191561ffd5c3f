"""Decisions of the whole core: order, blocking and waking, limits of tenants, reported reasons."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Unschedulable
from alcove.scheduler.events import ObjectKind
from alcove.scheduler.nodes import ZONE
from alcove.scheduler.queue import BLOCKED_SECONDS_MAX, REPORT_SECONDS_MIN
from alcove.testing.scheduling import OTHER, TENANT, Desk, far, near, node, pod, spread, term


def test_within_a_tenant_priority_then_age() -> None:
    desk = Desk(node("n"))
    for name, priority, created in (("old", 0, "1"), ("new", 0, "2"), ("urgent", 5, "3"), ("oldest", 0, "0")):
        made = pod(name, priority=priority)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{created}Z"
        desk.see(ObjectKind.POD, made)
    assert [each.pod.name for each in desk.decide()] == ["urgent", "oldest", "old", "new"]


def test_turns_follow_shares_and_weights() -> None:
    desk = Desk(node("n", cpu="1000", memory="4000Gi", pods="1000"))
    heavy = {"metadata": {"name": "heavy"}, "spec": {"weight": 3}}
    desk.see(ObjectKind.TENANT, heavy, SYSTEM)
    for number in range(100):
        desk.pod(f"h{number}", TenantId("heavy"), cpu="1")
        desk.pod(f"l{number}", TenantId("light"), cpu="1")
    first = [str(decision.pod.tenant) for decision in desk.decide()[:80]]
    assert first.count("heavy") == 60


def test_identical_pods_are_blocked_together_and_each_is_reported_once() -> None:
    desk = Desk(node("n", cpu="1"))
    for number in range(50):
        desk.pod(f"p{number}", cpu="600m")
    assert len(desk.placed()) == 1
    desk = Desk(node("n", cpu="1"))
    for number in range(50):
        desk.pod(f"p{number}", cpu="2")
    reasons = desk.unschedulable()
    assert len(reasons) == 50
    assert set(reasons.values()) == {
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    }
    assert desk.decide() == []


def test_room_wakes_those_who_fit_into_it() -> None:
    desk = Desk(node("n", cpu="2"))
    runner = desk.pod("runner", OTHER, cpu="2", on="n")
    for name, cpu in (("small", "1"), ("large", "3")):
        desk.pod(name, cpu=cpu)
    assert desk.placed() == {}
    desk.see(ObjectKind.POD, runner, OTHER, gone=True)
    assert desk.placed() == {"small": "n"}


def _relabeled(obj: Object, **labels: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**obj["metadata"]["labels"], **labels}}}


BIG = {"cpu": "3"}


@pytest.mark.parametrize(
    ("spec", "kind", "happening"),
    [
        ({"cpu": "9"}, ObjectKind.NODE, node("n", cpu="10")),
        ({"cpu": "9"}, ObjectKind.NODE, node("m", cpu="10")),
        ({"nodeSelector": {"disk": "ssd"}}, ObjectKind.NODE, node("n", {"disk": "ssd"})),
        ({"nodeSelector": {"disk": "ssd"}}, ObjectKind.NODE, node("m", {"disk": "ssd"})),
        ({"affinity": near(term({"app": "db"}))}, ObjectKind.POD, pod("db", {"app": "db"}, on="n")),
        (
            {"runtimeClassName": "gvisor"},
            ObjectKind.RUNTIME_CLASS,
            {"metadata": {"name": "gvisor"}, "handler": "runsc"},
        ),
    ],
)
def test_what_happens_wakes_those_it_may_help(
    spec: dict[str, Any], kind: ObjectKind, happening: Object
) -> None:
    desk = Desk(node("n", handlers=["runsc"]))
    desk.pod("waiting", **spec)
    desk.pod("hopeless", nodeSelector={"never": "there"})
    assert desk.placed() == {}
    desk.see(kind, happening, SYSTEM if kind is ObjectKind.NODE else TENANT)
    assert list(desk.placed()) == ["waiting"]


def test_uncordoning_and_untainting_wake() -> None:
    desk = Desk(node("n", unschedulable=True), node("m", taints=["a=b:NoSchedule"]))
    desk.pod("p", cpu="3")
    desk.pod("q", cpu="3")
    assert desk.placed() == {}
    desk.see(ObjectKind.NODE, node("n"), SYSTEM)
    assert desk.placed() == {"p": "n"}
    desk.see(ObjectKind.NODE, node("m"), SYSTEM)
    assert desk.placed() == {"q": "m"}


def test_pods_that_go_wake_those_kept_away_or_uneven() -> None:
    web = {"app": "web"}
    desk = Desk(node("a", {ZONE: "a"}))
    loner = desk.pod("loner", labels=web, on="a", affinity=far(term(web)))
    desk.pod("p", labels=web)
    desk.pod("s", labels=web, topologySpreadConstraints=[spread(web, ZONE, minDomains=2)])
    assert desk.placed() == {}
    desk.see(ObjectKind.POD, loner, gone=True)
    assert len(desk.placed()) == 1


def test_another_tenants_pods_wake_nobody_about_affinity() -> None:
    desk = Desk(node("n"))
    desk.pod("waiting", affinity=near(term({"app": "db"})))
    desk.decide()
    before = desk.core.fairness.turns
    desk.pod("db", OTHER, labels={"app": "db"}, on="n")
    assert desk.placed() == {}
    assert desk.core.fairness.turns == before + 1  # Nobody was tried.


def test_blocked_for_long_is_tried_again_whatever_happened() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("p", cpu="2")
    desk.decide()
    turns = desk.core.fairness.turns
    desk.now += BLOCKED_SECONDS_MAX + 1
    desk.decide()
    assert desk.core.fairness.turns > turns + 1


def test_a_changed_reason_is_reported_again_but_not_at_once() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("p", cpu="2")
    assert desk.unschedulable()["p"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    desk.see(ObjectKind.NODE, node("m", cpu="1"), SYSTEM)
    assert desk.unschedulable() == {}
    desk.now += REPORT_SECONDS_MIN
    desk.see(ObjectKind.NODE, node("o", cpu="1"), SYSTEM)
    assert desk.unschedulable()["p"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_gated_pods_and_those_of_other_schedulers_are_left_alone() -> None:
    desk = Desk(node("n"))
    gated = desk.pod("gated", schedulingGates=[{"name": "wait"}])
    desk.pod("foreign", schedulerName="mine")
    leaving = pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    desk.see(ObjectKind.POD, leaving)
    assert desk.decide() == []
    gated["spec"].pop("schedulingGates")
    desk.see(ObjectKind.POD, gated)
    assert desk.placed() == {"gated": "n"}


def test_foreign_pods_that_have_a_node_count() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.pod("foreign", schedulerName="mine", cpu="2", on="n")
    desk.pod("p", cpu="1")
    assert desk.placed() == {}


def test_finished_pods_give_back_what_they_had() -> None:
    desk = Desk(node("n", cpu="2"))
    job = desk.pod("job", cpu="2", on="n")
    desk.pod("p", cpu="1")
    assert desk.placed() == {}
    desk.see(ObjectKind.POD, {**job, "status": {"phase": "Succeeded"}})
    assert desk.placed() == {"p": "n"}


def test_a_pod_that_changes_while_it_waits_is_judged_as_it_is_now() -> None:
    desk = Desk(node("n", taints=["a=b:NoSchedule"]))
    waiting = desk.pod("p")
    assert desk.placed() == {}
    waiting["spec"]["tolerations"] = [{"operator": "Exists"}]
    desk.see(ObjectKind.POD, waiting)
    assert desk.placed() == {"p": "n"}


def test_a_placed_pod_that_shrinks_makes_room() -> None:
    desk = Desk(node("n", cpu="2"))
    running = pod("r", cpu="2", on="n")
    desk.see(ObjectKind.POD, running)
    desk.pod("p", cpu="1")
    assert desk.placed() == {}
    running["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    desk.see(ObjectKind.POD, running)
    assert desk.placed() == {"p": "n"}


def test_ceiling_of_a_tenant_blocks_and_is_lifted() -> None:
    desk = Desk(node("n"))
    desk.see(
        ObjectKind.TENANT,
        {"metadata": {"name": str(TENANT)}, "spec": {"quota": {"hard": {"requests.cpu": "1"}}}},
        SYSTEM,
    )
    first = desk.pod("first", cpu="1")
    desk.pod("second", cpu="1")
    decisions = desk.decide()
    assert [type(each) for each in decisions] == [BindPod, Unschedulable]
    assert isinstance(decisions[1], Unschedulable)
    assert decisions[1].text == "tenant's quota of cpu is exceeded"
    desk.see(ObjectKind.POD, first, gone=True)
    assert desk.placed() == {"second": "n"}


def test_pods_of_a_tenant_that_is_asleep_wait_until_it_wakes() -> None:
    def tenant(status: str) -> Object:
        conditions = [{"type": "Asleep", "status": status}]
        return {"metadata": {"name": str(TENANT)}, "status": {"conditions": conditions}}

    desk = Desk(node("n1", cpu="4"))
    desk.see(ObjectKind.TENANT, tenant("True"), SYSTEM)
    desk.pod("p1")
    desk.pod("p2", OTHER)
    bound, waiting = desk.decide()
    assert isinstance(bound, BindPod) and bound.pod.name == "p2"
    assert isinstance(waiting, Unschedulable) and "asleep" in waiting.text
    desk.see(ObjectKind.TENANT, tenant("False"), SYSTEM)
    assert desk.placed() == {"p1": "n1"}


def test_what_a_tenant_is_guaranteed_is_kept_for_it() -> None:
    desk = Desk(node("n", cpu="4"))
    guaranteed = {"metadata": {"name": str(OTHER)}, "spec": {"quota": {"min": {"requests.cpu": "3"}}}}
    desk.see(ObjectKind.TENANT, guaranteed, SYSTEM)
    for number in range(3):
        desk.pod(f"g{number}", cpu="1")
    decisions = desk.decide()
    assert [each.pod.name for each in decisions if isinstance(each, BindPod)] == ["g0"]
    reasons = {each.text for each in decisions if isinstance(each, Unschedulable)}
    assert reasons == {"remaining cpu is guaranteed to other tenants"}
    # Its own pods get it, and go before everybody else's, though its share is the greater already.
    desk.pod("o0", OTHER, cpu="2")
    desk.pod("o1", OTHER, cpu="1")
    assert desk.placed() == {"o0": "n", "o1": "n"}


def test_a_guarantee_that_is_lifted_wakes_those_it_held_back() -> None:
    desk = Desk(node("n", cpu="4"))
    guaranteed: Object = {"metadata": {"name": str(OTHER)}, "spec": {"quota": {"min": {"requests.cpu": "4"}}}}
    desk.see(ObjectKind.TENANT, guaranteed, SYSTEM)
    desk.pod("p", cpu="1")
    assert desk.placed() == {}
    desk.see(ObjectKind.TENANT, {**guaranteed, "spec": {}}, SYSTEM)
    assert desk.placed() == {"p": "n"}


def test_a_node_that_proves_a_handler_wakes_those_who_need_it() -> None:
    desk = Desk(node("n", handlers=["runc"]))
    desk.see(ObjectKind.RUNTIME_CLASS, {"metadata": {"name": "gvisor"}, "handler": "runsc"})
    desk.pod("p", runtimeClassName="gvisor")
    assert desk.unschedulable() == {
        "p": "0/1 nodes are available: 1 node(s) didn't have the pod's runtime handler. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    }
    desk.see(ObjectKind.NODE, node("n", handlers=["runc", "runsc"]), SYSTEM)
    assert desk.placed() == {"p": "n"}


def test_a_handler_that_nodes_do_not_try_keeps_no_pod_waiting() -> None:
    """The node says in an event that it has no such handler."""
    desk = Desk(node("n", handlers=["runc"]))
    desk.see(ObjectKind.RUNTIME_CLASS, {"metadata": {"name": "mine"}, "handler": "../../etc"})
    desk.pod("p", runtimeClassName="mine")
    assert desk.placed() == {"p": "n"}
    desk.see(ObjectKind.NODE, node("m", handlers=["kata"]), SYSTEM)
    desk.see(ObjectKind.RUNTIME_CLASS, {"metadata": {"name": "vm"}, "handler": "kata"})
    for number in range(3):
        desk.pod(f"in-vm-{number}", runtimeClassName="vm")
    assert set(desk.placed().values()) == {"m"}


def test_profiles_by_scheduler_name() -> None:
    desk = Desk(node("empty"), node("busy"))
    desk.pod("x", cpu="2", on="busy")
    desk.pod("spread", cpu="100m")
    desk.pod("packed", cpu="100m", schedulerName="packing-scheduler")
    assert desk.placed() == {"spread": "empty", "packed": "busy"}


def test_unschedulable_pods_of_one_tenant_do_not_hold_up_another() -> None:
    desk = Desk(node("n", cpu="100", memory="1000Gi", pods="1000"))
    for number in range(500):  # All different, so nothing is known of one from the other.
        desk.pod(f"bad{number}", cpu=f"{200 + number}")
        desk.pod(f"good{number}", OTHER, cpu="10m")
    kinds = [type(desk.core.schedule_next()) for _ in range(400)]
    # What the other tenant could have placed in as many decisions, but for a sixth.
    assert kinds.count(BindPod) >= 400 * 5 / 6 - 64


def test_a_million_terms_do_not_stop_the_loop() -> None:
    desk = Desk(node("n"))
    desk.pod("monster", affinity=near(*[term({"a": "b"})] * 1_000_000))
    desk.pod("p")
    decisions = desk.decide()
    assert {type(each) for each in decisions} == {BindPod, Unschedulable}
    assert any("1000000 terms" in each.text for each in decisions if isinstance(each, Unschedulable))


def test_a_call_ends_though_what_is_left_is_hard_to_judge() -> None:
    """Each look at the clock takes ten milliseconds here: an attempt, several times that."""
    desk = Desk(node("n"))
    ticks = iter(range(10**9))
    desk.core = Scheduler(lambda: next(ticks) / 100)
    desk.see(ObjectKind.NODE, node("n"), SYSTEM)
    for number in range(200):
        desk.pod(f"hard-{number}", nodeSelector={"never": str(number)})
    assert desk.core.schedule_next(may_report=False) is None
    assert desk.core.fairness.has_ready
    desk.pod("easy", OTHER)
    first = desk.core.schedule_next(may_report=False) or desk.core.schedule_next(may_report=False)
    assert isinstance(first, BindPod)
    assert first.pod.name == "easy"


@pytest.mark.parametrize(
    "attempt_seconds", [0.004, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.0, 0.03))]
)
def test_shares_follow_weights_in_a_full_cluster_where_most_attempts_fail(attempt_seconds: float) -> None:
    random, worked = Random(7), iter(range(10**9))
    desk = Desk(
        *(node(f"n{number}", cpu="50") for number in range(4)),
        work_clock=lambda: next(worked) * attempt_seconds,
    )
    weights = {TenantId("one"): 1, TenantId("three"): 3}
    running: list[tuple[TenantId, Object]] = []
    waiting: dict[str, tuple[TenantId, Object]] = {}
    for tenant, weight in weights.items():
        desk.see(ObjectKind.TENANT, {"metadata": {"name": str(tenant)}, "spec": {"weight": weight}}, SYSTEM)
        for number in range(700):
            # Of several sizes: what is left on a node fits some and not others.
            made = desk.pod(f"{tenant}-{number}", tenant, cpu=random.choice(["1", "2", "3"]))
            waiting[made["metadata"]["uid"]] = (tenant, made)
    totals: Counter[TenantId] = Counter()
    for turn in range(500):
        while (decision := desk.core.schedule_next(may_report=False)) or desk.core.fairness.has_ready:
            if isinstance(decision, BindPod):
                desk.core.bound(decision.pod)
                running.append(waiting.pop(decision.pod.uid))
        if turn >= 150:
            for tenant in weights:
                used = desk.core.fairness.account(tenant).used.get("cpu", 0)
                totals[tenant] += used
        tenant, ended = running.pop(random.randrange(len(running)))
        desk.see(ObjectKind.POD, ended, tenant, gone=True)
    assert totals[TenantId("three")] / totals[TenantId("one")] == pytest.approx(3, rel=0.06)
