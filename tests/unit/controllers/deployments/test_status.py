"""What a deployment says while it rolls, when it is done, and when it is stuck."""

from typing import Any

from alcove.api import meta
from alcove.api.objects import Object
from alcove.controllers.deployments.revisions import DeploymentReplicaSets
from alcove.controllers.deployments.status import left_seconds, status

NOW = 1_700_000_000.0


def deployment(size: int = 3, **spec: Any) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return {
        "metadata": {"name": "web", "generation": 2},
        "spec": {"replicas": size, "strategy": strategy, "progressDeadlineSeconds": 600, **spec},
    }


def a_set(name: str, size: int, available: int) -> Object:
    counts = {"replicas": size, "readyReplicas": available, "availableReplicas": available}
    return {"metadata": {"name": name}, "spec": {"replicas": size}, "status": counts}


def condition(of: Object, type_: str) -> Object:
    return next(each for each in of["conditions"] if each["type"] == type_)


def progress(of: Object) -> tuple[str, str, str]:
    found = condition(of, "Progressing")
    return found["status"], found["reason"], found["message"]


def test_a_rollout_from_its_beginning_to_its_end() -> None:
    obj = deployment()
    obj["status"] = status(obj, DeploymentReplicaSets(a_set("web-1", 3, 0), []), "web-1", NOW)
    assert progress(obj["status"]) == ("True", "NewReplicaSetCreated", 'Created new replica set "web-1"')
    available = condition(obj["status"], "Available")
    assert (available["status"], available["reason"]) == ("False", "MinimumReplicasUnavailable")
    assert obj["status"]["unavailableReplicas"] == 3 and obj["status"]["observedGeneration"] == 2

    obj["status"] = status(obj, DeploymentReplicaSets(a_set("web-1", 3, 1), []), None, NOW + 5)
    assert progress(obj["status"]) == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.')
    found = condition(obj["status"], "Progressing")
    assert found["lastUpdateTime"] == meta.format_time(NOW + 5)
    assert found["lastTransitionTime"] == meta.format_time(NOW)

    obj["status"] = status(obj, DeploymentReplicaSets(a_set("web-1", 3, 3), []), None, NOW + 9)
    message = 'ReplicaSet "web-1" has successfully progressed.'
    assert progress(obj["status"]) == ("True", "NewReplicaSetAvailable", message)
    assert condition(obj["status"], "Available")["status"] == "True"
    assert left_seconds(obj, NOW + 9) is None
    assert status(obj, DeploymentReplicaSets(a_set("web-1", 3, 3), []), None, NOW + 5000) == obj["status"]
    # A pod that dies after the rollout is no rollout.
    obj["status"] = status(obj, DeploymentReplicaSets(a_set("web-1", 3, 2), []), None, NOW + 5000)
    assert progress(obj["status"]) == ("True", "NewReplicaSetAvailable", message)


def test_pods_that_end_are_counted_over_all_sets() -> None:
    new, old = a_set("web-1", 3, 0), a_set("web-0", 0, 0)
    new["status"]["terminatingReplicas"], old["status"]["terminatingReplicas"] = 1, 2
    assert status(deployment(), DeploymentReplicaSets(new, [old]), None, NOW)["terminatingReplicas"] == 3


def test_a_rollout_that_stands_still_runs_into_its_deadline() -> None:
    obj, stuck = deployment(), DeploymentReplicaSets(a_set("web-2", 1, 0), [a_set("web-1", 3, 3)])
    obj["status"] = status(obj, stuck, "web-2", NOW)
    assert left_seconds(obj, NOW + 100) == 500
    assert status(obj, stuck, None, NOW + 599) == obj["status"]
    obj["status"] = status(obj, stuck, None, NOW + 601)
    late = ("False", "ProgressDeadlineExceeded", 'ReplicaSet "web-2" has timed out progressing.')
    assert progress(obj["status"]) == late and left_seconds(obj, NOW + 601) is None
    moved = DeploymentReplicaSets(a_set("web-2", 1, 1), [a_set("web-1", 3, 3)])
    obj["status"] = status(obj, moved, None, NOW + 700)
    assert progress(obj["status"])[:2] == ("True", "ReplicaSetUpdated")


def test_pausing_is_reported_and_stops_the_clock() -> None:
    obj, sets = deployment(paused=True), DeploymentReplicaSets(a_set("web-1", 3, 1), [])
    obj["status"] = status(obj, sets, None, NOW)
    assert progress(obj["status"]) == ("Unknown", "DeploymentPaused", "Deployment is paused")
    assert left_seconds(obj, NOW + 5000) is None
    obj["spec"]["paused"] = False
    obj["status"] = status(obj, sets, None, NOW + 5000)
    assert progress(obj["status"])[1] == "DeploymentResumed"
    assert left_seconds(obj, NOW + 5000) == 600


def test_without_a_deadline_there_is_no_progress_condition() -> None:
    obj = deployment(progressDeadlineSeconds=2**31 - 1)
    new_status = status(obj, DeploymentReplicaSets(a_set("web-1", 3, 0), []), "web-1", NOW)
    assert [each["type"] for each in new_status["conditions"]] == ["Available"]


def test_the_failure_of_the_new_set_is_the_deployments() -> None:
    new = a_set("web-1", 3, 0)
    failed = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded"}
    new["status"]["conditions"] = [failed]
    obj = deployment()
    obj["status"] = status(obj, DeploymentReplicaSets(new, []), None, NOW)
    assert condition(obj["status"], "ReplicaFailure")["message"] == "exceeded"
    del new["status"]["conditions"]
    types = [each["type"] for each in status(obj, DeploymentReplicaSets(new, []), None, NOW)["conditions"]]
    assert "ReplicaFailure" not in types
