"""How many pods a budget lets go."""

from typing import Any

import pytest

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.disruption.budget import ExpectedPods, next_check_seconds, pending_disruptions, status

NOW = 1_700_000_000.0


def budget(status_: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "b", "generation": 2}, "spec": spec, "status": status_ or {}}


def pod(name: str, ready: bool = True, ending: bool = False) -> Object:
    metadata: Object = {"name": name} | ({"deletionTimestamp": "t"} if ending else {})
    return {
        "metadata": metadata,
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


PODS = [pod(f"p{number}") for number in range(10)]


@pytest.mark.parametrize(
    ("spec", "expected", "desired", "allowed"),
    [
        ({"minAvailable": 7}, 10, 7, 3),
        ({"minAvailable": "75%"}, 10, 8, 2),
        ({"minAvailable": 12}, 10, 12, 0),
        ({"minAvailable": 0}, 10, 0, 10),
        ({"maxUnavailable": 1}, 10, 9, 1),
        ({"maxUnavailable": "25%"}, 10, 7, 3),
        ({"maxUnavailable": "100%"}, 10, 0, 10),
        ({"maxUnavailable": 1}, 12, 11, 0),
        ({"maxUnavailable": 1}, 0, 0, 0),
    ],
)
def test_what_is_allowed(spec: Object, expected: int, desired: int, allowed: int) -> None:
    new_status = status(budget(**spec), PODS, ExpectedPods(expected), NOW)
    assert (new_status["desiredHealthy"], new_status["disruptionsAllowed"]) == (desired, allowed)
    (condition,) = new_status["conditions"]
    assert condition["reason"] == ("SufficientPods" if allowed else "InsufficientPods")


def test_only_healthy_pods_count() -> None:
    covered = [pod("a"), pod("b", ready=False), pod("c", ending=True)]
    new_status = status(budget(minAvailable=1), covered, ExpectedPods(3), NOW)
    assert (new_status["currentHealthy"], new_status["disruptionsAllowed"]) == (1, 0)


def test_an_evicted_pod_counts_as_gone_until_it_is_clear_that_it_stays() -> None:
    since = meta.format_time(NOW - 60)
    evicted = budget({"disruptedPods": {"p0": since, "gone": since}}, minAvailable=8)
    new_status = status(evicted, PODS, ExpectedPods(10), NOW)
    assert new_status["disruptedPods"] == {"p0": since} and new_status["disruptionsAllowed"] == 1
    assert next_check_seconds(new_status["disruptedPods"], NOW) == 61.0
    assert pending_disruptions(evicted, PODS, NOW + 61) == {}
    assert pending_disruptions(evicted, [pod("p0", ending=True)], NOW) == {}


def test_what_nobody_knows_allows_nothing() -> None:
    new_status = status(budget(maxUnavailable=1), PODS, ExpectedPods(0, "found no controllers"), NOW)
    assert new_status["disruptionsAllowed"] == 0
    assert new_status["conditions"][0]["reason"] == "SyncFailed"


def test_the_same_is_not_said_anew() -> None:
    one = budget(minAvailable=7)
    one["status"] = status(one, PODS, ExpectedPods(10), NOW)
    assert status(one, PODS, ExpectedPods(10), NOW + 500) == one["status"]
