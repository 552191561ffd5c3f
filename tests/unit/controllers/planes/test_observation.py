"""What is reported of a dedicated plane."""

from typing import Any

from alcove.controllers.planes.manifests import (
    AUTHORITY_ANNOTATION,
    PART_LABEL,
    authority_fingerprint,
    server_part,
)
from alcove.controllers.planes.observation import (
    RunningServer,
    conditions_of,
    endpoint,
    error_of,
    observed_servers,
    running_servers,
)

KEYS = {"ca.crt": "new", "ca-before.crt": "old"}


def pod(
    ready: str = "True", authority: str = "new", address: str = "10.0.0.1", number: int = 0, **status: Any
) -> dict[str, Any]:
    container = {"image": "alcove/alcove:1.2", "ports": [{"containerPort": 16_443 + number}]}
    return {
        "metadata": {
            "annotations": {AUTHORITY_ANNOTATION: authority_fingerprint(authority)},
            "labels": {PART_LABEL: server_part(number)},
        },
        "spec": {"containers": [container]},
        "status": {"hostIP": address, "conditions": [{"type": "Ready", "status": ready}], **status},
    }


def test_servers_whose_authority_is_trusted_count() -> None:
    first = RunningServer("https://10.0.0.1:16443", "1.2")
    assert running_servers([pod()], KEYS) == [first]
    assert running_servers([pod(address="fd00::1")], KEYS) == [
        RunningServer("https://[fd00::1]:16443", "1.2")
    ]
    terminating = pod()
    terminating["metadata"]["deletionTimestamp"] = "now"
    others = [pod(ready="False"), pod(authority="other"), pod(address=""), terminating]
    assert running_servers(others, KEYS) == []
    second = RunningServer("https://10.0.0.1:16444", "1.2")
    several = [pod(number=1, authority="old"), pod()]
    assert running_servers(several, KEYS) == [first, second]
    assert running_servers(several, KEYS, ["apiserver-0"]) == [second]


def test_the_endpoint_stays_as_long_as_its_server_is_ready() -> None:
    servers = [RunningServer("a", "1"), RunningServer("b", "2")]
    assert endpoint(servers, "b") == "b"
    assert endpoint(servers, "c") == endpoint(servers, "") == "a"
    said = observed_servers(servers, {"version": "2", "replicas": 2})
    assert said == {"version": "1", "endpoints": ["a", "b"]}, "not all have the version yet"
    assert observed_servers(servers[:1], {"version": "1"}) == {"version": "1", "endpoints": []}


def test_conditions() -> None:
    made = conditions_of({"status": {"phase": "Bound"}}, RunningServer("u", "1"), "", has_joined=False)
    assert {each.type: each.status for each in made} == {
        "CertificatesReady": True,
        "StoreReady": True,
        "APIServerReady": True,
        "Joined": False,
    }
    made = conditions_of({"status": {"phase": "Bound"}}, None, "", has_joined=True, store_error="no etcd")
    assert [(each.status, each.message) for each in made if each.type == "StoreReady"] == [(False, "no etcd")]
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
