"""How a deployment's replica sets grow and shrink."""

import random
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.controllers.deployments.revisions import DESIRED, MAXIMUM, DeploymentReplicaSets
from alcove.controllers.deployments.scaling import (
    ReplicaSetScale,
    RolloutBounds,
    bounds,
    is_resized,
    new_replicas,
    replicas,
    resize,
    roll,
    total,
)


def deployment(
    size: int, surge: int | str = "25%", unavailable: int | str = "25%", kind: str = "RollingUpdate"
) -> Object:
    strategy: Object = {"type": kind}
    if kind == "RollingUpdate":
        strategy["rollingUpdate"] = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"metadata": {"name": "web"}, "spec": {"replicas": size, "strategy": strategy}}


def a_set(
    name: str, size: int, available: int | None = None, annotated: tuple[int, int] | None = None
) -> Object:
    annotations = {DESIRED: str(annotated[0]), MAXIMUM: str(annotated[1])} if annotated else {}
    return {
        "metadata": {"name": name, "creationTimestamp": name, "annotations": annotations},
        "spec": {"replicas": size},
        "status": {"availableReplicas": size if available is None else available},
    }


@pytest.mark.parametrize(
    ("size", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", RolloutBounds(3, 2)),
        (1, "25%", "25%", RolloutBounds(1, 0)),
        (10, 0, "1%", RolloutBounds(0, 1)),
        (3, 2, 5, RolloutBounds(2, 3)),
        (0, "25%", "25%", RolloutBounds(0, 0)),
    ],
)
def test_bounds(size: int, surge: Any, unavailable: Any, expected: RolloutBounds) -> None:
    assert bounds(deployment(size, surge, unavailable)) == expected


def test_a_first_set_gets_everything_and_a_later_one_the_surge() -> None:
    assert new_replicas(deployment(10), 0, 0) == 10
    assert new_replicas(deployment(10), 10, 0) == 3
    assert new_replicas(deployment(10), 13, 3) == 3


def steps(scales: list[ReplicaSetScale]) -> dict[str, int]:
    return {each.set["metadata"]["name"]: each.replicas for each in scales}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ((0, 0), (10, 10), {"new": 3}),
        ((3, 0), (10, 10), {"old": 8}),
        ((3, 3), (8, 8), {"new": 5}),
        ((5, 3), (8, 8), {"old": 5}),
        ((12, 12), (0, 0), {"new": 10}),
        ((3, 0), (10, 2), {"old": 8}),
        ((10, 10), (0, 0), {}),
    ],
)
def test_the_next_step_of_rolling(
    new: tuple[int, int], old: tuple[int, int], expected: dict[str, int]
) -> None:
    sets = DeploymentReplicaSets(a_set("new", *new), [a_set("old", *old)])
    assert steps(roll(deployment(10), sets)) == expected


@pytest.mark.parametrize("seed", range(60))
def test_rolling_ends_and_never_leaves_its_bounds(seed: int) -> None:
    """Pods come up in any order, some of the old are broken from the start."""
    chance = random.Random(seed)
    size = chance.randint(1, 20)
    surges: list[int | str] = [0, 1, 3, "25%", "100%"]
    lacks: list[int | str] = [0, 1, "30%", "100%"]
    wanted = deployment(size, chance.choice(surges), chance.choice(lacks))
    limits = bounds(wanted)
    broken = chance.randint(0, size) if chance.random() < 0.3 else 0
    sets = DeploymentReplicaSets(a_set("9-new", 0), [a_set("1-old", size, size - broken), a_set("2-old", 0)])
    assert sets.new is not None
    least = min(size - broken, size - limits.unavailable)
    for _ in range(1000):
        for each in roll(wanted, sets):
            each.set["spec"]["replicas"] = each.replicas
            status = each.set["status"]
            status["availableReplicas"] = min(status["availableReplicas"], each.replicas)
        assert total(sets.all) <= size + limits.surge
        assert sum(each["status"]["availableReplicas"] for each in sets.all) >= least
        new = sets.new["status"]
        new["availableReplicas"] += chance.randint(0, replicas(sets.new) - new["availableReplicas"])
        if total(sets.old) == 0 and replicas(sets.new) == size == new["availableReplicas"]:
            return
    raise AssertionError("the rollout does not end")


def test_a_changed_size_is_noticed_by_the_annotations_of_active_sets() -> None:
    active = a_set("a", 5, annotated=(5, 7))
    assert not is_resized(deployment(5), DeploymentReplicaSets(active, []))
    assert is_resized(deployment(6), DeploymentReplicaSets(active, []))
    assert not is_resized(deployment(6), DeploymentReplicaSets(a_set("a", 0, annotated=(5, 7)), []))


def test_a_set_alone_takes_the_whole_size() -> None:
    assert steps(resize(deployment(7), DeploymentReplicaSets(a_set("new", 5), [a_set("old", 0)]))) == {
        "new": 7
    }
    assert steps(resize(deployment(7), DeploymentReplicaSets(None, [a_set("old", 5)]))) == {"old": 7}
    assert steps(resize(deployment(7), DeploymentReplicaSets(None, []))) == {}


def test_old_sets_go_when_the_new_one_suffices() -> None:
    sets = DeploymentReplicaSets(a_set("new", 5, annotated=(5, 7)), [a_set("old", 2, annotated=(5, 7))])
    assert steps(resize(deployment(5), sets)) == {"old": 0}


@pytest.mark.parametrize(
    ("size", "new", "old", "expected"),
    [
        (20, 5, 8, {"new": 10, "old": 15}),
        (5, 5, 8, {"new": 3, "old": 4}),
        (0, 5, 8, {"new": 0, "old": 0}),
        (11, 5, 8, {"new": 5, "old": 9}),
    ],
)
def test_several_sets_grow_and_shrink_in_proportion(
    size: int, new: int, old: int, expected: dict[str, int]
) -> None:
    sets = DeploymentReplicaSets(
        a_set("new", new, annotated=(10, 13)), [a_set("old", old, annotated=(10, 13))]
    )
    wanted = deployment(size)
    scaled = steps(resize(wanted, sets))
    assert scaled == expected
    assert sum(scaled.values()) == (size + bounds(wanted).surge if size else 0)
