"""When a node is under resource pressure, and which pod is evicted."""

from __future__ import annotations

import pytest

from alcove.agent import pressure
from alcove.agent.file_trees import TreeUsage
from alcove.agent.pod_storage import PodStorage
from alcove.agent.podkey import PodKey
from alcove.agent.pressure import EvictionCandidate, FreeResources, StorageBounds, choose, over_limit
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


def of_tenant(
    tenant: str, name: str, used_mb: int, asked_mb: int = 0, priority: int = 0
) -> EvictionCandidate:
    made = candidate(name, used_mb, asked_mb, priority)
    return EvictionCandidate(PodKey(HOME, TenantId(tenant), "n", name, name), made.spec, made.used)


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([candidate("a", 10), candidate("b", 20)], "b"),
        ([candidate("a", 100, 200), candidate("b", 20)], "b"),
        ([candidate("a", 300, 200), candidate("b", 20, priority=-1)], "b"),
        ([candidate("a", 100, 200), candidate("b", 100, 300)], "a"),
        ([of_tenant("system", "a", 100, priority=2_000_000_000)], None),
        ([], None),
    ],
)
def test_which_pod_is_evicted(candidates: list[EvictionCandidate], expected: str | None) -> None:
    chosen = choose(candidates, "memory")
    assert (chosen.key.name if chosen else None) == expected


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        # A high priority protects a pod from its tenant's other pods only.
        ([of_tenant("a", "a1", 900, priority=1_000_000), of_tenant("b", "b1", 10)], "a1"),
        ([of_tenant("a", "a1", 900, priority=2_000_000_001), of_tenant("b", "b1", 10)], "a1"),
        # Many small pods are as much as one large one.
        ([*(of_tenant("a", f"a{n}", 10) for n in range(9)), of_tenant("b", "b1", 50)], "a0"),
        # A pod within its requests does not cover for one without: the tenant's sum decides.
        ([of_tenant("a", "a1", 100, 1_000), of_tenant("a", "a2", 800), of_tenant("b", "b1", 50)], "b1"),
        ([of_tenant("a", "a1", 900, 500), of_tenant("a", "a2", 10), of_tenant("b", "b1", 50)], "a1"),
        ([of_tenant("system", "s1", 900, priority=2_000_000_000), of_tenant("b", "b1", 50)], "b1"),
    ],
)
def test_the_tenant_that_is_most_above_its_requests_goes_first(
    candidates: list[EvictionCandidate], expected: str
) -> None:
    chosen = choose(candidates, "memory")
    assert chosen is not None and chosen.key.name == expected


def test_inodes_run_out_before_bytes_do() -> None:
    assert FreeResources(GB, 50 * GB, 100 * GB, 30_000, 32_768, 1_000, 6_000_000).lacking == "inodes"
    assert FreeResources(GB, 50 * GB, 100 * GB, 30_000, 32_768, 300_000, 6_000_000).lacking == ""
    assert FreeResources(GB, 50 * GB, 100 * GB, 30_000, 32_768, 0, 0).lacking == "", "no fixed number"


BOUNDS = StorageBounds(10 * MB, 1_000)


def test_limits_that_a_pod_keeps_to_or_not() -> None:
    spec: Object = {
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
        "containers": [{"name": "a", "resources": {"limits": {"ephemeral-storage": "2Mi"}}}],
    }

    def why(volume: int, container: int) -> str:
        return over_limit(spec, PodStorage({"v": TreeUsage(volume)}, {"a": TreeUsage(container)}), BOUNDS)

    assert why(MB, MB) == ""
    assert 'EmptyDir volume "v" exceeds the limit "1Mi"' in why(MB + 1, 0)
    assert "Container a exceeded" in why(0, 2 * MB + 1)
    assert "total limit of containers 2Mi" in why(MB, 2 * MB)


@pytest.mark.parametrize(
    ("usage", "requested", "message"),
    [
        (TreeUsage(10 * MB, 1_000), "", ""),
        (TreeUsage(10 * MB + 1), "", "exceeds the 10485760 bytes"),
        (TreeUsage(20 * MB), "20Mi", ""),
        (TreeUsage(20 * MB + 1), "20Mi", "exceeds"),
        (TreeUsage(0, 1_001), "20Mi", "more than the 1000 files"),
        (TreeUsage(0, 5, is_cut=True), "", "more than the 1000 files"),
    ],
)
def test_a_pod_without_limits_has_those_of_the_node(usage: TreeUsage, requested: str, message: str) -> None:
    """A limit that the tenant sets higher than its request does not raise them."""
    resources: Object = {"limits": {"ephemeral-storage": "1Ti"}}
    if requested:
        resources["requests"] = {"ephemeral-storage": requested}
    spec: Object = {"containers": [{"name": "a", "resources": resources}]}
    found = over_limit(spec, PodStorage({"v": usage}), BOUNDS)
    assert message in found and bool(message) == bool(found)


def test_a_pod_gets_at_most_a_quarter_of_a_small_disk() -> None:
    assert StorageBounds().on(room(size=8 * GB)) == StorageBounds(2 * GB, pressure.POD_FILES_MAX)
