"""Requests and limits as cgroup values, by tables."""

import pytest

from alcove.agent.cgroups import CgroupLimits
from alcove.agent.runtime.node_processes import BYTES_PER_CONTAINER
from alcove.agent.runtime.resources import (
    PROCESSES_MAX,
    NodeCapacity,
    cgroup_limits_of,
    container_limits_of,
    oci_resources,
    oom_score,
    pod_limits_of,
    rlimits,
    shares_of,
    unenforced_limits,
    visible_resources,
)
from alcove.api.objects import Object

MACHINE = NodeCapacity(memory_bytes=4 << 30)


def container(requests: Object | None = None, limits: Object | None = None) -> Object:
    return {"resources": {"requests": requests or {}, "limits": limits or {}}}


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (250, 256), (1_000, 1_024), (10**9, 262_144)])
def test_shares(milli: int, shares: int) -> None:
    assert shares_of(milli) == shares


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        ({}, CgroupLimits(0, 2, 0, PROCESSES_MAX)),
        (container({"cpu": "250m"}), CgroupLimits(0, 256, 0, PROCESSES_MAX)),
        (container(None, {"cpu": "500m", "memory": "64Mi"}), CgroupLimits(500, 512, 64 << 20, PROCESSES_MAX)),
        (container({"cpu": 1}, {"cpu": "2"}), CgroupLimits(2_000, 1_024, 0, PROCESSES_MAX)),
    ],
)
def test_limits_of_containers(each: Object, expected: CgroupLimits) -> None:
    assert container_limits_of(each, {}) == expected


def test_a_pod_is_limited_where_all_its_containers_are() -> None:
    small = container({"cpu": "100m"}, {"cpu": "200m", "memory": "10Mi"})
    assert pod_limits_of({"containers": [small, small]}) == CgroupLimits(400, 204, 20 << 20, PROCESSES_MAX)
    assert pod_limits_of({"containers": [small, container()]}) == CgroupLimits(0, 102, 0, PROCESSES_MAX)
    no_memory = container(None, {"cpu": "1"})
    assert pod_limits_of({"containers": [small], "initContainers": [no_memory]}).memory_bytes == 0


def test_limits_that_a_sandbox_cannot_enforce_are_named() -> None:
    limited = {"name": "app", **container(None, {"cpu": "1", "memory": "64Mi"})}
    free = {"name": "side", **container()}
    message = unenforced_limits({"containers": [limited], "initContainers": [free]})
    assert message.startswith(
        "cpu limits of containers app and memory limits of containers app are not enforced"
    )
    for enforced in (
        {"containers": [limited, limited]},
        {"containers": [free, free]},
        {"containers": [limited, free], "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
    ):
        assert unenforced_limits(enforced) == ""


WHOLE: Object = {
    "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "512Mi"}}
}


def test_pod_level_limits_bind_the_pod_and_containers_without_their_own() -> None:
    own = container({"cpu": "100m"}, {"memory": "64Mi"})
    pod: Object = {**WHOLE, "containers": [own, container()], "overhead": {"cpu": "100m", "memory": "10Mi"}}
    assert pod_limits_of(pod) == CgroupLimits(2_100, 1_126, (1024 + 10) << 20, PROCESSES_MAX)
    assert container_limits_of(own, pod) == CgroupLimits(2_000, 102, 64 << 20, PROCESSES_MAX)
    assert container_limits_of({}, pod) == CgroupLimits(2_000, 2_048, 1 << 30, PROCESSES_MAX)
    assert pod_limits_of({"resources": {"limits": {"cpu": "1"}}, "containers": [{}]}).memory_bytes == 0


def test_memory_that_a_pod_requests_beyond_its_containers_counts_for_each() -> None:
    own = container({"memory": "256Mi"})
    pod: Object = {**WHOLE, "containers": [own, container()]}
    # Of 4 GiB: 256 + 128 MiB, and 128 MiB.
    assert [oom_score(pod, each, MACHINE) for each in pod["containers"]] == [907, 969]


FULL: Object = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("each", "floor", "score"),
    [
        (container(FULL, FULL), -1_000, -997),
        (container(FULL, FULL), 0, 0),
        (container(), -1_000, 1_000),
        (container({"memory": "1Gi"}), -1_000, 750),
        (container({"memory": "1Ki"}), -1_000, 999),
        (container({"memory": "4Gi"}), -1_000, 3),
        (container({"cpu": "1"}), -1_000, 999),
    ],
)
def test_who_is_killed_first(each: Object, floor: int, score: int) -> None:
    assert oom_score({"containers": [each]}, each, NodeCapacity(4 << 30, floor)) == score


def test_resources_for_a_runtime() -> None:
    assert oci_resources(CgroupLimits(500, 512, 64 << 20, 10)) == {
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {"shares": 512, "quota": 50_000, "period": 100_000},
        "memory": {"limit": 64 << 20, "swap": 64 << 20},
        "pids": {"limit": 10},
    }
    assert oci_resources(CgroupLimits(cpu_shares=2)) == {
        "devices": [{"allow": False, "access": "rwm"}],
        "cpu": {"shares": 2},
    }


def test_limits_of_open_files_are_no_higher_than_the_agent_may_set_them() -> None:
    [common] = rlimits(MACHINE)
    assert (common["type"], common["soft"], common["hard"]) == ("RLIMIT_NOFILE", 1_024, 524_288)
    [small] = rlimits(NodeCapacity(4 << 30, open_files_max=512))
    assert (small["soft"], small["hard"]) == (512, 512)


def test_a_pod_with_a_memory_limit_has_some_more_for_what_the_node_runs_for_it() -> None:
    limited = {"resources": {"limits": {"memory": "64Mi"}}}
    assert cgroup_limits_of({"containers": [limited]}).memory_bytes == (64 << 20) + 2 * BYTES_PER_CONTAINER
    assert cgroup_limits_of({"containers": [limited, {}]}).memory_bytes == 0


@pytest.mark.parametrize(("file_bytes", "left"), [(0, 64), (10 << 20, 54), (32 << 20, 32), (60 << 20, 32)])
def test_projected_files_are_taken_from_the_pods_memory_limit(file_bytes: int, left: int) -> None:
    pod = {"containers": [{"resources": {"limits": {"memory": "64Mi"}}}]}
    assert cgroup_limits_of(pod, file_bytes).memory_bytes == (left << 20) + 2 * BYTES_PER_CONTAINER
    assert cgroup_limits_of({"containers": [{}]}, file_bytes).memory_bytes == 0


@pytest.mark.parametrize(
    ("limits", "visible"),
    [
        (
            CgroupLimits(0, 2, 0, PROCESSES_MAX),
            {"cpu.shares": 2, "cpu.cfs_quota_us": -1, "memory.limit_in_bytes": (1 << 63) - 1},
        ),
        (
            CgroupLimits(500, 256, 64 << 20, PROCESSES_MAX),
            {"cpu.shares": 256, "cpu.cfs_quota_us": 50_000, "memory.limit_in_bytes": 64 << 20},
        ),
        (
            CgroupLimits(0, 1_024, 0, PROCESSES_MAX),
            {"cpu.shares": 1_024, "cpu.cfs_quota_us": -1, "memory.limit_in_bytes": (1 << 63) - 1},
        ),
    ],
)
def test_what_a_container_sees_of_its_limits(limits: CgroupLimits, visible: dict[str, int]) -> None:
    assert visible_resources(oci_resources(limits)) == visible
