"""How many pods a replica set makes, which it deletes, and what it says of itself."""

from typing import Any

import pytest

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.replicasets.plan import ReplicaFailure, ReplicaSetPlan, plan, status
from alcove.controllers.workloads.creation import BURST_MAX

NOW = 1_700_000_000.0
LABELS = {"app": "web"}


def made(replicas: int, **metadata: Any) -> Object:
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "generation": 3, **metadata},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": LABELS}}},
    }


def pod(
    name: str, *, node: str = "n1", phase: str = "Running", ready: float | None = 1000.0, age: float = 1000.0,
    restarts: int = 0, **metadata: Any,
) -> Object:  # fmt: skip
    """`ready` and `age` in seconds before now."""
    conditions = []
    if ready is not None:
        since = meta.format_time(NOW - ready)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return {
        "metadata": {
            "name": name, "uid": name, "labels": LABELS, "creationTimestamp": meta.format_time(NOW - age),
            **metadata,
        },
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase, "conditions": conditions, "containerStatuses": [{"restartCount": restarts}],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "there", "create"), [(3, 0, 3), (3, 2, 1), (3, 3, 0), (0, 0, 0), (2000, 0, BURST_MAX)]
)
def test_what_is_missing_is_made(wanted: int, there: int, create: int) -> None:
    owned = [pod(f"p{number}") for number in range(there)]
    assert plan(made(wanted), owned, owned, NOW) == ReplicaSetPlan(create=create)


def test_a_set_that_goes_makes_and_deletes_nothing() -> None:
    ending = made(3, deletionTimestamp=meta.format_time(NOW))
    assert plan(ending, [], [], NOW) == ReplicaSetPlan()
    assert plan(ending, [pod(f"p{number}") for number in range(5)], [], NOW) == ReplicaSetPlan()


COST = "controller.kubernetes.io/pod-deletion-cost"


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pod("a", node=""), pod("b", phase="Pending", ready=None)),
        (pod("a", phase="Pending", ready=None), pod("b", ready=None)),
        (pod("a", ready=None), pod("b", ready=10)),
        (pod("z", annotations={COST: "-5"}), pod("b")),
        (pod("z"), pod("b", annotations={COST: "10"})),
        (pod("z"), pod("b", annotations={COST: "10"}, node="n2")),
        (pod("z", node="n1"), pod("b", node="n2")),
        (pod("z", ready=10), pod("b", ready=10_000)),
        (pod("z", restarts=4), pod("b", restarts=1)),
        (pod("z", age=10), pod("b", age=10_000)),
        (pod("a", age=1000), pod("b", age=1001)),
    ],
    ids=[
        "without a node", "pending", "not ready", "low cost", "high cost stays", "cost before crowding",
        "crowded node", "ready for less", "restarted more", "younger", "about as old: by uid",
    ],
)  # fmt: skip
def test_the_one_that_is_missed_least_goes(first: Object, other: Object) -> None:
    crowd = [pod("c1", node="n1"), pod("c2", node="n1")]
    for owned in ([first, other], [other, first]):
        assert plan(made(1), owned, [*owned, *crowd], NOW).delete == (first,)


def test_an_odd_deletion_cost_counts_as_none() -> None:
    for text in ("", "+", "-", "1e3", "99999999999999999999", "٣"):
        owned = [pod("z", annotations={COST: "-1"}), pod("a", annotations={COST: text})]
        assert plan(made(1), owned, owned, NOW).delete == (owned[0],)


def test_status_counts() -> None:
    obj = made(4)
    obj["spec"]["minReadySeconds"] = 100
    owned = [pod("a"), pod("b", ready=50), pod("c", ready=None), pod("d", labels={})]
    assert status(obj, owned, None, NOW) == {
        "replicas": 4,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 2,
        "observedGeneration": 3,
    }
    assert status(obj, owned, None, NOW, 2)["terminatingReplicas"] == 2
    assert status(obj, owned, None, NOW, 0)["terminatingReplicas"] == 0


def test_a_failure_is_reported_once_and_withdrawn() -> None:
    obj = made(1)
    failed = status(obj, [], ReplicaFailure("FailedCreate", "exceeded quota"), NOW)
    (condition,) = failed["conditions"]
    assert (condition["type"], condition["status"]) == ("ReplicaFailure", "True")
    assert (condition["reason"], condition["message"]) == ("FailedCreate", "exceeded quota")
    obj["status"] = failed
    assert status(obj, [], ReplicaFailure("FailedCreate", "exceeded quota"), NOW + 60) == failed
    assert "conditions" not in status(obj, [pod("a")], None, NOW + 60)
