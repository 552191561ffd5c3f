"""Disruption budgets: whom they cover, and how preemption heeds them."""

from __future__ import annotations

import pytest

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.scheduler.decisions import Preempt
from alcove.scheduler.events import ObjectKind
from alcove.testing.scheduling import OTHER, TENANT, Desk, node, pod

WEB = {"app": "web"}


def _preempts(desk: Desk) -> tuple[str, set[str]]:
    (decision,) = desk.decide()
    assert isinstance(decision, Preempt), decision
    return decision.node, {victim.name for victim in decision.victims}


def _budget(name: str, allowed: int, selector: Object | None = None, **disrupted: str) -> Object:
    status = {"disruptionsAllowed": allowed, "disruptedPods": disrupted}
    spec = {"selector": {"matchLabels": WEB} if selector is None else selector}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


def test_budgets_protect() -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    desk.pod("guarded", on="n1", cpu="1", labels=WEB)
    desk.pod("free", on="n2", cpu="1", priority=5)
    desk.see(ObjectKind.BUDGET, _budget("b", 0))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n2", {"free"})  # Though the other's priority is lower.


def test_budgets_give_way_if_there_is_nothing_else() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.pod("guarded", on="n", cpu="1", labels=WEB)
    desk.see(ObjectKind.BUDGET, _budget("b", 0))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n", {"guarded"})


def test_within_a_node_protected_ones_stay_if_they_can() -> None:
    desk = Desk(node("n", cpu="2"))
    desk.pod("guarded", on="n", cpu="1", labels=WEB)
    desk.pod("free", on="n", cpu="1", priority=5)
    desk.see(ObjectKind.BUDGET, _budget("b", 0))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n", {"free"})


def test_a_budget_allows_what_it_allows() -> None:
    desk = Desk(node("n", cpu="2"))
    for name, started in (("w1", "2026-01-02T00:00:00Z"), ("w2", "2026-01-01T00:00:00Z")):
        running = pod(name, WEB, on="n", cpu="1")
        running["status"] = {"startTime": started}
        desk.see(ObjectKind.POD, running)
    desk.see(ObjectKind.BUDGET, _budget("b", 1))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n", {"w2"})  # The older counts first, so the younger is over the budget.


@pytest.mark.parametrize(
    ("selector", "labels", "is_protected"),
    [
        ({"matchLabels": WEB}, WEB, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, WEB, True),
        # Neither an empty selector nor one that would take them covers pods without labels.
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]}, {}, False),
        ({}, WEB, False),
        ({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}, WEB, False),
    ],
)
def test_whom_a_budget_covers(selector: Object, labels: dict[str, str], is_protected: bool) -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    desk.pod("maybe", on="n1", cpu="1", labels=labels)
    desk.pod("free", on="n2", cpu="1", labels={"app": "db"}, priority=5)
    desk.see(ObjectKind.BUDGET, _budget("b", 0, selector))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == (("n2", {"free"}) if is_protected else ("n1", {"maybe"}))


def test_evictions_that_a_budget_accounts_for_already_count_no_more() -> None:
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    desk.pod("going", on="n1", cpu="1", labels=WEB)
    desk.pod("free", on="n2", cpu="1", priority=5)
    desk.see(ObjectKind.BUDGET, _budget("b", 0, None, going="2026-01-01T00:00:00Z"))
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n1", {"going"})


def test_budgets_protect_their_own_tenants_pods_and_no_others() -> None:
    policy = {"scheduling.alcove.io/preempts-tenants": str(OTHER)}
    desk = Desk(node("n1", cpu="1"), node("n2", cpu="1"))
    desk.see(
        ObjectKind.TENANT, {"metadata": {"name": str(TENANT), "annotations": policy}, "spec": {}}, SYSTEM
    )
    desk.pod("mine", on="n1", cpu="1", labels=WEB, priority=5)
    desk.pod("theirs", OTHER, on="n2", cpu="1", labels=WEB)
    desk.see(ObjectKind.BUDGET, _budget("b", 0), OTHER)
    desk.pod("p", cpu="1", priority=10)
    assert _preempts(desk) == ("n1", {"mine"})  # The other tenant's budget guards its own pod only.
