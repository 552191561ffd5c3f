"""Laws of fairness: shares follow weights, nobody waits without bound, failures cost the others little."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.scheduler.fairness import (
    AGING,
    TRIES_MAX,
    TRIES_OWED_MAX,
    TRIES_PER_TURN,
    TRY_SECONDS,
    FairShareQueue,
    FirstComeQueue,
    TenantShare,
)
from alcove.scheduler.guaranteed_minimums import TenantLimits
from alcove.scheduler.resource_amounts import Amounts

CAPACITY = {"cpu": 20_000_000, "memory": 80_000_000, "pods": 550_000}
HEAD = (0, "", 1)


def _backlogged(fairness: FairShareQueue, weights: list[int]) -> list[TenantShare]:
    fairness.set_capacity(dict(CAPACITY))
    accounts = [fairness.account(TenantId(f"t{number}")) for number in range(len(weights))]
    for account, weight in zip(accounts, weights, strict=True):
        fairness.set_limits(account, TenantLimits(weight))
        fairness.set_head(account, HEAD)
    return accounts


def _turn(fairness: FairShareQueue, amounts: Amounts) -> TenantShare:
    account = fairness.next()
    assert account is not None
    fairness.charge(account, amounts)
    fairness.succeeded(account, amounts)
    return account


def _error(fairness: FairShareQueue, accounts: list[TenantShare]) -> float:
    """How far the worst tenant is from its weight, as a part of what it should have."""
    fair = [fairness.share(account) / account.limits.weight for account in accounts]
    mean = sum(fair) / len(fair)
    return max(abs(each - mean) / mean for each in fair)


_weights = st.lists(st.integers(1, 8), min_size=2, max_size=6)


@settings(max_examples=settings().max_examples // 5, deadline=None)
@given(_weights, st.integers(0, 2**32))
def test_shares_follow_weights_while_all_are_backlogged(weights: list[int], seed: int) -> None:
    random, fairness = Random(seed), FairShareQueue()
    accounts = _backlogged(fairness, weights)
    # Each tenant has its own kind of pods: some want CPU, some memory, up to a hundred times as much.
    kinds = {account: (random.randint(1, 100), random.randint(1, 100)) for account in accounts}
    for _ in range(6000):
        account = fairness.next()
        assert account is not None
        cpu, memory = kinds[account]
        amounts = {
            "cpu": random.randint(1, 10) * cpu,
            "memory": random.randint(1, 10) * 4 * memory,
            "pods": 1,
        }
        fairness.charge(account, amounts)
        fairness.succeeded(account, amounts)
    # Nobody can be nearer than the last pod was large.
    pods = [10 * max(kinds[each]) / CAPACITY["cpu"] / each.limits.weight for each in accounts]
    fair = [fairness.share(each) / each.limits.weight for each in accounts]
    assert _error(fairness, accounts) < 0.02 + max(pods) / (sum(fair) / len(fair))


@settings(max_examples=settings().max_examples // 6, deadline=None)
@given(_weights, st.integers(0, 2**32))
def test_shares_follow_weights_while_pods_come_and_go(weights: list[int], seed: int) -> None:
    random, fairness = Random(seed), FairShareQueue()
    accounts = _backlogged(fairness, weights)
    running: list[tuple[TenantShare, Amounts]] = []
    totals: Counter[TenantShare] = Counter()
    for turn in range(8000):
        amounts = {"cpu": random.randint(1, 100), "memory": random.randint(1, 400), "pods": 1}
        running.append((_turn(fairness, amounts), amounts))
        if len(running) > 3000:
            index = random.randrange(len(running))
            running[index], running[-1] = running[-1], running[index]
            account, given_back = running.pop()
            fairness.charge(account, given_back, -1)
        if turn >= 4000:
            for account in accounts:
                totals[account] += round(fairness.share(account) * 10**9)
    fair = [totals[account] / account.limits.weight for account in accounts]
    mean = sum(fair) / len(fair)
    assert max(abs(each - mean) / mean for each in fair) < 0.02


@settings(max_examples=25, deadline=None)
@given(_weights, st.integers(1, 50))
def test_no_ready_tenant_waits_without_bound(weights: list[int], larger: int) -> None:
    """Even if its share is the greatest by far, its pods the largest, and the others' share never grows."""
    fairness = FairShareQueue()
    accounts = _backlogged(fairness, weights)
    rich = accounts[0]
    fairness.charge(rich, {"cpu": CAPACITY["cpu"] // 2})
    bound = AGING * sum(weights) / rich.limits.weight * larger + len(weights) + 1
    since = 0
    for _ in range(3000):
        account = fairness.next()
        assert account is not None
        fairness.succeeded(account, {"cpu": 100 * larger if account is rich else 100})
        since = 0 if account is rich else since + 1
        assert since <= bound


@settings(max_examples=25, deadline=None)
@given(_weights)
def test_attempts_that_fail_cost_the_others_little(weights: list[int]) -> None:
    fairness = FairShareQueue()
    failing, *working = _backlogged(fairness, weights)
    turns: Counter[bool] = Counter()
    for _ in range(4000):
        account = fairness.next()
        assert account is not None
        turns[account is failing] += 1
        if account is failing:
            fairness.failed(account)
        else:
            fairness.charge(account, {"cpu": 10, "pods": 1})
            fairness.succeeded(account, {"cpu": 10, "pods": 1})
    # What it had at first, what comes back with time, and what aging gives it.
    most = TRIES_MAX + 4000 * TRIES_PER_TURN + 4000 / AGING
    assert turns[True] <= most
    assert _error(fairness, working) < 0.02


@settings(max_examples=10, deadline=None)
@given(_weights, st.sampled_from([0.002, 0.02, 0.2, 20.0]))
def test_attempts_that_take_long_are_few(weights: list[int], seconds: float) -> None:
    """Whatever one attempt costs, in the long run one tenant's failures take a part of the others' time."""
    fairness = FairShareQueue()
    failing, *_ = _backlogged(fairness, weights)
    failed, waited, longest = 0, 0, 0
    for _ in range(8_000):
        account = fairness.next()
        assert account is not None
        if account is failing:
            failed, waited = failed + 1, 0
            fairness.failed(account, seconds)
        else:
            waited += 1
            longest = max(longest, waited)
            fairness.charge(account, {"cpu": 10, "pods": 1})
            fairness.succeeded(account, {"cpu": 10, "pods": 1})
    cost = min(max(1.0, seconds / TRY_SECONDS - 1.0), TRIES_OWED_MAX)
    assert failed <= 1 + (TRIES_MAX + 8_000 * TRIES_PER_TURN) / cost
    # Nor is it forgotten: should one of its pods fit by now, its turn comes.
    assert longest <= (1 + TRIES_OWED_MAX) / TRIES_PER_TURN + AGING * sum(weights) / failing.limits.weight


def test_a_tenant_alone_may_fail_as_often_as_it_likes() -> None:
    fairness = FairShareQueue()
    (alone,) = _backlogged(fairness, [1])
    for _ in range(1000):
        assert fairness.next() is alone
        fairness.failed(alone)


def test_a_node_that_is_added_looks_at_no_tenant_and_changes_the_order_of_all() -> None:
    fairness = FairShareQueue()
    fairness.set_capacity({"cpu": 100, "memory": 1000})
    by_cpu, by_memory = (fairness.account(TenantId(name)) for name in ("a", "b"))
    for account, used in ((by_cpu, {"cpu": 10}), (by_memory, {"memory": 90})):
        fairness.set_head(account, HEAD)
        fairness.charge(account, used)
    assert fairness.next() is by_memory
    fairness.set_capacity({"cpu": 200, "memory": 1000})
    assert by_cpu not in fairness._moved, "a thousand nodes come at once"
    assert fairness.next() is by_cpu


def test_nothing_ready_nobody_next() -> None:
    fairness = FairShareQueue()
    first, second = _backlogged(fairness, [1, 1])
    fairness.set_head(first, None)
    assert fairness.next() is second
    fairness.set_head(second, None)
    assert fairness.next() is None
    fairness.set_head(first, HEAD)
    assert fairness.next() is first


def test_the_dominant_resource_counts() -> None:
    fairness = FairShareQueue()
    thinker, keeper = _backlogged(fairness, [1, 1])
    fairness.charge(thinker, {"cpu": CAPACITY["cpu"] // 10, "memory": CAPACITY["memory"] // 100})
    fairness.charge(keeper, {"cpu": CAPACITY["cpu"] // 100, "memory": CAPACITY["memory"] // 5})
    assert fairness.share(thinker) == pytest.approx(0.1)
    assert fairness.share(keeper) == pytest.approx(0.2)
    assert fairness.next() is thinker


def test_ceilings_hold_back_and_minima_go_first() -> None:
    fairness = FairShareQueue()
    poor, promised = _backlogged(fairness, [1, 1])
    fairness.set_limits(poor, TenantLimits(1, most={"cpu": 1000}))
    fairness.set_limits(promised, TenantLimits(1, least={"cpu": 5_000_000}))
    fairness.charge(promised, {"cpu": 4_000_000})
    fairness.set_head(promised, HEAD, {"cpu": 1000, "pods": 1})
    assert fairness.next() is promised  # Far greater a share, but not what it was promised.
    fairness.set_head(promised, HEAD, {"memory": 1000, "pods": 1})
    assert fairness.next() is poor  # What it was promised is not what it asks for.
    assert fairness.objection(poor, {"cpu": 1000, "pods": 1}) == ""
    fairness.charge(poor, {"cpu": 900})
    assert fairness.objection(poor, {"cpu": 101}) == "tenant's quota of cpu is exceeded"


def test_what_is_guaranteed_to_one_is_not_given_to_another() -> None:
    fairness = FairShareQueue()
    greedy, promised = _backlogged(fairness, [1, 1])
    fairness.set_limits(promised, TenantLimits(1, least={"cpu": 5_000_000}))
    assert fairness.objection(greedy, {"cpu": 15_000_000}) == ""
    fairness.charge(greedy, {"cpu": 15_000_000})
    refused = "remaining cpu is guaranteed to other tenants"
    assert fairness.objection(greedy, {"cpu": 1}) == refused
    assert fairness.objection(greedy, {"memory": 1}) == ""
    assert fairness.objection(promised, {"cpu": 5_000_000}) == ""
    fairness.charge(promised, {"cpu": 2_000_000})
    assert fairness.objection(greedy, {"cpu": 1}) == refused


def test_first_come_first_served_is_no_fairness() -> None:
    fairness = FirstComeQueue()
    greedy, late = _backlogged(fairness, [1, 1])
    fairness.set_head(greedy, (0, "2026-01-01T00:00:00Z", 1))
    fairness.set_head(late, (0, "2026-01-01T00:00:01Z", 2))
    fairness.charge(greedy, {"cpu": CAPACITY["cpu"] // 2})
    assert fairness.next() is greedy
    assert fairness.next() is greedy
