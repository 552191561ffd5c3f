"""When a node is under resource pressure, and which pod is evicted."""

from __future__ import annotations

import pytest

from alcove.agent import pressure
from alcove.agent.podkey import PodKey
from alcove.agent.pressure import EvictionCandidate, FreeResources, choose, over_limit
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME

GB, MB = 1 << 30, 1 << 20


def room(
    memory: int = 4 * GB, disk: int = 50 * GB, size: int = 100 * GB, processes: int = 30_000
) -> FreeResources:
    return FreeResources(memory, disk, size, processes, 32_768)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (room(), (False, False, False)),
        (room(memory=50 * MB), (True, False, False)),
        (room(disk=GB), (False, True, False)),
        (room(disk=5 * GB), (False, False, False)),
        (room(disk=GB, size=8 * GB), (False, False, False)),
        (room(processes=100), (False, False, True)),
    ],
)
def test_what_is_short(found: FreeResources, expected: tuple[bool, bool, bool]) -> None:
    assert (found.lacks_memory, found.lacks_disk, found.lacks_processes) == expected


def candidate(name: str, used_mb: int, asked_mb: int = 0, priority: int = 0) -> EvictionCandidate:
    requests = {"memory": f"{asked_mb}Mi"} if asked_mb else {}
    spec: Object = {"priority": priority, "containers": [{"name": "a", "resources": {"requests": requests}}]}
    return EvictionCandidate(PodKey(HOME, TenantId("t"), "n", name, name), spec, used_mb * MB)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate("a", 10), candidate("b", 20)], "b"),
        ([candidate("a", 100, 200), candidate("b", 20)], "b"),
        ([candidate("a", 300, 200), candidate("b", 20, priority=-1)], "b"),
        ([candidate("a", 100, 200), candidate("b", 100, 300)], "a"),
        ([candidate("a", 100, priority=2_000_000_000)], None),
        ([], None),
    ],
)
def test_which_pod_is_evicted(candidates: list[EvictionCandidate], expected: str | None) -> None:
    chosen = choose(candidates, "memory")
    assert (chosen.key.name if chosen else None) == expected


def test_limits_that_a_pod_keeps_to_or_not() -> None:
    spec: Object = {
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
        "containers": [{"name": "a", "resources": {"limits": {"ephemeral-storage": "2Mi"}}}],
    }
    assert pressure.is_measured(spec)
    assert over_limit(spec, {"v": MB}, {"a": 2 * MB}) == ""
    assert 'EmptyDir volume "v" exceeds the limit "1Mi"' in over_limit(spec, {"v": MB + 1}, {})
    assert "Container a exceeded" in over_limit(spec, {}, {"a": 2 * MB + 1})
    assert not pressure.is_measured(
        {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [{"name": "a"}]}
    )
