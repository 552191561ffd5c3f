"""What a job does with its pods: how many run, what is counted, when it ends."""

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.jobs import accounting, completion, completion_indexes, plan, status
from alcove.controllers.jobs.controller import tracked_job
from alcove.controllers.jobs.failures import FailureAction, evaluate_failure, wait_seconds
from alcove.controllers.jobs.finalizers import is_orphan

NOW = 1_700_000_000.0


def job(**spec: Any) -> Object:
    whole = {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": {"metadata": {}, "spec": {}}}
    return {
        "metadata": {"name": "sum", "namespace": "default", "uid": "j"},
        "spec": {**whole, **spec},
        "status": {"startTime": meta.format_time(NOW - 100)},
    }


def pod(
    name: str, phase: str = "Running", *, tracked: bool = True, index: int | None = None, ended: float = 1000.0,
    failures: int = 0, **status_: Any,
) -> Object:  # fmt: skip
    metadata: Object = {"name": name, "namespace": "default", "uid": name}
    metadata["creationTimestamp"] = meta.format_time(NOW - 2000)
    if tracked:
        metadata["finalizers"] = [accounting.FINALIZER]
    if index is not None:
        metadata["annotations"] = {
            completion_indexes.INDEX: str(index),
            completion_indexes.FAILURES: str(failures),
        }
    pod_status: Object = {"phase": phase, **status_}
    if phase in ("Succeeded", "Failed"):
        terminated = {"exitCode": int(phase == "Failed"), "finishedAt": meta.format_time(NOW - ended)}
        pod_status.setdefault("containerStatuses", [{"name": "c", "state": {"terminated": terminated}}])
    return {"metadata": metadata, "spec": {}, "status": pod_status}


def planned(obj: Object, *owned: Object) -> plan.JobPlan:
    return plan.plan(obj, owned, accounting.account(obj, owned), NOW)


@pytest.mark.parametrize(
    ("spec", "owned", "create", "delete"),
    [
        ({}, [], 1, 0),
        ({"parallelism": 3, "completions": 5}, [], 3, 0),
        ({"parallelism": 3, "completions": 5}, [pod("a", "Succeeded")] * 1, 3, 0),
        ({"parallelism": 3, "completions": 2}, [pod("a", "Succeeded"), pod("b")], 0, 0),
        ({"parallelism": 1, "completions": 5}, [pod("a"), pod("b")], 0, 1),
        ({"parallelism": 0, "completions": 5}, [pod("a")], 0, 1),
        ({"parallelism": 3, "completions": None}, [], 3, 0),
        ({"parallelism": 3, "completions": None}, [pod("a", "Succeeded"), pod("b")], 0, 0),
    ],
)
def test_how_many_pods_run(spec: Object, owned: list[Object], create: int, delete: int) -> None:
    made = planned(job(**spec), *owned)
    assert (len(made.create), len(made.delete)) == (create, delete)


def test_after_a_failure_a_job_waits_longer_each_time() -> None:
    for number, waits in ((1, 10.0), (2, 20.0), (3, 40.0), (12, 600.0)):
        failed = [pod(f"f{at}", "Failed", ended=1.0) for at in range(number)]
        assert wait_seconds(failed, (), NOW) == pytest.approx(waits - 1.0)
    assert wait_seconds([pod("f", "Failed", ended=5.0)], [pod("s", "Succeeded", ended=1.0)], NOW) == 0
    soon = planned(job(), pod("a", "Failed", ended=4.0))
    assert not soon.create and soon.after_seconds == pytest.approx(6.0)
    assert len(planned(job(), pod("a", "Failed", ended=60.0)).create) == 1


def test_a_pod_stays_what_it_was_noted_as() -> None:
    """One that was being deleted counts as failed, though it still comes to a good end."""
    obj = job(completions=3)
    ending, ended = pod("a", "Running"), pod("a", "Succeeded")
    for each in (ending, ended):
        each["metadata"]["deletionTimestamp"] = meta.format_time(NOW)
    first = accounting.account(obj, [ending])
    assert first.uncounted == {"failed": ["a"]}
    obj["status"] = status.status(obj, [ending], first, None, NOW)
    again = accounting.account(obj, [ended])
    assert (again.uncounted, again.release) == ({"failed": ["a"]}, [ended])
    assert (again.succeeded, again.failed) == (0, 1)


def test_an_ended_pod_is_counted_once_whatever_is_repeated() -> None:
    obj = job(completions=3)
    ended = pod("a", "Succeeded")
    first = accounting.account(obj, [ended])
    assert (first.succeeded, first.uncounted) == (1, {"succeeded": ["a"]}) and first.release == [ended]
    obj["status"] = status.status(obj, [ended], first, None, NOW)
    assert obj["status"].get("succeeded", 0) == 0, "noted, not yet counted"
    assert accounting.account(obj, [ended]).succeeded == 1, "again, with nothing done in between"
    free = pod("a", "Succeeded", tracked=False)
    for owned in ([free], []):
        later = accounting.account(obj, owned)
        assert (later.succeeded, later.uncounted, later.release) == (1, {}, [])
    obj["status"] = status.status(obj, [free], accounting.account(obj, [free]), None, NOW)
    assert obj["status"]["succeeded"] == 1
    assert accounting.account(obj, [free]).succeeded == 1


def test_an_indexed_job_makes_each_index_once() -> None:
    obj = job(completionMode="Indexed", completions=4, parallelism=3)
    owned = [pod("a", "Succeeded", index=0), pod("b", index=2)]
    made = planned(obj, *owned)
    assert [each.index for each in made.create] == [1, 3]
    twice = planned(obj, *owned, pod("c", index=2), pod("d", index=9))
    assert sorted(each["metadata"]["name"] for each in twice.delete) == ["c", "d"]
    account = accounting.account(obj, owned)
    assert status.status(obj, owned, account, None, NOW)["completedIndexes"] == "0"


def test_a_pod_knows_its_index() -> None:
    obj = job(completionMode="Indexed", completions=2)
    obj["spec"]["template"]["spec"] = {"containers": [{"name": "c"}]}
    made = plan.pod(obj, {"uid": "j"}, plan.DesiredPod(1), accounting.FINALIZER)
    assert made["metadata"]["generateName"] == "sum-1-" and made["spec"]["hostname"] == "sum-1"
    assert made["metadata"]["labels"][completion_indexes.INDEX] == "1"
    assert made["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert made["metadata"]["finalizers"] == [accounting.FINALIZER]
    assert "env" not in obj["spec"]["template"]["spec"]["containers"][0], "the template is not changed"


@pytest.mark.parametrize("indexes", [set(), {0}, {0, 1, 2}, {0, 2, 3, 9}, {5}])
def test_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    text = completion_indexes.render(completion_indexes.IndexSet(indexes))
    assert set(completion_indexes.parse(text, 10)) == indexes


def test_odd_indexes_are_left_out() -> None:
    assert set(completion_indexes.parse("1,x,3-,-4,5-6,99", 10)) == {1, 3, 5, 6}


def ended(obj: Object, *owned: Object) -> completion.JobEnd | None:
    active = plan.active_pods(obj, owned)
    return completion.end(obj, accounting.account(obj, owned), active, NOW)


def reason(obj: Object, *owned: Object) -> str:
    found = ended(obj, *owned)
    return found.reason if found else ""


def test_when_a_job_ends() -> None:
    failed = [pod(f"f{at}", "Failed") for at in range(3)]
    assert reason(job()) == ""
    assert reason(job(), pod("a", "Succeeded")) == "CompletionsReached"
    assert reason(job(backoffLimit=2), *failed) == "BackoffLimitExceeded"
    assert reason(job(backoffLimit=3), *failed) == ""
    assert reason(job(activeDeadlineSeconds=99), pod("a")) == "DeadlineExceeded"
    assert reason(job(activeDeadlineSeconds=101), pod("a")) == ""
    assert reason(job(completions=None), pod("a", "Succeeded"), pod("b")) == ""
    assert reason(job(completions=None), pod("a", "Succeeded")) == "CompletionsReached"


def test_restarts_in_place_count_as_failures() -> None:
    again: Any = {"containerStatuses": [{"name": "c", "restartCount": 2}]}
    obj = job(backoffLimit=2, template={"spec": {"restartPolicy": "OnFailure"}})
    assert reason(obj, pod("a", **again)) == "BackoffLimitExceeded"
    obj["spec"]["backoffLimit"] = 3
    assert reason(obj, pod("a", **again)) == ""


def test_an_index_that_fails_too_often_fails_alone() -> None:
    obj = job(completionMode="Indexed", completions=3, parallelism=3, backoffLimitPerIndex=1, backoffLimit=99)
    once = [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)]
    assert [(each.index, each.failures) for each in planned(obj, *once).create] == [(0, 1), (2, 0)]
    twice = [*once, pod("c", "Failed", index=0, failures=1)]
    assert set(accounting.account(obj, twice).failed_indexes) == {0}
    assert [each.index for each in planned(obj, *twice).create] == [2]
    assert reason(obj, *twice, pod("d", "Succeeded", index=2)) == "FailedIndexes"
    obj["spec"]["maxFailedIndexes"] = 0
    assert reason(obj, *twice) == "MaxFailedIndexesExceeded"


def test_a_success_policy_ends_a_job_early() -> None:
    rules = [{"succeededIndexes": "0-1", "succeededCount": 1}]
    obj = job(completionMode="Indexed", completions=9, parallelism=9, successPolicy={"rules": rules})
    assert reason(obj, pod("a", "Succeeded", index=5)) == ""
    assert reason(obj, pod("a", "Succeeded", index=1)) == "SuccessPolicy"


def test_a_success_policy_that_is_met_by_all_completions_is_the_reason() -> None:
    obj = job(completionMode="Indexed", completions=2, parallelism=2)
    both = [pod("a", "Succeeded", index=0), pod("b", "Succeeded", index=1)]
    assert reason(obj, *both) == "CompletionsReached"
    obj["spec"]["successPolicy"] = {"rules": [{"succeededCount": 2}]}
    assert reason(obj, both[0]) == "" and reason(obj, *both) == "SuccessPolicy"


def policy(action: str, **rule: Any) -> Object:
    return job(podFailurePolicy={"rules": [{"action": action, **rule}]})


CODES = {"onExitCodes": {"operator": "In", "values": [1, 42]}}


def test_a_failure_policy_judges_by_exit_code_and_condition() -> None:
    failed = pod("a", "Failed")
    judged = evaluate_failure(policy("FailJob", **CODES), failed)
    message = "Container c for pod default/a failed with exit code 1 matching FailJob rule at index 0"
    assert (judged.action, judged.message) == (FailureAction.FAIL_JOB, message)
    other = {"onExitCodes": {"operator": "NotIn", "values": [1]}}
    assert evaluate_failure(policy("FailJob", **other), failed).action is FailureAction.COUNT
    named = {"onExitCodes": {"operator": "In", "values": [1], "containerName": "other"}}
    assert evaluate_failure(policy("FailJob", **named), failed).action is FailureAction.COUNT
    disrupted = pod("b", "Failed", conditions=[{"type": "DisruptionTarget", "status": "True"}])
    rule = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert evaluate_failure(policy("Ignore", **rule), disrupted).action is FailureAction.IGNORE


def test_what_a_policy_decides_counts() -> None:
    assert reason(policy("FailJob", **CODES), pod("a", "Failed")) == "PodFailurePolicy"
    ignored = policy("Ignore", **CODES)
    ignored["spec"]["backoffLimit"] = 0
    assert reason(ignored, pod("a", "Failed")) == ""
    assert accounting.account(ignored, [pod("a", "Failed")]).failed == 0


def conditions(job_status: Object) -> dict[str, str]:
    return {each["type"]: each["reason"] for each in job_status.get("conditions", ())}


def test_an_end_is_said_when_nothing_runs_any_more() -> None:
    obj = job(completions=1, parallelism=2)
    owned = [pod("a", "Succeeded"), pod("b")]
    end = ended(obj, *owned)
    obj["status"] = status.status(obj, owned, accounting.account(obj, owned), end, NOW)
    assert conditions(obj["status"]) == {"SuccessCriteriaMet": "CompletionsReached"}
    assert "completionTime" not in obj["status"]
    free = [pod("a", "Succeeded", tracked=False)]
    last = status.status(obj, free, accounting.account(obj, free), ended(obj, *free), NOW)
    assert conditions(last)["Complete"] == "CompletionsReached" and last["completionTime"]
    assert last["succeeded"] == 1 and "active" not in last and "uncountedTerminatedPods" not in last


def test_suspending_is_reported_and_resuming_begins_anew() -> None:
    obj = job(suspend=True)
    nothing = accounting.account(obj, [])
    obj["status"] = status.status(obj, [], nothing, None, NOW)
    assert conditions(obj["status"]) == {"Suspended": "JobSuspended"}
    obj["spec"]["suspend"] = False
    new_status = status.status(obj, [], nothing, None, NOW + 50)
    assert conditions(new_status) == {"Suspended": "JobResumed"}
    assert new_status["startTime"] == meta.format_time(NOW + 50)


def test_a_pod_that_is_replaced_only_when_over_holds_its_place() -> None:
    going = pod("a")
    going["metadata"]["deletionTimestamp"] = meta.format_time(NOW - 60)
    assert len(planned(job(), going).create) == 1
    assert len(planned(job(podReplacementPolicy="Failed"), going).create) == 0


@pytest.mark.parametrize(
    ("owner", "orphan"),
    [
        (None, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "controller": True}, False),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "sum", "controller": True}, True),
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "sum"}, True),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "sum", "controller": True}, True),
    ],
)
def test_a_pod_that_no_job_controls_does_not_keep_the_finalizer(owner: Object | None, orphan: bool) -> None:
    """Either the job of this name releases it, or it is an orphan: never neither."""
    metadata: Object = {"name": "p", "namespace": "default", "finalizers": [accounting.FINALIZER]}
    if owner is not None:
        metadata["ownerReferences"] = [{"uid": "u", **owner}]
    assert is_orphan({"metadata": metadata}) is orphan
    assert bool(list(tracked_job({"metadata": metadata}))) is not orphan


@given(st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)), st.integers(0, 45))
def test_a_set_of_indexes_is_a_set(some: list[int], others: list[int], end: int) -> None:
    one, other = completion_indexes.IndexSet(some), completion_indexes.IndexSet(others)
    assert set(one) == set(some) and len(one) == len(set(some))
    assert set(one | other) == set(some) | set(others)
    assert set(one | set(others)) == set(some) | set(others)
    assert one.in_common(other) == len(set(some) & set(others))
    assert one.below(end) == len([each for each in set(some) if each < end])
    assert list(one.missing(end)) == [each for each in range(end) if each not in set(some)]
    assert [each in one for each in range(end)] == [each in set(some) for each in range(end)]
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(one.intervals()))


@pytest.mark.parametrize("rule", [{"succeededCount": 5}, {"succeededIndexes": "0-2147483645"}], ids=str)
def test_two_billion_completions_take_no_time(rule: Object) -> None:
    """A set of all of them took all memory, and a loop over them all time, of the controllers of all tenants."""
    most = 2**31 - 1
    spec = {"completions": most, "parallelism": most, "successPolicy": {"rules": [rule]}}
    obj = job(completionMode="Indexed", **spec)
    obj["status"] = {"completedIndexes": "1-2147483640", "failedIndexes": "2147483642"}
    began = time.thread_time()
    found = accounting.account(obj, [])
    completion.end(obj, found, [], 0.0)
    made = plan.plan(obj, [], found, 0.0)
    assert [each.index for each in made.create] == [0, 2147483641, *range(2147483643, most)]
    assert time.thread_time() - began < 1.0
