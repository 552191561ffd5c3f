"""What pods ask for: running pods whose resources are being changed count with the greater amount."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.amounts import AMOUNT_MAX
from alcove.scheduler.requests import read_requests, read_resized
from alcove.testing.scheduling import Scene, node, pod


def _amounts(spec: Object, resized: dict[str, dict[str, Any]] | None = None) -> dict[str, int]:
    return dict(read_requests(spec, resized or {}).amounts)


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


def test_running_pods_share_the_shape_of_pending_ones() -> None:
    scene = Scene(node("n"))
    running = pod("p", cpu="1", on="n")
    running["status"] = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}
    pending = pod("q", cpu="1")
    pending["spec"]["volumes"] = [{"name": "kube-api-access-x7f2p", "projected": {"sources": []}}]
    assert scene.pod(running).shape is scene.pod(pending).shape
    assert scene.pod(pod("r", cpu="2")).shape is not scene.pod(pending).shape
