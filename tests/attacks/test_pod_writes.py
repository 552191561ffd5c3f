"""A tenant with code in a pod tries to fill the node's disk and its inodes, and to get onto nodes that it may not use.

It loses its own pods; those of a stranger on the same node run on."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from alcove.agent.pods import files
from alcove.api.objects import Object
from alcove.testing.cluster import PODS, RealCluster, create, ended, lacking, log_of, pod, ready, remove
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

FILES_MAX, STORAGE_MAX = 2_000, "50Mi"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    options = ("--pod-files-max", str(FILES_MAX), "--pod-storage-max", STORAGE_MAX)
    with RealCluster(tmp_path_factory.mktemp("writes"), 1, *options) as running:
        yield running


@pytest.fixture(scope="module")
def hostile(cluster: RealCluster) -> Caller:
    return cluster.make_tenant("hostile")


@pytest.fixture(scope="module")
def quiet(cluster: RealCluster) -> Iterator[Caller]:
    """A stranger whose pod must not notice anything."""
    caller = cluster.make_tenant("quiet")
    create(caller, pod("quiet"))
    ready(caller, "quiet")
    yield caller
    found = caller.get(f"{PODS}/quiet").json
    assert found["status"]["phase"] == "Running"
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


def test_files_that_the_node_makes_for_a_pod_take_no_more_than_their_space(
    cluster: RealCluster, hostile: Caller, quiet: Caller
) -> None:
    paths = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log")
    fill = "; ".join(f"dd if=/dev/zero of={path} bs=65536 count=1000 2>/dev/null; echo $?" for path in paths)
    uid = create(hostile, pod("filler", f"{fill}; echo filled; sleep 1000"))
    ready(hostile, "filler")
    data = cluster.nodes[0].data
    wait_until(lambda: "filled" in log_of(cluster, uid))
    assert log_of(cluster, uid) == ["1", "1", "1", "1", "filled"]
    sizes = [path.stat().st_size for path in (data / "pods" / uid).rglob("*") if path.is_file()]
    assert sum(sizes) < 2 * files.SPACE_BYTES_MAX
    assert os.path.ismount(data / "pods" / uid / "files")
    remove(hostile, "filler")
    wait_until(lambda: not (data / "pods" / uid).exists())


GREEDY = {
    "files": f"mkdir /v/d; cd /v/d; seq {2 * FILES_MAX} | xargs touch",
    "layer-files": f"mkdir /d; cd /d; seq {2 * FILES_MAX} | xargs touch",
    "bytes": "dd if=/dev/zero of=/v/x bs=1M count=60",
    "layer-bytes": "dd if=/dev/zero of=/x bs=1M count=60",
}


def test_pods_that_take_too_much_of_the_disk_are_evicted(hostile: Caller, quiet: Caller) -> None:
    """Their priority and their limits, which they chose themselves, do not help them."""
    for name, command in GREEDY.items():
        wanted = pod(name, f"{command}; sleep 1000")
        wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
        wanted["spec"]["containers"][0] |= {
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "resources": {"limits": {"ephemeral-storage": "1Ti"}, "requests": {"ephemeral-storage": "1"}},
        }
        create(hostile, wanted)
    for name in GREEDY:
        found = ended(hostile, name, 100)
        assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "Evicted")
        assert "that this node allows a pod" in found["status"]["message"]
    remove(hostile, *GREEDY)


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"reserved-for": "others"}}, "NodeAffinity"),
        ({"nodeSelector": {"kubernetes.io/arch": "s390x"}}, "NodeAffinity"),
        ({"os": {"name": "windows"}}, "PodOSNotSupported"),
    ],
)
def test_a_pod_that_names_its_node_itself_is_admitted_as_any_other(
    hostile: Caller, quiet: Caller, spec: Object, reason: str
) -> None:
    create(hostile, pod("picky", nodeName="n1", **spec))
    found = ended(hostile, "picky")
    assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", reason)
    remove(hostile, "picky")
