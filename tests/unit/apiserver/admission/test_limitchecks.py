"""LimitRange bounds, case by case."""

from typing import Any

import pytest

from alcove.apiserver.admission import limitchecks
from alcove.apiserver.admission.limitranger import ANNOTATION, fill_in


def spec(requests: dict[str, str] | None = None, limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}]}


def limit(kind: str = "Container", **bounds: dict[str, str]) -> list[dict[str, Any]]:
    return [{"type": kind, **bounds}]


@pytest.mark.parametrize(
    ("pod", "limits", "messages"),
    [
        (
            spec(),
            limit(min={"cpu": "1"}),
            ["minimum cpu usage per Container is 1.  No request is specified"],
        ),
        (spec(), limit(max={"cpu": "1"}), ["maximum cpu usage per Container is 1.  No limit is specified"]),
        (
            spec({"cpu": "1"}, {"cpu": "500m"}),
            limit(min={"cpu": "1"}),
            ["minimum cpu usage per Container is 1, but limit is 500m"],
        ),
        (
            spec({"cpu": "2"}, {"cpu": "1"}),
            limit(max={"cpu": "1"}),
            ["maximum cpu usage per Container is 1, but request is 2"],
        ),
        (
            spec({"cpu": "0"}, {"cpu": "1"}),
            limit(maxLimitRequestRatio={"cpu": "2"}),
            [
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"
            ],
        ),
        (
            spec({"cpu": "1"}),
            limit(maxLimitRequestRatio={"cpu": "2"}),
            ["cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"],
        ),
        (spec({"cpu": "1"}, {"cpu": "1500m"}), limit(maxLimitRequestRatio={"cpu": "1.5"}), []),
        (
            spec({"cpu": "1"}, {"cpu": "1501m"}),
            limit(maxLimitRequestRatio={"cpu": "1.5"}),
            ["cpu max limit to request ratio per Container is 1500m, but provided ratio is 1.501000"],
        ),
        (spec({"cpu": "1"}, {"cpu": "1"}), limit(min={"cpu": "1"}, max={"cpu": "1"}), []),
        (spec({"cpu": "1"}, {"cpu": "1"}), limit("Other", min={"cpu": "5"}), []),
    ],
)
def test_containers(pod: dict[str, Any], limits: list[dict[str, Any]], messages: list[str]) -> None:
    assert limitchecks.check_pod(pod, limits) == messages


def test_init_containers_are_held_to_the_limits_of_containers() -> None:
    pod = {"containers": [], "initContainers": spec({"cpu": "3"}, {"cpu": "3"})["containers"]}
    messages = limitchecks.check_pod(pod, limit(max={"cpu": "2"}))
    assert messages == ["maximum cpu usage per Container is 2, but limit is 3"]


def test_a_pod_is_the_sum_of_its_containers_or_what_it_says_itself() -> None:
    pod = {"containers": spec({"cpu": "1"}, {"cpu": "1"})["containers"] * 3}
    assert limitchecks.check_pod(pod, limit("Pod", max={"cpu": "2"})) == [
        "maximum cpu usage per Pod is 2, but limit is 3"
    ]
    pod["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
    assert limitchecks.check_pod(pod, limit("Pod", max={"cpu": "2"})) == []


def test_claims_are_judged_by_what_they_request() -> None:
    claim = {"resources": {"requests": {"storage": "5Gi"}, "limits": {"storage": "1"}}}
    given = limit("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "4Gi"})
    assert limitchecks.check_claim(claim, given) == [
        "maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"
    ]
    assert limitchecks.check_claim({}, given) == [
        "minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified",
        "maximum storage usage per PersistentVolumeClaim is 4Gi.  No request is specified",
    ]


def test_defaults_fill_only_what_is_missing_and_again_change_nothing() -> None:
    pod: dict[str, Any] = {"metadata": {}, "spec": spec({"cpu": "1"})}
    given = limit(default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    fill_in(pod, given)
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    message = "LimitRanger plugin set: cpu, memory limit for container c"
    assert pod["metadata"]["annotations"] == {ANNOTATION: message}
    before = str(pod)
    fill_in(pod, given)
    assert str(pod) == before
