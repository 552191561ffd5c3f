"""Planes and bindings: what is sent, what is answered, what is seen, and what holds meanwhile."""

from __future__ import annotations

from alcove.api.ids import SYSTEM
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.decisions import BindPod
from alcove.scheduler.events import ObjectKind
from alcove.scheduler.ledger import ANSWER_SECONDS_MAX
from alcove.scheduler.nodes import ZONE
from alcove.testing.scheduling import OTHER, TENANT, Desk, node, pod


def test_a_plane_speaks_only_for_its_tenant() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.core.add_plane(PlaneId("plane-acme"), TENANT)
    desk.see(ObjectKind.POD, pod("intruder", cpu="2", on="n"), OTHER, PlaneId("plane-acme"))
    desk.see(ObjectKind.NODE, node("fake"), SYSTEM, PlaneId("plane-acme"))
    desk.see(ObjectKind.POD, pod("nobody", cpu="2", on="n"), TENANT, PlaneId("unknown-plane"))
    desk.see(ObjectKind.POD, pod("honest", cpu="1"), TENANT, PlaneId("plane-acme"))
    assert desk.placed() == {"honest": "n"}
    assert desk.core.cache.nodes.slots.keys() == {"n"}


def test_a_tenants_uid_is_no_other_tenants_pod() -> None:
    desk = Desk(node("n", cpu="2"))
    mine = desk.pod("mine", cpu="2", on="n")
    theirs = pod("theirs", cpu="1")
    theirs["metadata"]["uid"] = mine["metadata"]["uid"]
    desk.see(ObjectKind.POD, theirs, OTHER, gone=True)
    desk.pod("p", cpu="1")
    assert desk.placed() == {}


def test_a_tenant_that_moves_planes_is_counted_once() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.core.add_plane(PlaneId("own"), TENANT)
    moving = desk.pod("moving", cpu="1", on="n")
    desk.see(ObjectKind.POD, moving, TENANT, PlaneId("own"))
    desk.see(ObjectKind.POD, moving, TENANT, HOME, gone=True)  # The old plane is emptied.
    desk.pod("p", OTHER, cpu="1")
    desk.pod("q", OTHER, cpu="1")
    assert len(desk.placed()) == 1


def test_a_tenant_whose_bindings_are_slow_leaves_room_for_others() -> None:
    """Its webhooks may take their time with every one of them."""
    desk = Desk(node("n", pods="1000"), flights_max=4)
    for number in range(10):
        desk.see(ObjectKind.POD, pod(f"slow-{number}"))
    slow = [each for each in desk.decide() if isinstance(each, BindPod)]
    assert len(slow) == 3
    for number in range(5):
        desk.see(ObjectKind.POD, pod(f"other-{number}"), OTHER)
        (decision,) = (each for each in desk.decide() if isinstance(each, BindPod))
        assert decision.pod.tenant == OTHER
        desk.core.bound(decision.pod)
    desk.core.bound(slow[0].pod)
    assert [each.pod.tenant for each in desk.decide() if isinstance(each, BindPod)] == [TENANT]


def test_a_slow_plane_holds_up_nobody_else() -> None:
    desk = Desk(node("n", pods="1000"), flights_max=4)
    desk.core.add_plane(PlaneId("slow"), TENANT)
    for number in range(20):
        desk.see(ObjectKind.POD, pod(f"s{number}"), TENANT, PlaneId("slow"))
        desk.pod(f"q{number}", OTHER)
    decisions = [each for each in desk.decide() if isinstance(each, BindPod)]
    assert sum(each.pod.plane == "slow" for each in decisions) == 4
    quick = [each for each in decisions if each.pod.plane == HOME]
    for each in quick:
        desk.core.bound(each.pod)
    total = len(quick)
    while answered := [each for each in desk.decide() if isinstance(each, BindPod)]:
        assert all(each.pod.plane == HOME for each in answered)
        total += len(answered)
        for each in answered:
            desk.core.bound(each.pod)
    assert total == 20


def test_bindings_seen_before_they_are_answered_make_room_for_more() -> None:
    desk = Desk(node("n", pods="1000"), flights_max=4)
    pods = {name: desk.pod(name) for name in (f"p{number}" for number in range(40))}
    total = 0
    while binds := [each for each in desk.decide() if isinstance(each, BindPod)]:
        assert len(binds) <= 4
        total += len(binds)
        for each in binds:
            made = pods[each.pod.name]
            desk.see(ObjectKind.POD, {**made, "spec": {**made["spec"], "nodeName": each.node}})
            desk.core.bound(each.pod)
    assert total == 40


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
    desk.see(ObjectKind.POD, made, gone=True)
    desk.core.refused(bind.pod, None)
    assert desk.placed() == {"q": "n"}


def test_a_binding_refused_because_the_pod_is_bound_elsewhere() -> None:
    desk = Desk(node("n", cpu="1"), node("m", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    assert isinstance(bind, BindPod)
    elsewhere = "m" if bind.node == "n" else "n"
    desk.core.refused(bind.pod, {**made, "spec": {**made["spec"], "nodeName": elsewhere}})
    desk.pod("q", cpu="1")
    assert desk.placed() == {"q": bind.node}


def test_no_answer_means_the_same_binding_again_and_the_place_stays_held() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    assert isinstance(bind, BindPod)
    desk.core.unanswered(bind.pod)
    desk.pod("q", OTHER, cpu="1")
    assert desk.placed() == {}
    for _ in range(3):
        desk.now += 31
        (again, *_) = desk.decide()
        assert isinstance(again, BindPod)
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
    desk.see(ObjectKind.POD, made)  # As it was before it was bound.
    desk.pod("q", cpu="1")
    assert desk.placed() == {}


def test_a_node_that_goes_with_assumed_pods_and_comes_back() -> None:
    desk = Desk(node("n", cpu="1"))
    made = desk.pod("p", cpu="1")
    (bind,) = desk.decide()
    desk.see(ObjectKind.NODE, node("n"), SYSTEM, gone=True)
    desk.core.bound(bind.pod)
    desk.see(ObjectKind.NODE, node("n", cpu="1"), SYSTEM)
    desk.pod("q", cpu="1")
    assert desk.placed() == {}
    desk.see(ObjectKind.POD, {**made, "spec": {**made["spec"], "nodeName": "n"}}, gone=True)
    assert desk.placed() == {"q": "n"}


def test_flapping_nodes() -> None:
    desk = Desk(node("steady"))
    for number in range(200):
        desk.see(ObjectKind.NODE, node("flapping", {ZONE: str(number)}), SYSTEM)
        desk.pod(f"p{number}", cpu="1m", memory="1Mi", on="flapping")
        desk.see(ObjectKind.NODE, node("flapping"), SYSTEM, gone=True)
    desk.pod("p", cpu="1")
    assert desk.placed() == {"p": "steady"}
    assert desk.core.cache.nodes.count == 1
    assert not desk.core.cache.nodes.requested[:, desk.core.cache.nodes.slots["steady"] + 1 :].any()


def test_removing_a_plane_frees_what_it_had() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.core.add_plane(PlaneId("own"), TENANT)
    record = {"metadata": {"name": "n"}, "data": {"own": '{"cpu": 1000, "pods": 1}'}}
    desk.see(ObjectKind.NOTE, record, SYSTEM)
    desk.see(ObjectKind.POD, pod("p", cpu="1", on="n"), TENANT, PlaneId("own"))
    desk.core.know_plane(PlaneId("own"))
    desk.pod("q", OTHER, cpu="1")
    assert desk.placed() == {}
    desk.see(ObjectKind.NOTE, {"metadata": {"name": "n"}, "data": {}}, SYSTEM)
    desk.core.remove_plane(PlaneId("own"))
    assert desk.placed() == {"q": "n"}
