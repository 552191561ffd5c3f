"""What is reported of a dedicated plane."""

from typing import Any

from alcove.controllers.planes.observation import RunningServer, conditions_of, error_of, running_server


def pod(ready: str = "True", keys: str = "k", address: str = "10.0.0.1", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"annotations": {"alcove.io/plane-keys": keys}},
        "spec": {"containers": [{"image": "alcove/alcove:1.2"}]},
        "status": {"hostIP": address, "conditions": [{"type": "Ready", "status": ready}], **status},
    }


def test_the_server_with_the_current_keys_counts() -> None:
    assert running_server([pod()], 16_443, "k") == RunningServer("https://10.0.0.1:16443", "1.2")
    assert running_server([pod(address="fd00::1")], 1, "k") == RunningServer("https://[fd00::1]:1", "1.2")
    terminating = pod()
    terminating["metadata"]["deletionTimestamp"] = "now"
    assert running_server([pod(ready="False"), pod(keys="old"), pod(address=""), terminating], 1, "k") is None


def test_conditions() -> None:
    made = conditions_of({"status": {"phase": "Bound"}}, RunningServer("u", "1"), "", has_joined=False)
    assert {each.type: each.status for each in made} == {
        "CertificatesReady": True,
        "StoreReady": True,
        "APIServerReady": True,
        "Joined": False,
    }
    made = conditions_of(None, None, "ErrImagePull: no such version", has_joined=True)
    assert [each.message for each in made if each.type == "APIServerReady"] == [
        "ErrImagePull: no such version"
    ]


def test_the_server_of_a_tenant_that_is_asleep() -> None:
    def reported(server: RunningServer | None, stop_reason: str) -> tuple[bool, str]:
        made = conditions_of(None, server, "", has_joined=True, stop_reason=stop_reason)
        return next((each.status, each.reason) for each in made if each.type == "APIServerReady")

    running = RunningServer("u", "1")
    assert reported(running, "Asleep") == (False, "Asleep"), "said before it is stopped"
    assert reported(None, "Asleep") == (False, "Asleep")
    assert reported(None, "Waking") == (False, "Waking")
    assert reported(running, "Waking") == (True, "Ready")


def test_the_last_error_is_what_the_pod_says() -> None:
    def container(**state: Any) -> dict[str, Any]:
        return pod(containerStatuses=[{"name": "apiserver", **state}])

    waiting = container(state={"waiting": {"reason": "ErrImagePull", "message": "no such version"}})
    assert error_of([waiting]) == "ErrImagePull: no such version"
    ended = container(state={"running": {}}, lastState={"terminated": {"reason": "Error", "exitCode": 1}})
    assert error_of([ended]) == "Error (exit code 1): no message"
    assert error_of([container(state={"waiting": {"reason": "ContainerCreating"}})]) == ""
    unscheduled = pod()
    unscheduled["status"]["conditions"].append(
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/1 nodes are available",
        }
    )
    assert error_of([unscheduled]) == "Unschedulable: 0/1 nodes are available"
    assert error_of([]) == ""
