"""Laws of guaranteed minima: promises that can be held are held, and no promise stops the others.

Tenants of random weights, ceilings and minima share a cluster of random capacity; the minima are often
more than the cluster has, each or together.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.scheduler.decisions import BindPod
from alcove.scheduler.events import ObjectKind
from alcove.scheduler.fairness import FairShareQueue, TenantShare
from alcove.scheduler.guaranteed_minimums import GUARANTEED_FRACTION, TenantLimits, hold
from alcove.scheduler.resource_amounts import AMOUNT_MAX
from alcove.testing.scheduling import OTHER, TENANT, Desk, node

CPU = "cpu"
ONE = {CPU: 1, "pods": 1}
HEAD = (0, "", 1)

_amount = st.one_of(st.integers(0, 60), st.integers(0, 400), st.just(AMOUNT_MAX))
_limits = st.builds(
    lambda weight, most, least: TenantLimits(
        weight, {} if most is None else {CPU: most}, {} if least is None else {CPU: least}
    ),
    st.integers(1, 8),
    st.none() | st.integers(1, 200),
    st.none() | _amount,
)
_tenants = st.lists(_limits, min_size=1, max_size=6)
_capacity = st.integers(10, 300)


def _promised(limits: TenantLimits) -> int:
    least = limits.least.get(CPU, 0)
    return min(least, limits.most.get(CPU, least))


@settings(max_examples=3 * settings().max_examples)
@given(_tenants, _capacity)
def test_minima_are_held_in_full_or_in_proportion(tenants: list[TenantLimits], capacity: int) -> None:
    most = int(capacity * GUARANTEED_FRACTION)
    promised = [_promised(each) for each in tenants]
    minima = hold(tenants, {CPU: capacity})
    due = [each.due.get(CPU, 0) for each in minima]
    kept = [each.kept.get(CPU, 0) for each in minima]
    if sum(promised) <= most:
        assert due == kept == promised
        return
    assert most - len(tenants) <= sum(due) <= most
    # What was promised too much is not kept: rounding takes less than one off each.
    assert max(0, 2 * most - sum(promised)) - len(tenants) <= sum(kept) <= max(0, 2 * most - sum(promised))
    counted = [min(each, most) for each in promised]
    for one, mine in zip(counted, due, strict=True):
        assert mine <= one * most / sum(counted) < mine + 1


def _cluster(tenants: list[TenantLimits], capacity: int) -> tuple[FairShareQueue, list[TenantShare]]:
    fairness = FairShareQueue()
    fairness.set_capacity({CPU: capacity, "pods": 10**6})
    accounts = [fairness.account(TenantId(f"t{number}")) for number in range(len(tenants))]
    for account, limits in zip(accounts, tenants, strict=True):
        fairness.set_limits(account, limits)
    return fairness, accounts


def _fill(fairness: FairShareQueue, account: TenantShare, used: Counter[TenantShare], capacity: int) -> None:
    """Place the tenant's pods, each of one CPU, until there is an objection or no room."""
    while used.total() < capacity and not fairness.objection(account, ONE):
        fairness.charge(account, ONE)
        used[account] += 1


@settings(max_examples=2 * settings().max_examples)
@given(_tenants, _capacity, st.randoms(use_true_random=False))
def test_what_is_kept_is_there_whenever_its_tenant_comes(
    tenants: list[TenantLimits], capacity: int, random: Random
) -> None:
    fairness, accounts = _cluster(tenants, capacity)
    used: Counter[TenantShare] = Counter()
    for _ in range(10 * len(tenants)):
        account = random.choice(accounts)
        _fill(fairness, account, used, capacity)
        kept = account.minimum.kept.get(CPU, 0)
        assert used[account] >= kept
        for _ in range(random.randint(0, used[account])):
            fairness.charge(account, ONE, -1)
            used[account] -= 1
    for account, limits in zip(accounts, tenants, strict=True):
        assert used[account] <= limits.most.get(CPU, capacity)


@settings(max_examples=2 * settings().max_examples)
@given(_tenants, _capacity)
def test_tenants_that_use_nothing_stop_nobody(tenants: list[TenantLimits], capacity: int) -> None:
    """Beside idle tenants, one without limits gets what was not promised, or what was promised too much;
    and always a tenth."""
    fairness, accounts = _cluster([*tenants, TenantLimits()], capacity)
    used: Counter[TenantShare] = Counter()
    _fill(fairness, accounts[-1], used, capacity)
    most, promised = int(capacity * GUARANTEED_FRACTION), sum(_promised(each) for each in tenants)
    assert used.total() >= capacity - most
    assert used.total() >= capacity - most + min(most, abs(most - promised))


@settings(max_examples=40, deadline=None)
@given(st.lists(_limits, min_size=2, max_size=6), st.integers(60, 120), st.integers(0, 2**32))
def test_nobody_starves_in_a_full_cluster_whatever_was_promised(
    tenants: list[TenantLimits], capacity: int, seed: int
) -> None:
    """Everybody always has pods in line, and pods end at random: each tenant below what it is due gets
    it, and each goes on being served."""
    random = Random(seed)
    fairness, accounts = _cluster(tenants, capacity)
    running: list[TenantShare] = []
    placed: Counter[TenantShare] = Counter()
    for turn in range(20 * capacity):
        for account in accounts:
            fairness.set_head(account, HEAD, ONE)
        while len(running) < capacity and (chosen := fairness.next()) is not None:
            if fairness.objection(chosen, ONE):
                fairness.failed(chosen, is_again=True)
                fairness.set_head(chosen, None)
                continue
            fairness.charge(chosen, ONE)
            fairness.succeeded(chosen, ONE)
            running.append(chosen)
            placed[chosen] += turn > 10 * capacity
        if turn == capacity:
            for account in accounts:
                # Less what went since: nobody waits without end, even for those that come first.
                assert account.used.get(CPU, 0) >= account.minimum.due.get(CPU, 0) - len(tenants)
        index = random.randrange(len(running))
        running[index], running[-1] = running[-1], running[index]
        fairness.charge(running.pop(), ONE, -1)
    assert all(placed[account] for account in accounts)


def _guarantee(tenant: TenantId, **least: str) -> Object:
    return {"metadata": {"name": str(tenant)}, "spec": {"quota": {"min": least}}}


@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("has_pods", [False, True])
def test_a_minimum_above_capacity_stops_nobody(others: int, has_pods: bool) -> None:
    """Neither that of one tenant nor those of several together, though their pods fit nowhere."""
    desk = Desk(node("n", cpu="4"))
    for number in range(others):
        tenant = TenantId(f"promised-{number}")
        desk.see(ObjectKind.TENANT, _guarantee(tenant, cpu=str(1000 if others == 1 else 4)), SYSTEM)
        if has_pods:
            desk.pod(f"huge-{number}", tenant, cpu="500")
    desk.pod("p", cpu="1")
    assert desk.placed() == {"p": "n"}


def test_a_minimum_above_the_tenants_own_ceiling_keeps_no_more_than_that() -> None:
    desk = Desk(node("n", cpu="4"))
    limited = _guarantee(OTHER, cpu="3")
    limited["spec"]["quota"]["hard"] = {"cpu": "1"}
    desk.see(ObjectKind.TENANT, limited, SYSTEM)
    for number in range(4):
        desk.pod(f"p{number}", cpu="1")
    assert len(desk.placed()) == 3


def test_a_minimum_of_what_no_node_has_stops_nobody_and_is_not_the_reason() -> None:
    desk = Desk(node("n", cpu="4"))
    desk.see(ObjectKind.TENANT, _guarantee(OTHER, **{"example.com/gpu": "8"}), SYSTEM)
    desk.pod("p", containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}])
    desk.pod("q", cpu="4")
    assert desk.placed() == {"q": "n"}
    desk.pod("r", containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}])
    assert "Insufficient example.com/gpu" in desk.unschedulable()["r"]


def test_a_minimum_is_no_precedence_for_pods_that_do_not_ask_for_it() -> None:
    desk = Desk(node("n", cpu="4"))
    desk.see(ObjectKind.TENANT, _guarantee(OTHER, cpu="3"), SYSTEM)
    for number in range(20):
        desk.pod(f"idle-{number}", OTHER)
        desk.pod(f"p{number}")
    order = list(desk.placed())
    assert sum(name.startswith("p") for name in order[:20]) == 10


@pytest.mark.parametrize("least", ["50", "1000"])
def test_a_tenant_below_its_minimum_whose_pods_fit_nowhere_holds_up_nobody(least: str) -> None:
    desk = Desk(node("n", cpu="100", memory="1000Gi", pods="1000"))
    desk.see(ObjectKind.TENANT, _guarantee(OTHER, cpu=least), SYSTEM)
    for number in range(500):  # All different, so nothing is known of one from the other.
        desk.pod(f"bad{number}", OTHER, cpu=f"{200 + number}")
        desk.pod(f"good{number}", cpu="10m")
    decisions = [desk.core.schedule_next() for _ in range(400)]
    placed = sum(isinstance(each, BindPod) for each in decisions)
    # What the other tenant could have placed in as many decisions, but for a sixth.
    assert placed >= 400 * 5 / 6 - 64


class _Cluster:
    """Nodes that come and go, tenants whose limits change, pods of one CPU each."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.nodes: list[Object] = []
        self.running: list[tuple[TenantId, Object]] = []
        self.waiting: dict[str, tuple[TenantId, Object]] = {}

    def do(self, action: str, tenant: TenantId, number: int) -> None:
        match action:
            case "node":
                self.nodes.append(node(f"n{len(self.nodes)}", cpu=str(1 + number % 8)))
                self.desk.see(ObjectKind.NODE, self.nodes[-1], SYSTEM)
            case "no node" if self.nodes:
                self.desk.see(ObjectKind.NODE, self.nodes.pop(number % len(self.nodes)), SYSTEM, gone=True)
            case "pods":
                for _ in range(number):
                    made = self.desk.pod("p", tenant, cpu="1")
                    self.waiting[made["metadata"]["uid"]] = (tenant, made)
            case "end" if self.running:
                whose, made = self.running.pop(number % len(self.running))
                self.desk.see(ObjectKind.POD, made, whose, gone=True)
            case "minimum":
                self.desk.see(ObjectKind.TENANT, _guarantee(tenant, cpu=str(number)), SYSTEM)
            case "ceiling":
                limited = _guarantee(tenant, cpu="2")
                limited["spec"]["quota"]["hard"] = {"cpu": str(number)}
                self.desk.see(ObjectKind.TENANT, limited, SYSTEM)
        for decision in self.desk.decide():
            if isinstance(decision, BindPod):
                self.desk.core.bound(decision.pod)
                self.running.append(self.waiting.pop(decision.pod.uid))

    def check(self) -> None:
        """Whoever waits has a reason to: no room, or an objection."""
        nodes, fairness = self.desk.core.cache.nodes, self.desk.core.fairness
        free = nodes.allocatable[0] - nodes.requested[0]
        if bool((free >= 1000).any()):
            for tenant in {tenant for tenant, _ in self.waiting.values()}:
                assert fairness.objection(fairness.account(tenant), {CPU: 1000, "pods": 1})


_actions = st.sampled_from(["node", "no node", "pods", "pods", "end", "end", "minimum", "ceiling"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_actions, st.integers(0, 2), st.integers(0, 30)), max_size=40))
def test_whoever_waits_has_a_reason_to(actions: list[tuple[str, int, int]]) -> None:
    cluster = _Cluster()
    for action, tenant, number in actions:
        cluster.do(action, TenantId(f"t{tenant}"), number)
        cluster.check()


def test_a_promise_taken_back_just_before_nodes_change_is_forgotten() -> None:
    fairness, (promised, other) = _cluster([TenantLimits(least={CPU: 8}), TenantLimits()], 10)
    assert fairness.objection(other, {CPU: 5})
    fairness.set_limits(promised, TenantLimits())
    fairness.set_capacity({CPU: 11, "pods": 10**6})
    assert not fairness.objection(other, {CPU: 5})


def test_more_nodes_wake_those_that_minima_held_back() -> None:
    desk = Desk(node("n", cpu="4"))
    desk.see(ObjectKind.TENANT, _guarantee(OTHER, cpu="3"), SYSTEM)
    desk.pod("first", cpu="1")
    desk.pod("second", TENANT, cpu="1")
    assert desk.placed() == {"first": "n"}
    desk.see(ObjectKind.NODE, node("m", cpu="2"), SYSTEM)
    assert set(desk.placed()) == {"second"}


def test_fewer_nodes_wake_those_for_whom_less_is_kept() -> None:
    """More is promised than there is: what is kept shrinks by twice what goes."""
    nodes = [node(f"n{number}", cpu="10") for number in range(4)]
    desk = Desk(*nodes)
    desk.see(ObjectKind.TENANT, _guarantee(OTHER, cpu="40"), SYSTEM)
    for number in range(9):
        desk.pod(f"p{number}", cpu="1", nodeSelector={"kubernetes.io/hostname": "n0"})
    assert len(desk.placed()) == 8
    desk.see(ObjectKind.NODE, nodes[3], SYSTEM, gone=True)
    assert len(desk.placed()) == 1


def test_fewer_nodes_hold_minima_in_proportion() -> None:
    nodes = [node(f"n{number}", cpu="10") for number in range(10)]
    desk = Desk(*nodes)
    small, large = TenantId("small"), TenantId("large")
    desk.see(ObjectKind.TENANT, _guarantee(small, cpu="15"), SYSTEM)
    desk.see(ObjectKind.TENANT, _guarantee(large, cpu="45"), SYSTEM)
    for gone in nodes[5:]:
        desk.see(ObjectKind.NODE, gone, SYSTEM, gone=True)
    desk.decide()
    for number in range(50):
        desk.pod(f"small-{number}", small, cpu="1")
        desk.pod(f"large-{number}", large, cpu="1")
    placed = Counter(name.split("-")[0] for name in list(desk.placed())[:44])
    # Of 50 CPUs 45 can be promised: one part of four to the one, three to the other.
    assert placed == {"small": 11, "large": 33}
