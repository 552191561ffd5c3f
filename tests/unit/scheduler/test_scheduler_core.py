"""Decisions of the whole core: order, blocking and waking, what is told, planes that do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import Bind, Decision, Unschedulable
from alcove.scheduler.events import Event, Kind
from alcove.scheduler.ledger import ANSWER_SECONDS_MAX
from alcove.scheduler.nodes import ZONE
from alcove.scheduler.queue import BLOCKED_SECONDS_MAX, RETELL_SECONDS
from alcove.testing.scheduling import OTHER, TENANT, far, near, node, pod, spread, term


class Desk:
    """A core with a clock that stands still unless told otherwise."""

    def __init__(self, *nodes: Object, **options: Any) -> None:
        self.now = 1000.0
        self.core = Scheduler(lambda: self.now, **options)
        for each in nodes:
            self.see(Kind.NODE, each, SYSTEM)

    def see(
        self, kind: Kind, obj: Object, tenant: TenantId = TENANT, plane: PlaneId = HOME, gone: bool = False
    ) -> Object:
        self.core.observe(Event(plane, tenant, kind, obj, gone))
        return obj

    def pod(self, name: str, tenant: TenantId = TENANT, **spec: Any) -> Object:
        return self.see(Kind.POD, pod(name, **spec), tenant)

    def decide(self) -> list[Decision]:
        found = []
        while (decision := self.core.schedule_next()) is not None:
            found.append(decision)
        return found

    def placed(self) -> dict[str, str]:
        """Decide all there is; where pods go, by name."""
        return {each.pod.name: each.node for each in self.decide() if isinstance(each, Bind)}

    def told(self) -> dict[str, str]:
        return {each.pod.name: each.text for each in self.decide() if isinstance(each, Unschedulable)}


def test_within_a_tenant_priority_then_age() -> None:
    desk = Desk(node("n"))
    for name, priority, created in (("old", 0, "1"), ("new", 0, "2"), ("urgent", 5, "3"), ("oldest", 0, "0")):
        made = pod(name, priority=priority)
        made["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{created}Z"
        desk.see(Kind.POD, made)
    assert [each.pod.name for each in desk.decide()] == ["urgent", "oldest", "old", "new"]


def test_turns_follow_shares_and_weights() -> None:
    desk = Desk(node("n", cpu="1000", memory="4000Gi", pods="1000"))
    heavy = {"metadata": {"name": "heavy"}, "spec": {"weight": 3}}
    desk.see(Kind.TENANT, heavy, SYSTEM)
    for number in range(100):
        desk.pod(f"h{number}", TenantId("heavy"), cpu="1")
        desk.pod(f"l{number}", TenantId("light"), cpu="1")
    first = [str(decision.pod.tenant) for decision in desk.decide()[:80]]
    assert first.count("heavy") == 60


def test_identical_pods_are_blocked_together_and_each_is_told_once() -> None:
    desk = Desk(node("n", cpu="1"))
    for number in range(50):
        desk.pod(f"p{number}", cpu="600m")
    assert len(desk.placed()) == 1
    desk = Desk(node("n", cpu="1"))
    for number in range(50):
        desk.pod(f"p{number}", cpu="2")
    told = desk.told()
    assert len(told) == 50
    assert set(told.values()) == {
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
    desk.see(Kind.POD, runner, OTHER, gone=True)
    assert desk.placed() == {"small": "n"}


def _relabeled(obj: Object, **labels: str) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {**obj["metadata"]["labels"], **labels}}}


BIG = {"cpu": "3"}


@pytest.mark.parametrize(
    ("spec", "kind", "happening"),
    [
        ({"cpu": "9"}, Kind.NODE, node("n", cpu="10")),
        ({"cpu": "9"}, Kind.NODE, node("m", cpu="10")),
        ({"nodeSelector": {"disk": "ssd"}}, Kind.NODE, node("n", {"disk": "ssd"})),
        ({"nodeSelector": {"disk": "ssd"}}, Kind.NODE, node("m", {"disk": "ssd"})),
        ({"affinity": near(term({"app": "db"}))}, Kind.POD, pod("db", {"app": "db"}, on="n")),
        (
            {"runtimeClassName": "gvisor"},
            Kind.RUNTIME_CLASS,
            {"metadata": {"name": "gvisor"}, "handler": "runsc"},
        ),
    ],
)
def test_what_happens_wakes_those_it_may_help(spec: dict[str, Any], kind: Kind, happening: Object) -> None:
    desk = Desk(node("n", handlers=["runsc"]))
    desk.pod("waiting", **spec)
    desk.pod("hopeless", nodeSelector={"never": "there"})
    assert desk.placed() == {}
    desk.see(kind, happening, SYSTEM if kind is Kind.NODE else TENANT)
    assert list(desk.placed()) == ["waiting"]


def test_uncordoning_and_untainting_wake() -> None:
    desk = Desk(node("n", unschedulable=True), node("m", taints=["a=b:NoSchedule"]))
    desk.pod("p", cpu="3")
    desk.pod("q", cpu="3")
    assert desk.placed() == {}
    desk.see(Kind.NODE, node("n"), SYSTEM)
    assert desk.placed() == {"p": "n"}
    desk.see(Kind.NODE, node("m"), SYSTEM)
    assert desk.placed() == {"q": "m"}


def test_pods_that_go_wake_those_kept_away_or_uneven() -> None:
    web = {"app": "web"}
    desk = Desk(node("a", {ZONE: "a"}))
    loner = desk.pod("loner", labels=web, on="a", affinity=far(term(web)))
    desk.pod("p", labels=web)
    desk.pod("s", labels=web, topologySpreadConstraints=[spread(web, ZONE, minDomains=2)])
    assert desk.placed() == {}
    desk.see(Kind.POD, loner, gone=True)
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


def test_a_changed_reason_is_told_again_but_not_at_once() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("p", cpu="2")
    assert desk.told()["p"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    desk.see(Kind.NODE, node("m", cpu="1"), SYSTEM)
    assert desk.told() == {}
    desk.now += RETELL_SECONDS
    desk.see(Kind.NODE, node("o", cpu="1"), SYSTEM)
    assert desk.told()["p"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_gated_pods_and_those_of_other_schedulers_are_left_alone() -> None:
    desk = Desk(node("n"))
    gated = desk.pod("gated", schedulingGates=[{"name": "wait"}])
    desk.pod("foreign", schedulerName="mine")
    leaving = pod("leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    desk.see(Kind.POD, leaving)
    assert desk.decide() == []
    gated["spec"].pop("schedulingGates")
    desk.see(Kind.POD, gated)
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
    desk.see(Kind.POD, {**job, "status": {"phase": "Succeeded"}})
    assert desk.placed() == {"p": "n"}


def test_a_pod_that_changes_while_it_waits_is_judged_as_it_is_now() -> None:
    desk = Desk(node("n", taints=["a=b:NoSchedule"]))
    waiting = desk.pod("p")
    assert desk.placed() == {}
    waiting["spec"]["tolerations"] = [{"operator": "Exists"}]
    desk.see(Kind.POD, waiting)
    assert desk.placed() == {"p": "n"}


def test_a_placed_pod_that_shrinks_makes_room() -> None:
    desk = Desk(node("n", cpu="2"))
    running = pod("r", cpu="2", on="n")
    desk.see(Kind.POD, running)
    desk.pod("p", cpu="1")
    assert desk.placed() == {}
    running["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
    desk.see(Kind.POD, running)
    assert desk.placed() == {"p": "n"}


def test_ceiling_of_a_tenant_blocks_and_is_lifted() -> None:
    desk = Desk(node("n"))
    desk.see(
        Kind.TENANT,
        {"metadata": {"name": str(TENANT)}, "spec": {"quota": {"hard": {"requests.cpu": "1"}}}},
        SYSTEM,
    )
    first = desk.pod("first", cpu="1")
    desk.pod("second", cpu="1")
    decisions = desk.decide()
    assert [type(each) for each in decisions] == [Bind, Unschedulable]
    assert isinstance(decisions[1], Unschedulable)
    assert decisions[1].text == "tenant's quota of cpu is used up"
    desk.see(Kind.POD, first, gone=True)
    assert desk.placed() == {"second": "n"}


def test_a_plane_speaks_only_for_its_tenant() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.core.add_plane(PlaneId("plane-acme"), TENANT)
    desk.see(Kind.POD, pod("intruder", cpu="2", on="n"), OTHER, PlaneId("plane-acme"))
    desk.see(Kind.NODE, node("fake"), SYSTEM, PlaneId("plane-acme"))
    desk.see(Kind.POD, pod("nobody", cpu="2", on="n"), TENANT, PlaneId("unknown-plane"))
    desk.see(Kind.POD, pod("honest", cpu="1"), TENANT, PlaneId("plane-acme"))
    assert desk.placed() == {"honest": "n"}
    assert desk.core.world.nodes.slots.keys() == {"n"}


def test_a_tenants_uid_is_no_other_tenants_pod() -> None:
    desk = Desk(node("n", cpu="2"))
    mine = desk.pod("mine", cpu="2", on="n")
    theirs = pod("theirs", cpu="1")
    theirs["metadata"]["uid"] = mine["metadata"]["uid"]
    desk.see(Kind.POD, theirs, OTHER, gone=True)
    desk.pod("p", cpu="1")
    assert desk.placed() == {}


def test_a_tenant_that_moves_planes_is_counted_once() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.core.add_plane(PlaneId("own"), TENANT)
    moving = desk.pod("moving", cpu="1", on="n")
    desk.see(Kind.POD, moving, TENANT, PlaneId("own"))
    desk.see(Kind.POD, moving, TENANT, HOME, gone=True)  # The old plane is emptied.
    desk.pod("p", OTHER, cpu="1")
    desk.pod("q", OTHER, cpu="1")
    assert len(desk.placed()) == 1


def test_a_slow_plane_holds_up_nobody_else() -> None:
    desk = Desk(node("n", pods="1000"), flights_max=4)
    desk.core.add_plane(PlaneId("slow"), TENANT)
    for number in range(20):
        desk.see(Kind.POD, pod(f"s{number}"), TENANT, PlaneId("slow"))
        desk.pod(f"q{number}", OTHER)
    decisions = [each for each in desk.decide() if isinstance(each, Bind)]
    assert sum(each.pod.plane == "slow" for each in decisions) == 4
    quick = [each for each in decisions if each.pod.plane == HOME]
    for each in quick:
        desk.core.bound(each.pod)
    total = len(quick)
    while answered := [each for each in desk.decide() if isinstance(each, Bind)]:
        assert all(each.pod.plane == HOME for each in answered)
        total += len(answered)
        for each in answered:
            desk.core.bound(each.pod)
    assert total == 20


def test_bindings_seen_before_they_are_answered_make_room_for_more() -> None:
    desk = Desk(node("n", pods="1000"), flights_max=4)
    pods = {name: desk.pod(name) for name in (f"p{number}" for number in range(40))}
    total = 0
    while binds := [each for each in desk.decide() if isinstance(each, Bind)]:
        assert len(binds) <= 4
        total += len(binds)
        for each in binds:
            made = pods[each.pod.name]
            desk.see(Kind.POD, {**made, "spec": {**made["spec"], "nodeName": each.node}})
            desk.core.bound(each.pod)
    assert total == 40


def test_a_closed_plane_gets_no_decisions_until_it_opens() -> None:
    desk = Desk(node("n"))
    desk.core.set_plane_open(HOME, False)
    desk.pod("p")
    assert desk.decide() == []
    desk.core.set_plane_open(HOME, True)
    assert desk.placed() == {"p": "n"}


def test_a_refused_pod_comes_again_after_a_while() -> None:
    desk = Desk(node("n", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    desk.core.refused(bind.pod, made)
    assert desk.decide() == []
    desk.now += 1.1
    (again,) = desk.decide()
    desk.core.refused(again.pod, made)
    desk.now += 1.1
    assert desk.decide() == []
    desk.now += 1.0
    assert desk.placed() == {"p": "n"}


def test_a_pod_gone_while_being_bound_gives_back_its_place() -> None:
    desk = Desk(node("n", cpu="1"))
    made = desk.pod("p", cpu="1")
    desk.pod("q", OTHER, cpu="1")
    (bind, *_) = desk.decide()
    desk.see(Kind.POD, made, gone=True)
    desk.core.refused(bind.pod, None)
    assert desk.placed() == {"q": "n"}


def test_a_binding_refused_because_the_pod_is_bound_elsewhere() -> None:
    desk = Desk(node("n", cpu="1"), node("m", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    assert isinstance(bind, Bind)
    elsewhere = "m" if bind.node == "n" else "n"
    desk.core.refused(bind.pod, {**made, "spec": {**made["spec"], "nodeName": elsewhere}})
    desk.pod("q", cpu="1")
    assert desk.placed() == {"q": bind.node}


def test_no_answer_means_the_same_binding_again_and_the_place_stays_held() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    assert isinstance(bind, Bind)
    desk.core.unanswered(bind.pod)
    desk.pod("q", OTHER, cpu="1")
    assert desk.placed() == {}
    for _ in range(3):
        desk.now += 31
        (again, *_) = desk.decide()
        assert isinstance(again, Bind)
        assert (again.pod, again.node, again.is_repeated) == (bind.pod, "n", True)
        desk.core.unanswered(again.pod)
    desk.core.bound(bind.pod)
    desk.now += 100
    assert desk.placed() == {}


def test_a_binding_that_nobody_reports_on_is_in_doubt_in_the_end() -> None:
    desk = Desk(node("n"))
    desk.pod("p")
    (bind,) = desk.decide()
    desk.now += ANSWER_SECONDS_MAX - 1
    assert desk.decide() == []
    due = desk.core.next_due
    assert due is not None
    desk.now = due
    (again,) = desk.decide()
    assert again.pod == bind.pod


def test_news_from_before_the_binding_change_nothing() -> None:
    desk = Desk(node("n", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    desk.core.bound(bind.pod)
    desk.see(Kind.POD, made)  # As it was before it was bound.
    desk.pod("q", cpu="1")
    assert desk.placed() == {}


def test_a_node_that_goes_with_assumed_pods_and_comes_back() -> None:
    desk = Desk(node("n", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    desk.see(Kind.NODE, node("n"), SYSTEM, gone=True)
    desk.core.bound(bind.pod)
    desk.see(Kind.NODE, node("n", cpu="1"), SYSTEM)
    desk.pod("q", cpu="1")
    assert desk.placed() == {}
    desk.see(Kind.POD, {**made, "spec": {**made["spec"], "nodeName": "n"}}, gone=True)
    assert desk.placed() == {"q": "n"}


def test_flapping_nodes() -> None:
    desk = Desk(node("steady"))
    for number in range(200):
        desk.see(Kind.NODE, node("flapping", {ZONE: str(number)}), SYSTEM)
        desk.pod(f"p{number}", cpu="1m", memory="1Mi", on="flapping")
        desk.see(Kind.NODE, node("flapping"), SYSTEM, gone=True)
    desk.pod("p", cpu="1")
    assert desk.placed() == {"p": "steady"}
    assert desk.core.world.nodes.count == 1
    assert not desk.core.world.nodes.requested[:, desk.core.world.nodes.slots["steady"] + 1 :].any()


def test_removing_a_plane_frees_what_it_had() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.core.add_plane(PlaneId("own"), TENANT)
    desk.see(Kind.POD, pod("p", cpu="1", on="n"), TENANT, PlaneId("own"))
    desk.pod("q", OTHER, cpu="1")
    assert desk.placed() == {}
    desk.core.remove_plane(PlaneId("own"))
    assert desk.placed() == {"q": "n"}


def test_unschedulable_pods_of_one_tenant_do_not_hold_up_another() -> None:
    desk = Desk(node("n", cpu="100", memory="1000Gi", pods="1000"))
    for number in range(500):  # All different, so nothing is known of one from the other.
        desk.pod(f"bad{number}", cpu=f"{200 + number}")
        desk.pod(f"good{number}", OTHER, cpu="10m")
    kinds = [type(desk.core.schedule_next()) for _ in range(400)]
    # What the other tenant could have placed in as many decisions, but for a sixth.
    assert kinds.count(Bind) >= 400 * 5 / 6 - 64


def test_a_million_terms_do_not_stop_the_loop() -> None:
    desk = Desk(node("n"))
    desk.pod("monster", affinity=near(*[term({"a": "b"})] * 1_000_000))
    desk.pod("p")
    decisions = desk.decide()
    assert {type(each) for each in decisions} == {Bind, Unschedulable}
    assert any("1000000 terms" in each.text for each in decisions if isinstance(each, Unschedulable))
