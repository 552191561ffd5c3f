"""In which order a stateful set makes, deletes and updates its pods, and what is a pod's own."""

import time
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.api.validation import same
from alcove.client.resources import STATEFUL_SETS
from alcove.controllers.statefulsets import identity
from alcove.controllers.statefulsets.plan import StatefulSetPlan, StatefulSetRevisions, plan, status
from alcove.controllers.workloads import history
from alcove.controllers.workloads.creation import BURST_MAX

NOW = 1_700_000_000.0
SAME, ROLLING = StatefulSetRevisions("r1", "r1"), StatefulSetRevisions("r1", "r2")


def stateful_set(replicas: int = 3, **spec: Any) -> Object:
    labels = {"app": "db"}
    return {
        "metadata": {"name": "db", "namespace": "default", "uid": "s", "generation": 4},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            **spec,
        },
    }


def pod(ordinal: int, state: str = "ready", revision: str = "r1") -> Object:
    metadata: Object = {
        "name": f"db-{ordinal}",
        "uid": f"u{ordinal}",
        "labels": {identity.REVISION: revision},
    }
    if state == "ending":
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    ready = "True" if state in ("ready", "ending") else "False"
    phase = state if state in ("Failed", "Succeeded", "Pending") else "Running"
    return {
        "metadata": metadata,
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
    }


def steps(made: StatefulSetPlan) -> tuple[list[tuple[int, str]], list[str]]:
    return (
        [(each.ordinal, each.revision) for each in made.create],
        [each["metadata"]["name"] for each in made.delete],
    )


PARALLEL: Any = {"podManagementPolicy": "Parallel"}


@pytest.mark.parametrize(
    ("spec", "owned", "create", "delete"),
    [
        ({}, [], [0], []),
        ({}, [pod(0)], [1], []),
        ({}, [pod(0, "Pending")], [], []),
        ({}, [pod(0), pod(2)], [1], []),
        ({}, [pod(0), pod(1, "ending")], [], []),
        ({}, [pod(0, "Failed"), pod(1)], [], ["db-0"]),
        ({}, [pod(n) for n in range(5)], [], ["db-4"]),
        ({}, [*(pod(n) for n in range(4)), pod(4, "ending")], [], []),
        ({}, [pod(0, "Pending"), *(pod(n) for n in range(1, 5))], [], []),
        ({}, [*(pod(n) for n in range(4)), pod(4, "Pending")], [], ["db-4"]),
        ({}, [*(pod(n) for n in range(3)), pod(3, "Pending"), pod(4)], [], ["db-4"]),
        ({}, [*(pod(n) for n in range(3)), pod(3, "unready"), pod(4, "unready")], [], []),
        ({"replicas": 0}, [pod(n, "unready") for n in range(3)], [], []),
        ({"replicas": 0}, [pod(0, "unready")], [], ["db-0"]),
        ({"replicas": 0, **PARALLEL}, [pod(n, "unready") for n in range(2)], [], ["db-1", "db-0"]),
        (PARALLEL, [], [0, 1, 2], []),
        (PARALLEL, [pod(1, "Pending")], [0, 2], []),
        (PARALLEL, [pod(n) for n in range(5)], [], ["db-4", "db-3"]),
        ({"ordinals": {"start": 5}}, [], [5], []),
        ({"ordinals": {"start": 1}, **PARALLEL}, [pod(0), pod(1)], [2, 3], ["db-0"]),
    ],
)
def test_one_after_another_or_all_at_once(
    spec: Object, owned: list[Object], create: list[int], delete: list[str]
) -> None:
    made = steps(plan(stateful_set(**spec), owned, SAME, NOW))
    assert ([each[0] for each in made[0]], made[1]) == (create, delete)


def rolling(**spec: Any) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, **spec}}}


@pytest.mark.parametrize(
    ("spec", "owned", "delete"),
    [
        ({}, [pod(0), pod(1), pod(2)], ["db-2"]),
        ({}, [pod(0), pod(1), pod(2, revision="r2")], ["db-1"]),
        ({}, [pod(0), pod(1), pod(2, "Pending", "r2")], []),
        (rolling(partition=2), [pod(0), pod(1), pod(2, revision="r2")], []),
        (rolling(partition=9), [pod(0), pod(1), pod(2)], []),
        ({"updateStrategy": {"type": "OnDelete"}}, [pod(0), pod(1), pod(2)], []),
        (PARALLEL, [pod(0), pod(1), pod(2)], ["db-2"]),
        (PARALLEL, [pod(0), pod(1), pod(2, "Pending", "r2")], []),
        ({**PARALLEL, **rolling(maxUnavailable=2)}, [pod(0), pod(1), pod(2)], ["db-2", "db-1"]),
        ({**PARALLEL, **rolling(maxUnavailable=2)}, [pod(0), pod(1), pod(2, "Pending", "r2")], ["db-1"]),
    ],
)
def test_updates_go_from_the_highest_down(spec: Object, owned: list[Object], delete: list[str]) -> None:
    assert steps(plan(stateful_set(**spec), owned, ROLLING, NOW)) == ([], delete)


def test_pods_below_the_partition_come_back_as_they_were() -> None:
    one = stateful_set(**rolling(partition=1), **PARALLEL)
    assert steps(plan(one, [], ROLLING, NOW))[0] == [(0, "r1"), (1, "r2"), (2, "r2")]


def test_a_set_that_goes_does_nothing() -> None:
    one = stateful_set()
    one["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert plan(one, [], SAME, NOW) == StatefulSetPlan()


def test_status_counts_and_ends_an_update() -> None:
    one = stateful_set()
    new_status = status(one, [pod(0), pod(1), pod(2, revision="r2")], ROLLING, NOW)
    assert (new_status["currentReplicas"], new_status["updatedReplicas"], new_status["readyReplicas"]) == (
        2,
        1,
        3,
    )
    assert (new_status["currentRevision"], new_status["updateRevision"]) == ("r1", "r2")
    done = status(one, [pod(n, revision="r2") for n in range(3)], ROLLING, NOW)
    assert done["currentRevision"] == "r2" and done["currentReplicas"] == 3


@pytest.mark.parametrize(
    ("name", "ordinal"), [("db-0", 0), ("db-17", 17), ("db-01", None), ("db", None), ("other-1", None), ("db-x", None)]
)  # fmt: skip
def test_ordinals_are_read_off_names(name: str, ordinal: int | None) -> None:
    assert identity.ordinal_of(stateful_set(), name) == ordinal


CLAIMS = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]


def test_a_pod_has_its_name_and_its_claims() -> None:
    one = stateful_set(volumeClaimTemplates=CLAIMS)
    made = identity.pod(one, one["spec"]["template"], "r1", 2)
    assert made["metadata"]["name"] == made["spec"]["hostname"] == "db-2"
    assert made["spec"]["subdomain"] == "db" and made["metadata"]["labels"][identity.REVISION] == "r1"
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-2"}}]
    assert "volumes" not in one["spec"]["template"]["spec"], "the template is not changed"
    (claim,) = identity.claims(one, 2)
    assert claim["metadata"]["name"] == "data-db-2" and claim["metadata"]["labels"] == {"app": "db"}
    assert "ownerReferences" not in claim["metadata"]


def test_claims_go_with_whom_the_policy_says() -> None:
    def policy(deleted: str, scaled: str) -> Object:
        return stateful_set(
            persistentVolumeClaimRetentionPolicy={"whenDeleted": deleted, "whenScaled": scaled}
        )

    def owners(of: Object, condemned: Object | None) -> list[str]:
        there = [{"kind": "Other", "uid": "o"}, {"kind": "Pod", "name": "db-4", "uid": "old"}]
        return [each["kind"] for each in identity.claim_owners(of, condemned, there)]

    assert owners(policy("Retain", "Retain"), pod(4)) == ["Other"]
    assert owners(policy("Delete", "Retain"), pod(4)) == ["Other", "StatefulSet"]
    assert owners(policy("Delete", "Delete"), pod(4)) == ["Other", "Pod"]
    assert owners(policy("Retain", "Delete"), None) == ["Other"]


def test_revisions_are_found_again_numbered_and_forgotten() -> None:
    one = stateful_set(revisionHistoryLimit=1)
    made = history.new_revision(STATEFUL_SETS, one, 1)
    assert history.same_as(one, [made]) is made
    assert same(history.template_of(made), one["spec"]["template"])
    changed = stateful_set()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "v2"
    assert history.same_as(changed, [made]) is None and history.next_number([made]) == 2
    revisions = [{"metadata": {"name": f"r{n}"}, "revision": n} for n in range(1, 5)]
    assert [each["metadata"]["name"] for each in history.beyond_history_limit(one, revisions, {"r1"})] == [
        "r2",
        "r3",
    ]


@pytest.mark.parametrize("owned", [[], [pod(0), pod(1), pod(700)]], ids=["new", "begun"])
@pytest.mark.parametrize("policy", ["Parallel", "OrderedReady"])
def test_two_billion_replicas_take_no_time(policy: str, owned: list[Object]) -> None:
    """The controllers of all tenants stood still for hours."""
    wanted = stateful_set(2**31 - 1, podManagementPolicy=policy)
    wanted["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}
    began = time.thread_time()
    made = plan(wanted, owned, StatefulSetRevisions("r1", "r2"), 100.0)
    status(wanted, owned, StatefulSetRevisions("r1", "r2"), 100.0)
    assert time.thread_time() - began < 1.0
    assert len(made.create) == (BURST_MAX + 1 if policy == "Parallel" else 1)
