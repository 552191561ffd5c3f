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
    new_status = status(tenant_admin, "sum")
    assert new_status["succeeded"] == 5 and new_status["completionTime"] and "active" not in new_status
    assert len(pods(tenant_admin)) == 5
    assert not any(TRACKING in each["metadata"].get("finalizers", ()) for each in pods(tenant_admin))
    tenant_admin.kubectl("wait", "--for=condition=complete", "job/sum", "--timeout=90s")


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


def test_evicted_pods_are_no_failures_where_the_policy_ignores_disruptions(tenant_admin: Caller) -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    tenant_admin.post(JOBS, made("sum", backoffLimit=0, podFailurePolicy={"rules": [rule]}))
    (first,) = wait_until(lambda: unfinished(tenant_admin))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": first}}
    assert tenant_admin.post(f"{PODS}/{first}/eviction", eviction).status == 201
    end(tenant_admin, first, "Failed", 137)
    (second,) = wait_until(lambda: [each for each in unfinished(tenant_admin) if each != first])
    end(tenant_admin, second)
    wait_until(lambda: condition(tenant_admin, "sum", "Complete"))
    assert not status(tenant_admin, "sum").get("failed")


def test_a_deleted_job_leaves_no_pods_behind(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", parallelism=2, completions=2))
    wait_until(lambda: len(unfinished(tenant_admin)) == 2)
    tenant_admin.kubectl("delete", "job", "sum", "--wait=false")
    wait_until(lambda: not pods(tenant_admin))


def test_a_finished_job_goes_after_its_time(tenant_admin: Caller) -> None:
    tenant_admin.post(JOBS, made("sum", ttlSecondsAfterFinished=1))
    (first,) = wait_until(lambda: unfinished(tenant_admin))
    end(tenant_admin, first)
    wait_until(lambda: condition(tenant_admin, "sum", "Complete"))
    wait_until(lambda: tenant_admin.get(f"{JOBS}/sum").status == 404)


def tracked(caller: Caller) -> list[str]:
    return [
        each["metadata"]["name"]
        for each in pods(caller)
        if TRACKING in each["metadata"].get("finalizers", ())
    ]


def gone(caller: Caller, path: str) -> bool:
    return caller.get(path).status == 404


def test_a_pod_that_its_job_released_does_not_keep_its_namespace_for_ever(tenant_admin: Caller) -> None:
    """It kept the finalizer that only its job would have taken off."""
    assert tenant_admin.post("/api/v1/namespaces", {"metadata": {"name": "released"}}).status == 201
    jobs, its = (path.replace("default", "released") for path in (JOBS, PODS))
    assert tenant_admin.post(jobs, made("let-go", parallelism=1)).status == 201
    name = wait_until(lambda: (found := tenant_admin.get(its).json["items"]) and found[0])["metadata"]["name"]
    labels = {"job-name": None, "batch.kubernetes.io/job-name": None, "controller-uid": None}
    labels["batch.kubernetes.io/controller-uid"] = None
    assert tenant_admin.patch(f"{its}/{name}", {"metadata": {"labels": labels}}).status == 200
    wait_until(lambda: not tenant_admin.get(f"{its}/{name}").json["metadata"].get("ownerReferences"))
    wait_until(lambda: not tenant_admin.get(f"{its}/{name}").json["metadata"].get("finalizers"))
    assert tenant_admin.delete("/api/v1/namespaces/released").status == 200
    wait_until(lambda: gone(tenant_admin, "/api/v1/namespaces/released"))


def test_pods_orphaned_with_their_job_are_not_tracked_any_more(tenant_admin: Caller) -> None:
    assert tenant_admin.post(JOBS, made("leaving", parallelism=8, completions=8)).status == 201
    wait_until(lambda: len(tracked(tenant_admin)) == 8)
    answer = tenant_admin.request("DELETE", f"{JOBS}/leaving", {"propagationPolicy": "Orphan"})
    assert answer.status == 200
    wait_until(lambda: gone(tenant_admin, f"{JOBS}/leaving"))
    wait_until(lambda: not tracked(tenant_admin))
    assert len(pods(tenant_admin)) == 8


def test_a_job_deleted_in_the_foreground_does_not_wait_for_a_relabelled_pod(tenant_admin: Caller) -> None:
    assert tenant_admin.post(JOBS, made("foreground", parallelism=1)).status == 201
    (name,) = wait_until(lambda: tracked(tenant_admin))
    hold = {"metadata": {"finalizers": [TRACKING, "example.com/hold"]}}
    assert tenant_admin.patch(f"{PODS}/{name}", hold).status == 200
    answer = tenant_admin.request("DELETE", f"{JOBS}/foreground", {"propagationPolicy": "Foreground"})
    assert answer.status in (200, 202)
    labels = {"job-name": None, "batch.kubernetes.io/job-name": None, "controller-uid": None}
    labels["batch.kubernetes.io/controller-uid"] = None
    assert tenant_admin.patch(f"{PODS}/{name}", {"metadata": {"labels": labels}}).status == 200
    wait_until(lambda: name not in tracked(tenant_admin))
    assert tenant_admin.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}}).status == 200
    wait_until(lambda: gone(tenant_admin, f"{JOBS}/foreground"))
