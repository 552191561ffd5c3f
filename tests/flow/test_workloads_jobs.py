"""Jobs run to their end; the test plays the nodes."""

import orjson

from alcove.api.objects import Object
from alcove.testing.server import Caller, wait_until

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
TRACKING = "batch.kubernetes.io/job-tracking"


def made(name: str, **spec: object) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def pods(caller: Caller) -> list[Object]:
    return orjson.loads(caller.get(PODS).body)["items"]  # type: ignore[no-any-return]


def unfinished(caller: Caller) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in pods(caller)
        if each["status"].get("phase") in (None, "Pending") and "deletionTimestamp" not in each["metadata"]
    ]


def end(caller: Caller, name: str, phase: str = "Succeeded", code: int = 0) -> None:
    ended = {"terminated": {"exitCode": code, "finishedAt": "2024-01-01T00:00:00Z"}}
    status = {"phase": phase, "containerStatuses": [{"name": "c", "state": ended, "image": "i", "imageID": "", "ready": False, "restartCount": 0}]}  # fmt: skip
    answer = caller.patch(f"{PODS}/{name}/status", {"status": status})
    assert answer.status == 200, answer.body


def status(caller: Caller, name: str) -> Object:
    return caller.get(f"{JOBS}/{name}").json.get("status") or {}


def condition(caller: Caller, name: str, type_: str) -> Object:
    found = status(caller, name).get("conditions", [])
    return next((each for each in found if each["type"] == type_), {})


def test_a_job_completes_when_enough_pods_have_succeeded(tenant_admin: Caller) -> None:
    assert tenant_admin.post(JOBS, made("sum", completions=5, parallelism=2)).status == 201
    for _ in range(5):
        (first, *_others) = wait_until(lambda: unfinished(tenant_admin))
        end(tenant_admin, first)
        wait_until(lambda: first not in unfinished(tenant_admin))  # noqa: B023
    wait_until(lambda: condition(tenant_admin, "sum", "Complete"))
    told = status(tenant_admin, "sum")
    assert told["succeeded"] == 5 and told["completionTime"] and "active" not in told
    assert len(pods(tenant_admin)) == 5
    assert not any(TRACKING in each["metadata"].get("finalizers", ()) for each in pods(tenant_admin))
    tenant_admin.kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=5s")


def test_failures_beyond_the_limit_fail_the_job(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", backoffLimit=0))
    (first,) = wait_until(lambda: unfinished(tenant_admin))
    end(tenant_admin, first, "Failed", 1)
    failed = wait_until(lambda: condition(tenant_admin, "sum", "Failed"))
    assert failed["reason"] == "BackoffLimitExceeded" and status(tenant_admin, "sum")["failed"] == 1


def test_an_indexed_job_runs_each_index(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", completions=3, parallelism=3, completionMode="Indexed"))
    wait_until(lambda: len(unfinished(tenant_admin)) == 3)
    indexes = {
        each["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: each
        for each in pods(tenant_admin)
    }
    assert sorted(indexes) == ["0", "1", "2"]
    assert indexes["1"]["spec"]["hostname"] == "sum-1"
    for name in unfinished(tenant_admin):
        end(tenant_admin, name)
    wait_until(lambda: condition(tenant_admin, "sum", "Complete"))
    assert status(tenant_admin, "sum")["completedIndexes"] == "0-2"


def test_suspending_takes_the_pods_away_and_resuming_brings_them_back(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", suspend=True))
    wait_until(lambda: condition(tenant_admin, "sum", "Suspended").get("status") == "True")
    assert not pods(tenant_admin)
    tenant_admin.patch(f"{JOBS}/sum", {"spec": {"suspend": False}})
    wait_until(lambda: unfinished(tenant_admin))
    tenant_admin.patch(f"{JOBS}/sum", {"spec": {"suspend": True}})
    wait_until(lambda: not pods(tenant_admin))
    assert status(tenant_admin, "sum").get("failed", 0) == 0


def test_a_failure_policy_ends_it_at_once(tenant_admin: Caller) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    tenant_admin.post(JOBS, made("sum", podFailurePolicy={"rules": [rule]}))
    (first,) = wait_until(lambda: unfinished(tenant_admin))
    end(tenant_admin, first, "Failed", 42)
    failed = wait_until(lambda: condition(tenant_admin, "sum", "Failed"))
    assert failed["reason"] == "PodFailurePolicy" and "exit code 42" in failed["message"]


def test_a_deleted_job_leaves_no_pods_behind(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", parallelism=2, completions=2))
    wait_until(lambda: len(unfinished(tenant_admin)) == 2)
    tenant_admin.kubectl("delete", "job", "sum", "--wait=false")
    wait_until(lambda: not pods(tenant_admin), 20)


def test_a_finished_job_goes_after_its_time(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", ttlSecondsAfterFinished=1))
    (first,) = wait_until(lambda: unfinished(tenant_admin))
    end(tenant_admin, first)
    wait_until(lambda: condition(tenant_admin, "sum", "Complete"))
    wait_until(lambda: tenant_admin.get(f"{JOBS}/sum").status == 404)
