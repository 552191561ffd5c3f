"""What pods ask for: running pods whose resources are being changed count with the greater amount."""

from __future__ import annotations

import pytest

from alcove.api.objects import Object
from alcove.scheduler.object_trimming import trim_pod
from alcove.scheduler.requests import NOT_RESIZED, Resized, read_requests, read_resized
from alcove.scheduler.resource_amounts import AMOUNT_MAX
from alcove.testing.scheduling import Scene, node, pod


def _amounts(spec: Object, resized: Resized = NOT_RESIZED) -> dict[str, int]:
    return dict(read_requests(spec, resized).amounts)


def _container(name: str, **requests: str) -> Object:
    return {"name": name, "resources": {"requests": requests}}


def _sidecar(name: str, **requests: str) -> Object:
    return {**_container(name, **requests), "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [_container("a", cpu="1"), _container("b", cpu="2", memory="1")]}, 3000, 1),
        # The greatest of the initial ones, resource by resource, if that is more than the rest.
        (
            {
                "containers": [_container("a", cpu="1", memory="10")],
                "initContainers": [_container("i", cpu="3"), _container("j", cpu="2", memory="4")],
            },
            3000,
            10,
        ),
        # Sidecars run beside the containers, and beside the initial ones after them.
        (
            {"containers": [_container("a", cpu="1")], "initContainers": [_sidecar("s", cpu="2")]},
            3000,
            0,
        ),
        (
            {
                "containers": [_container("a", cpu="1")],
                "initContainers": [_container("i", cpu="4"), _sidecar("s", cpu="2")],
            },
            4000,
            0,
        ),
        (
            {
                "containers": [_container("a", cpu="1")],
                "initContainers": [_sidecar("s", cpu="2"), _container("i", cpu="4")],
            },
            6000,
            0,
        ),
        (
            {
                "containers": [_container("a", cpu="1")],
                "initContainers": [_sidecar("s", cpu="2"), _container("i", cpu="3"), _sidecar("t", cpu="3")],
            },
            6000,
            0,
        ),
        # Asked for as a whole: instead of the sum, resource by resource.
        (
            {
                "containers": [_container("a", cpu="1", memory="7")],
                "resources": {"requests": {"cpu": "500m"}},
            },
            500,
            7,
        ),
        (
            {
                "containers": [_container("a")],
                "initContainers": [_container("i", cpu="9")],
                "resources": {"requests": {"cpu": "2", "memory": "5"}},
                "overhead": {"cpu": "250m", "memory": "1"},
            },
            2250,
            6,
        ),
        # Only limits as a whole: what containers ask for stays.
        ({"containers": [_container("a", cpu="1")], "resources": {"limits": {"cpu": "2"}}}, 1000, 0),
        ({"containers": [_container("a", cpu="1")], "overhead": {"cpu": "500m"}}, 1500, 0),
    ],
)
def test_what_a_pod_asks_for(spec: Object, cpu: int, memory: int) -> None:
    asked = _amounts(spec)
    assert (asked.get("cpu", 0), asked.get("memory", 0)) == (cpu, memory)


def test_devices_and_huge_pages() -> None:
    device = {"name": "a", "resources": {"requests": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi"}}}
    spec = {"containers": [device, device], "initContainers": [{**device, "restartPolicy": "Always"}]}
    assert _amounts(spec) == {"example.com/gpu": 6, "hugepages-2Mi": 12 << 20, "pods": 1}
    # Devices are not asked for as a whole; huge pages may be.
    as_whole = {**spec, "resources": {"requests": {"example.com/gpu": "1", "hugepages-2Mi": "2Mi"}}}
    assert _amounts(as_whole) == {"example.com/gpu": 6, "hugepages-2Mi": 2 << 20, "pods": 1}


def test_fractions_are_rounded_once_over_the_whole_pod() -> None:
    half = {"resources": {"requests": {"memory": "1500m", "cpu": "100u"}}}
    assert _amounts({"containers": [{"name": "a", **half}, {"name": "b", **half}]}) == {
        "memory": 3,
        "cpu": 1,
        "pods": 1,
    }


def test_absurd_amounts_are_capped_below_overflow() -> None:
    asked = {"containers": [{"name": "a", "resources": {"requests": {"memory": "9E", "cpu": "1E"}}}]}
    assert _amounts(asked) == {"memory": AMOUNT_MAX, "cpu": AMOUNT_MAX, "pods": 1}


@pytest.mark.parametrize(
    ("asked", "granted", "actual", "conditions", "expected"),
    [
        ("2", "1", "1", [], 2000),
        ("1", "1", "2", [], 2000),
        ("1", "1", "1", [], 1000),
        ("3", "1", "1", [{"type": "PodResizePending", "reason": "Infeasible"}], 1000),
    ],
)
def test_resizes_count_with_the_greatest_amount(
    asked: str, granted: str, actual: str, conditions: list[Object], expected: int
) -> None:
    running = pod("p", cpu=asked, on="n")
    status = {
        "name": "main",
        "allocatedResources": {"cpu": granted},
        "resources": {"requests": {"cpu": actual}},
    }
    running["status"] = {"containerStatuses": [status], "conditions": conditions}
    assert _amounts(running["spec"], read_resized(running))["cpu"] == expected


@pytest.mark.parametrize(
    ("asked", "granted", "actual", "reason", "expected"),
    [
        ("3", "1", "1", "", 3000),
        ("1", "1", "3", "", 3000),
        ("1", "3", "1", "", 3000),
        ("3", "1", "1", "Deferred", 3000),
        ("3", "1", "1", "Infeasible", 1000),
        ("1", "1", "1", "", 1000),
    ],
)
def test_resizes_of_what_is_asked_for_as_a_whole(
    asked: str, granted: str, actual: str, reason: str, expected: int
) -> None:
    scene = Scene(node("n"))
    running = pod("p", cpu="500m", on="n", resources={"requests": {"cpu": asked}}, overhead={"cpu": "100m"})
    running["status"] = {
        "resources": {"requests": {"cpu": actual}},
        "allocatedResources": {"cpu": granted},
        "conditions": [{"type": "PodResizePending", "reason": reason}] if reason else [],
    }
    placed = scene.pod(trim_pod(running))
    assert placed.shape.requests.amounts["cpu"] == expected + 100
    # Another with the same spec that is not being resized is not its equal.
    assert (scene.pod({**running, "status": {}}).shape is placed.shape) is (asked == granted == actual)


def test_a_resize_of_a_sidecar_counts_and_of_an_initial_container_does_not() -> None:
    spec = {
        "containers": [_container("a", cpu="1")],
        "initContainers": [_sidecar("s", cpu="1"), _container("i")],
    }
    status = {"resources": {"requests": {"cpu": "2"}}}
    statuses = [{"name": "s", **status}, {"name": "i", **status}]
    running = {"metadata": {"name": "p"}, "spec": spec, "status": {"initContainerStatuses": statuses}}
    assert _amounts(spec, read_resized(running))["cpu"] == 3000


def test_running_pods_share_the_shape_of_pending_ones() -> None:
    scene = Scene(node("n"))
    running = pod("p", cpu="1", on="n")
    running["status"] = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    pending = pod("q", cpu="1")
    pending["spec"]["volumes"] = [{"name": "kube-api-access-x7f2p", "projected": {"sources": []}}]
    assert scene.pod(running).shape is scene.pod(pending).shape
    assert scene.pod(pod("r", cpu="2")).shape is not scene.pod(pending).shape
