"""Pods in gVisor on a real node: memory volumes and sysctls, which it makes in a kernel of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alcove.api.objects import Object
from alcove.testing.cluster import (
    PODS,
    RealCluster,
    condition,
    create,
    ended,
    lacking,
    log_of,
    pod,
    ready,
    remove,
    until,
)
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("gvisor")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    return cluster.make_tenant("acme")


def container(name: str, command: str, *mounts: Object) -> Object:
    image = {"name": name, "image": "alcove/busybox", "command": ["sh", "-c", command]}
    return {**image, "volumeMounts": list(mounts)}


def test_memory_volumes_are_a_tmpfs_of_their_size_that_containers_share(
    cluster: RealCluster, acme: Caller
) -> None:
    wanted = pod("memory", restartPolicy="Never", securityContext={"fsGroup": 77, "runAsUser": 1000})
    cache = {"name": "cache", "mountPath": "/cache"}
    wanted["spec"] |= {
        "volumes": [{"name": "cache", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
        "initContainers": [container("first", "echo hello >/cache/word", cache)],
        "containers": [
            container(
                "main",
                "grep ' /cache ' /proc/mounts; cat /cache/word; stat -c '%a %g' /cache;"
                "dd if=/dev/zero of=/cache/big bs=4096 count=1000 2>/dev/null; stat -c %s /cache/big;"
                "rm /cache/big; touch /cache/go; until grep -q answer /cache/reply 2>/dev/null; do sleep 0.2; done",
                cache,
            ),
            container(
                "second",
                "until test -e /other/go; do sleep 0.2; done; echo answer >/other/reply",
                {"name": "cache", "mountPath": "/other"},
            ),
            container("reader", "echo x >/cache/no || echo refused", {**cache, "readOnly": True}),
        ],
    }
    uid = create(acme, wanted)
    found = ended(acme, "memory", 120)
    assert found["status"]["phase"] == "Succeeded"
    mounted, word, mode, size = log_of(cluster, uid)
    assert " tmpfs " in mounted and word == "hello"
    assert mode == "2777 77" and int(size) <= 1 << 20
    assert "refused" in log_of(cluster, uid, "reader")
    remove(acme, "memory")


def test_what_is_in_memory_outlives_a_container_but_not_its_pod(cluster: RealCluster, acme: Caller) -> None:
    command = "test -e /cache/twice && { cat /cache/twice; sleep 1000; }; echo kept >/cache/twice; exit 1"
    for _ in range(2):
        wanted = pod("kept", restartPolicy="Always")
        wanted["spec"]["volumes"] = [{"name": "cache", "emptyDir": {"medium": "Memory"}}]
        wanted["spec"]["containers"] = [container("main", command, {"name": "cache", "mountPath": "/cache"})]
        uid = create(acme, wanted)
        until(acme, "kept", lambda found: _restarts(found) == 1, 120)
        until(acme, "kept", lambda found: "running" in found["status"]["containerStatuses"][0]["state"])
        wait_until(lambda uid=uid: log_of(cluster, uid, attempt=1) == ["kept"])
        remove(acme, "kept")


def test_a_part_of_a_memory_volume_is_shared_too(cluster: RealCluster, acme: Caller) -> None:
    wanted = pod("divided", restartPolicy="Never")
    whole, part = {"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/part", "subPath": "part"}
    wanted["spec"] |= {
        "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        "initContainers": [container("first", "echo word >/part/file", part)],
        "containers": [container("main", "cat /v/part/file", whole)],
    }
    uid = create(acme, wanted)
    ended(acme, "divided", 120)
    assert log_of(cluster, uid) == ["word"]
    remove(acme, "divided")


def _restarts(found: Object) -> int:
    statuses = (found.get("status") or {}).get("containerStatuses") or [{}]
    return int(statuses[0].get("restartCount", 0))


def test_sysctls_that_gvisor_has_are_set_before_containers_start(cluster: RealCluster, acme: Caller) -> None:
    settings = {
        "net.ipv4.ip_local_port_range": "20000 30000",
        "net.ipv4.tcp_rmem": "4096 87380 2000000",
        "net.ipv4.ip_unprivileged_port_start": "0",
    }
    sysctls = [{"name": name, "value": value} for name, value in settings.items()]
    wanted = pod(
        "tuned",
        "cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/net/ipv4/tcp_rmem",
        restartPolicy="Never",
        securityContext={"sysctls": sysctls},
    )
    uid = create(acme, wanted)
    assert ended(acme, "tuned", 120)["status"]["phase"] == "Succeeded"
    expected = [each.split() for each in settings.values()][:2]
    assert [line.split() for line in log_of(cluster, uid)] == expected
    remove(acme, "tuned")


LIMITS = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us | xargs"


def test_limits_are_visible_inside_and_so_is_their_change(cluster: RealCluster, acme: Caller) -> None:
    wanted = pod("sized", f"while true; do {LIMITS}; sleep 0.5; done")
    amounts = {"memory": "64Mi", "cpu": "100m"}
    wanted["spec"]["containers"][0]["resources"] = {"limits": amounts, "requests": amounts}
    uid = create(acme, wanted)
    ready(acme, "sized", 120)
    wait_until(lambda: log_of(cluster, uid)[-1] == f"{64 << 20} 10000")
    more = {"memory": "96Mi", "cpu": "200m"}
    resized = {"spec": {"containers": [{"name": "main", "resources": {"limits": more, "requests": more}}]}}
    answer = acme.patch(f"{PODS}/sized/resize", resized, "strategic-merge-patch+json")
    assert answer.status == 200, answer.body
    wait_until(lambda: log_of(cluster, uid)[-1] == f"{96 << 20} 20000", 120)
    status = until(acme, "sized", lambda found: _allocated(found) == more)["status"]
    assert status["containerStatuses"][0]["restartCount"] == 0
    huge = {"memory": "96Mi", "cpu": "1000"}
    resized["spec"]["containers"][0]["resources"] = {"limits": huge, "requests": huge}
    assert acme.patch(f"{PODS}/sized/resize", resized, "strategic-merge-patch+json").status == 200
    found = until(acme, "sized", lambda found: condition(found, "PodResizePending") == "True")
    reasons = {each["type"]: each.get("reason") for each in found["status"]["conditions"]}
    assert reasons["PodResizePending"] == "Infeasible" and _allocated(found) == more
    less = {"memory": "64Mi", "cpu": "50m"}
    resized["spec"]["containers"][0]["resources"] = {"limits": less, "requests": less}
    assert acme.patch(f"{PODS}/sized/resize", resized, "strategic-merge-patch+json").status == 200
    until(acme, "sized", lambda found: _allocated(found) == less)
    until(acme, "sized", lambda found: not condition(found, "PodResizePending"))
    wait_until(lambda: log_of(cluster, uid)[-1] == f"{64 << 20} 5000", 120)
    remove(acme, "sized")


def _allocated(found: Object) -> Object | None:
    allocated: Object | None = found["status"]["containerStatuses"][0].get("allocatedResources")
    return allocated


@pytest.mark.parametrize("name", ["kernel.shm_rmid_forced", "net.ipv4.tcp_keepalive_time"])
def test_a_sysctl_that_gvisor_has_not_is_not_ignored(acme: Caller, name: str) -> None:
    context = {"sysctls": [{"name": name, "value": "1"}]}
    create(acme, pod("refused", restartPolicy="Never", securityContext=context))
    status = ended(acme, "refused", 120)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "SysctlForbidden")
    assert status["message"] == (
        f'sysctl {name} cannot be set to "1" by gvisor: use a RuntimeClass with handler crun or runc'
    )
    remove(acme, "refused")


def test_a_message_from_the_log_and_init_containers_are_reported_as_by_the_kubelet(
    cluster: RealCluster, acme: Caller
) -> None:
    wanted = pod("talks", "echo -n DONE; exit 1", restartPolicy="Never")
    wanted["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    # The first goes on when the test has seen it.
    gate = {"name": "gate", "mountPath": "/gate"}
    wanted["spec"]["volumes"] = [{"name": "gate", "emptyDir": {}}]
    wanted["spec"]["initContainers"] = [
        container("one", "until test -e /gate/open; do sleep 0.1; done", gate),
        container("two", "true"),
    ]
    create(acme, wanted)
    running = until(acme, "talks", lambda found: "running" in _state(found, "initContainerStatuses", 0), 120)
    waiting = {"waiting": {"reason": "PodInitializing"}}
    assert _state(running, "initContainerStatuses", 1) == _state(running, "containerStatuses", 0) == waiting
    [folder] = (cluster.nodes[0].data / "volumes/pods").glob("*/empty/gate")
    (folder / "open").touch()
    assert _state(ended(acme, "talks", 120), "containerStatuses", 0)["terminated"]["message"] == "DONE"
    assert acme.get(f"{PODS}/talks").json["status"]["phase"] == "Failed"
    remove(acme, "talks")


def _state(found: Object, field: str, number: int) -> Object:
    statuses = (found.get("status") or {}).get(field) or []
    state: Object = statuses[number]["state"] if len(statuses) > number else {}
    return state
