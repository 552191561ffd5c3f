"""Whom a more important pod may evict, and where: tables after kube-scheduler 1.36, within one tenant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Decision, Preempt, Unschedulable
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.nodes import ZONE
from alcove.scheduler.object_trimming import trim_pod
from alcove.scheduler.pods import SchedulerPod
from alcove.testing.scheduling import OTHER, TENANT, asking, far, near, node, pod, spread, term

WEB = {"app": "web"}


class Desk:
    def __init__(self, *nodes: Object) -> None:
        self.now = 0.0
        self.core = Scheduler(lambda: self.now)
        for each in nodes:
            self.see(ObjectKind.NODE, each, SYSTEM)

    def see(self, kind: ObjectKind, obj: Object, tenant: TenantId = TENANT, gone: bool = False) -> Object:
        self.core.observe(SchedulerEvent(HOME, tenant, kind, obj, gone))
        return obj

    def run(self, name: str, on: str, tenant: TenantId = TENANT, started: str = "", **spec: Any) -> Object:
        made = pod(name, on=on, **spec)
        if started:
            made["status"] = {"startTime": started}
        return self.see(ObjectKind.POD, made, tenant)

    def ask(self, name: str, tenant: TenantId = TENANT, **spec: Any) -> Object:
        return self.see(ObjectKind.POD, pod(name, **spec), tenant)

    def decide(self) -> list[Decision]:
        found = []
        while (decision := self.core.schedule_next()) is not None:
            found.append(decision)
        return found

    def preempts(self) -> tuple[str, set[str]]:
        (decision,) = self.decide()
        assert isinstance(decision, Preempt), decision
        return decision.node, {victim.name for victim in decision.victims}


def test_the_least_important_go_and_as_few_as_possible() -> None:
    desk = Desk(node("n", cpu="4"))
    desk.run("a", "n", cpu="1", priority=1)
    desk.run("b", "n", cpu="1", priority=2)
    desk.run("c", "n", cpu="2", priority=3)
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts() == ("n", {"a"})


def test_a_large_pod_may_cost_several() -> None:
    desk = Desk(node("n", cpu="4"))
    for name, priority in (("a", 1), ("b", 2), ("c", 3), ("d", 4)):
        desk.run(name, "n", cpu="1", priority=priority)
    desk.ask("p", cpu="3", priority=4)
    assert desk.preempts() == ("n", {"a", "b", "c"})


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # The node whose most important victim is least important.
        ([("a", 5, "1")], [("b", 3, "1")], "n2"),
        # Equal: the smaller sum of priorities, so also fewer victims.
        ([("a", 3, "500m"), ("b", 3, "500m")], [("c", 3, "1")], "n2"),
        ([("a", 3, "500m"), ("b", 1, "500m")], [("c", 3, "500m"), ("d", 2, "500m")], "n1"),
    ],
)
def test_which_node(first: Any, second: Any, expected: str) -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    for on, pods in (("n1", first), ("n2", second)):
        for name, priority, cpu in pods:
            desk.run(name, on, cpu=cpu, priority=priority)
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts()[0] == expected


def test_among_equals_the_youngest_go() -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    desk.run("old", "n1", cpu="1", started="2026-01-01T00:00:00Z")
    desk.run("young", "n2", cpu="1", started="2026-02-01T00:00:00Z")
    desk.ask("p", cpu="1", priority=1)
    assert desk.preempts() == ("n2", {"young"})
    both = Desk(node("n", cpu="2"))
    both.run("old", "n", cpu="1", started="2026-01-01T00:00:00Z")
    both.run("young", "n", cpu="1", started="2026-02-01T00:00:00Z")
    both.ask("p", cpu="1", priority=1)
    assert both.preempts() == ("n", {"young"})


def test_a_claim_for_one_pod_only_is_taken_from_the_pod_that_has_it() -> None:
    desk = Desk(node("n1"), node("n2"))
    mode = {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"}
    meta = {"name": "c", "namespace": "default", "uid": "c"}
    desk.see(ObjectKind.CLAIM, {"metadata": meta, "spec": mode, "status": {"phase": "Bound"}})
    desk.see(ObjectKind.VOLUME, {"metadata": {"name": "v"}, "spec": {}, "status": {"phase": "Bound"}})
    mounted = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    desk.run("bystander", "n1")
    desk.run("holder", "n2", volumes=mounted)
    desk.run("neighbour", "n2")
    desk.ask("p", priority=10, volumes=mounted)
    assert desk.preempts() == ("n2", {"holder"})


def test_another_tenants_pods_are_never_victims() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.run("theirs", "n", OTHER, cpu="1", priority=-100)
    desk.ask("p", cpu="1", priority=1_000_000)
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert decision.text == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_unless_ring0_says_so() -> None:
    desk = Desk(node("n", cpu="1"))
    policy = {"scheduling.alcove.io/preempts-tenants": f"x, {OTHER}"}
    desk.see(
        ObjectKind.TENANT, {"metadata": {"name": str(TENANT), "annotations": policy}, "spec": {}}, SYSTEM
    )
    desk.run("theirs", "n", OTHER, cpu="1")
    desk.ask("p", cpu="1", priority=1)
    assert desk.preempts() == ("n", {"theirs"})
    back = Desk(node("n", cpu="1"))
    back.see(
        ObjectKind.TENANT, {"metadata": {"name": str(TENANT), "annotations": policy}, "spec": {}}, SYSTEM
    )
    back.run("mine", "n", TENANT, cpu="1")
    back.ask("p", OTHER, cpu="1", priority=1)
    assert isinstance(back.decide()[0], Unschedulable)


def test_a_tenant_that_names_itself_counts_once() -> None:
    policy = {"scheduling.alcove.io/preempts-tenants": f"{TENANT},{OTHER},{OTHER}"}
    desk = Desk(node("n", cpu="2"))
    desk.see(
        ObjectKind.TENANT, {"metadata": {"name": str(TENANT), "annotations": policy}, "spec": {}}, SYSTEM
    )
    desk.run("mine", "n", cpu="1")
    desk.run("theirs", "n", OTHER, cpu="1")
    desk.ask("p", cpu="2", priority=10)
    node_name, victims = desk.preempts()
    assert (node_name, victims) == ("n", {"mine", "theirs"})


def test_those_who_may_not_preempt_wait() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.run("low", "n", cpu="1")
    desk.ask("p", cpu="1", priority=10, preemptionPolicy="Never")
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert decision.text == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


def test_where_nobodys_leaving_helps_nobody_is_evicted() -> None:
    desk = Desk(node("small", cpu="1"), node("tainted", taints=["a=b:NoSchedule"]), node("taken", cpu="2"))
    for on in ("small", "tainted", "taken"):
        desk.run(f"low-{on}", on, cpu="1")
    desk.run("equal", "taken", cpu="1", priority=10)
    desk.ask("p", cpu="2", priority=10)
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert decision.text == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling."
    )


def test_the_preemptor_gets_the_room_once_the_victims_are_gone() -> None:
    desk = Desk(node("n", cpu="2"))
    victim = desk.run("low", "n", cpu="2")
    desk.ask("p", cpu="2", priority=10)
    assert desk.preempts() == ("n", {"low"})
    desk.ask("thief", OTHER, cpu="1")  # What is being freed is kept for the preemptor.
    assert not [each for each in desk.decide() if isinstance(each, BindPod)]
    desk.see(ObjectKind.POD, victim, gone=True)
    assert [(each.pod.name, each.node) for each in desk.decide() if isinstance(each, BindPod)] == [("p", "n")]


def test_a_preemptor_waits_for_its_victims_before_it_evicts_more() -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    victim = desk.run("a", "n1", cpu="1")
    desk.run("b", "n2", cpu="1", priority=1)
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts() == ("n1", {"a"})
    desk.see(ObjectKind.POD, _leaving(victim))
    desk.see(ObjectKind.NODE, node("n3", taints=["a=b:NoSchedule"]), SYSTEM)
    desk.now += 60
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert decision.text.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert not decision.is_denominated


def _leaving(running: Object, reason: str = "") -> Object:
    """The pod as it is being deleted: because it was evicted, or for any other reason."""
    metadata = {**running["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": reason}] if reason else []
    return trim_pod({**running, "metadata": metadata, "status": {"conditions": conditions}})


def test_a_victim_that_changes_while_it_is_evicted_is_still_waited_for() -> None:
    """It is noted on it why it goes, before it is deleted."""
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    victim = desk.run("a", "n1", cpu="1")
    desk.run("b", "n2", cpu="1", priority=1)
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts() == ("n1", {"a"})
    noted = _leaving(victim, "PreemptionByScheduler")
    del noted["metadata"]["deletionTimestamp"]
    desk.see(ObjectKind.POD, noted)
    desk.now += 60
    assert not [each for each in desk.decide() if isinstance(each, Preempt)]
    desk.see(ObjectKind.POD, noted, gone=True)
    assert [each.node for each in desk.decide() if isinstance(each, BindPod)] == ["n1"]


@pytest.mark.parametrize(
    ("reason", "is_waited_for"),
    [("PreemptionByScheduler", True), ("EvictionByEvictionAPI", False), ("", False)],
)
def test_only_those_that_were_evicted_are_waited_for(reason: str, is_waited_for: bool) -> None:
    """A scheduler that comes later knows by their conditions. Who goes for another reason may take hours."""
    desk = Desk(node("n1", cpu="2"), node("n2", cpu="2"))
    going = desk.run("going", "n1", cpu="1")
    desk.run("staying", "n1", cpu="1", priority=10)
    desk.run("low", "n2", cpu="2")
    desk.see(ObjectKind.POD, _leaving(going, reason))
    nominated = pod("p", cpu="2", priority=5)
    nominated["status"] = {"nominatedNodeName": "n1"}
    desk.see(ObjectKind.POD, nominated)
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable if is_waited_for else Preempt)
    if isinstance(decision, Preempt):
        assert (decision.node, [victim.name for victim in decision.victims]) == ("n2", ["low"])


def test_more_room_elsewhere_is_taken_and_nobody_else_evicted() -> None:
    desk = Desk(node("n1", cpu="1"))
    desk.run("a", "n1", cpu="1")
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts()[0] == "n1"
    desk.see(ObjectKind.NODE, node("n2", cpu="1"), SYSTEM)
    (decision,) = desk.decide()
    assert isinstance(decision, BindPod)
    assert decision.node == "n2"


def test_equal_preemptors_take_different_nodes() -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"), node("n3", cpu="1"))
    for number in (1, 2, 3):
        desk.run(f"low{number}", f"n{number}", cpu="1")
    for number in range(4):
        desk.ask(f"p{number}", cpu="1", priority=10)
    decisions = desk.decide()
    assert sorted(each.node for each in decisions if isinstance(each, Preempt)) == ["n1", "n2", "n3"]
    assert len([each for each in decisions if isinstance(each, Unschedulable)]) == 1


def test_the_more_important_take_over_what_is_being_freed() -> None:
    desk = Desk(node("n", cpu="1"))
    victim = desk.run("low", "n", cpu="1")
    desk.ask("middle", cpu="1", priority=5)
    desk.decide()
    desk.ask("high", cpu="1", priority=10)
    taking, giving_up = desk.decide()
    assert isinstance(taking, Preempt)
    assert (taking.pod.name, taking.node) == ("high", "n")
    assert isinstance(giving_up, Unschedulable)
    assert (giving_up.pod.name, giving_up.is_denominated) == ("middle", True)
    desk.see(ObjectKind.POD, victim, gone=True)
    assert [each.pod.name for each in desk.decide() if isinstance(each, BindPod)] == ["high"]


@pytest.mark.parametrize("priority", [5, 1000])
@pytest.mark.parametrize("is_ring0s_wish", [False, True])
def test_what_is_freed_for_a_tenant_is_kept_from_strangers(priority: int, is_ring0s_wish: bool) -> None:
    """Whatever their priority, unless ring0 says that it counts."""
    desk = Desk(node("n", cpu="2"))
    victim = desk.run("a", "n", cpu="2", priority=1)
    desk.ask("p", cpu="2", priority=10)
    assert desk.preempts() == ("n", {"a"})
    annotations = {"scheduling.alcove.io/preempts-tenants": TENANT} if is_ring0s_wish else {}
    desk.see(ObjectKind.TENANT, {"metadata": {"name": OTHER, "annotations": annotations}, "spec": {}}, SYSTEM)
    desk.ask("stranger", OTHER, cpu="2", priority=priority)
    desk.see(ObjectKind.POD, victim, gone=True)
    bound = [each.pod.name for each in desk.decide() if isinstance(each, BindPod)]
    assert bound == (["stranger"] if priority > 10 and is_ring0s_wish else ["p"])


def test_nominations_of_tenants_that_cannot_be_evicted_are_not_compared() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.run("a", "n", cpu="1")
    desk.ask("p", cpu="1", priority=10)
    assert desk.preempts() == ("n", {"a"})
    nominated = desk.core.cache.nominated_of
    assert [each.name for each in nominated[TENANT]] == ["p"]
    compared: list[str] = []

    class Watched(dict[SchedulerPod, None]):
        def __iter__(self) -> Iterator[SchedulerPod]:
            compared.extend(each.name for each in self.keys())
            return super().__iter__()

    nominated[TENANT] = Watched(nominated[TENANT])
    desk.ask("stranger", OTHER, cpu="1", priority=1000)
    assert [each.pod.name for each in desk.decide()] == ["stranger"]
    assert compared == []
    desk.ask("higher", cpu="1", priority=20)
    desk.decide()
    assert compared


def test_a_nomination_survives_a_restart() -> None:
    desk = Desk(node("n", cpu="1"))
    victim = desk.run("low", "n", cpu="1")
    nominated = pod("p", cpu="1", priority=10)
    nominated["status"] = {"nominatedNodeName": "n"}
    desk.see(ObjectKind.POD, nominated)
    desk.see(ObjectKind.POD, victim, gone=True)
    desk.ask("thief", OTHER, cpu="1", priority=10)
    assert [each.pod.name for each in desk.decide() if isinstance(each, BindPod)] == ["p"]


@pytest.mark.parametrize(
    ("victim", "asking_spec"),
    [
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
            {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
        ),
        ({"labels": WEB}, {"affinity": far(term(WEB))}),
        ({"affinity": far(term({"app": "p"}))}, {"labels": {"app": "p"}}),
        ({"labels": WEB}, {"labels": WEB, "topologySpreadConstraints": [spread(WEB, ZONE, minDomains=2)]}),
    ],
)
def test_ports_affinity_and_spread_can_be_preempted_for(victim: Any, asking_spec: Any) -> None:
    desk = Desk(node("n", {ZONE: "z"}))
    desk.run("bystander", "n", cpu="1")
    desk.run("low", "n", **victim)
    desk.ask("p", priority=10, **asking_spec)
    assert desk.preempts() == ("n", {"low"})


def test_trying_out_leaves_no_trace() -> None:
    desk = Desk(node("n", {ZONE: "z"}, cpu="2"))
    desk.run("low", "n", cpu="1", labels=WEB)
    desk.run("equal", "n", cpu="1", priority=10, affinity=far(term({"app": "p"})))
    before = desk.core.cache.nodes.requested.copy()
    desk.ask("p", labels={"app": "p"}, priority=10, affinity=far(term(WEB)))
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert (desk.core.cache.nodes.requested == before).all()
    assert [each.name for each in desk.core.cache.on_node["n"]].count("low") == 1


def test_near_pods_that_would_be_evicted_are_no_reason_to_evict_them() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.run("db", "n", cpu="1", labels={"app": "db"})
    desk.ask("p", cpu="1", priority=10, affinity=near(term({"app": "db"})))
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)


def test_a_victim_that_could_not_be_evicted_does_not_stop_the_preemptor() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.run("low", "n", cpu="1")
    desk.ask("p", cpu="1", priority=10)
    (decision,) = desk.decide()
    assert isinstance(decision, Preempt)
    desk.core.spared(decision.victims[0])
    assert desk.preempts() == ("n", {"low"})


def test_what_a_node_has_too_little_of_altogether_cannot_be_freed() -> None:
    desk = Desk(node("n", cpu="4", gpu="1"))
    desk.run("low", "n", cpu="4")
    desk.ask("p", priority=10, containers=asking(gpu="2"))
    (decision,) = desk.decide()
    assert isinstance(decision, Unschedulable)
    assert decision.text.endswith("1 Preemption is not helpful for scheduling.")


def test_where_trying_is_costly_all_nodes_are_tried_in_the_end() -> None:
    """Only on the last node does it help that somebody goes: on the others somebody stays who keeps it away."""
    loner = far(term({"app": "picky"}))
    desk = Desk(*(node(f"n{number:03}", cpu="2") for number in range(300)))
    for number in range(299):
        desk.run(f"loner-{number}", f"n{number:03}", cpu="1", priority=5, affinity=loner)
        desk.run(f"low-{number}", f"n{number:03}", cpu="1", labels={"app": "x"})
    desk.run("low", "n299", cpu="2")
    desk.ask("picky", labels={"app": "picky"}, cpu="1", priority=5, affinity=far(term({"app": "no"})))
    (decisions,) = desk.decide()
    assert isinstance(decisions, Unschedulable)
    assert "node(s) will be tried next" in decisions.text
    for _ in range(10):
        desk.now += 100
        for decision in desk.decide():
            if isinstance(decision, Preempt):
                assert (decision.node, decision.victims[0].name) == ("n299", "low")
                return
    raise AssertionError("nobody was evicted")
