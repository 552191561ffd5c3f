"""A node whose disk is really full: pulls and writes fail with words, the pod that filled it goes, nobody else notices,
and when there is room again everything goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pytest

from alcove.agent.images import builtin
from alcove.api.objects import Object
from alcove.testing import needs
from alcove.testing.cluster import (
    PODS,
    RealCluster,
    RealNode,
    condition,
    create,
    ended,
    lacking,
    pod,
    ready,
    remove,
    until,
)
from alcove.testing.registry import LocalImageRegistry
from alcove.testing.server import Caller, wait_until

_WHY = lacking() or needs.tools("skopeo", "umoci")
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(_WHY), reason=_WHY or "-")]

CLASS = "/apis/node.k8s.io/v1/runtimeclasses"
SIZE_BYTES = 128 << 20
CHUNK = bytes(1 << 20)
ANYWHERE = [{"operator": "Exists"}]
"""Tolerates the taint that a node with a full disk gets."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="alcove-full-") as name:
        yield Path(name)


class SmallDisk(RealCluster):
    """Its node has a small disk of its own; `image` is one that no node has yet."""

    image = ""


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[SmallDisk]:
    node = RealNode(folder, "n1")
    with LocalImageRegistry({"shop/web": _image(folder)}, address=node.gateway) as registry:
        made = SmallDisk(folder, 0, "--insecure-registry", registry.host)
        made.nodes.append(node)
        made.image = f"{registry.host}/shop/web:x"
        node.data.mkdir()
        options = f"size={SIZE_BYTES},mode=711"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", node.data], check=True)
        try:
            with made:
                yield made
        finally:
            subprocess.run(["umount", "-l", node.data], check=False, capture_output=True)


def _image(folder: Path) -> Path:
    """One that is on no node yet."""
    rootfs, layout = folder / "rootfs", folder / "layout"
    rootfs.mkdir()
    builtin.build(builtin.find(), rootfs)
    (rootfs / "big").write_bytes(os.urandom(1 << 20))
    for words in (
        ("init", "--layout", layout),
        ("new", "--image", f"{layout}:x"),
        ("insert", "--image", f"{layout}:x", rootfs, "/"),
    ):
        subprocess.run(["umoci", *map(str, words)], check=True, capture_output=True)
    shutil.rmtree(rootfs)
    return layout


@pytest.fixture(scope="module")
def acme(cluster: SmallDisk) -> Caller:
    caller = cluster.make_tenant("acme")
    for each in (caller, cluster.server.system):
        assert each.post(CLASS, {"metadata": {"name": "crun"}, "handler": "crun"}).status == 201
    return caller


class Ballast:
    """A file that is no pod's and leaves not a byte of the node's disk. A thread takes whatever becomes free, until
    `hold`: then the file shrinks to what it was when the disk was first full."""

    def __init__(self, cluster: SmallDisk) -> None:
        self._path = cluster.nodes[0].data / "ballast"
        self._is_held = threading.Event()

    def __enter__(self) -> Self:
        self._file = self._path.open("wb", buffering=0)
        self._fill()
        self._size_bytes = self._file.tell()
        self._thread = threading.Thread(target=self._keep_full, daemon=True)
        self._thread.start()
        return self

    def hold(self) -> None:
        self._is_held.set()
        self._thread.join()
        os.truncate(self._path, self._size_bytes)

    def __exit__(self, *_: object) -> None:
        self._is_held.set()
        self._thread.join()
        self._file.close()
        self._path.unlink()

    def _fill(self) -> None:
        with suppress(OSError):
            while True:
                self._file.write(CHUNK)

    def _keep_full(self) -> None:
        # Before others find what becomes free: an evicted pod's files are removed one by one.
        while not self._is_held.wait(0.002):
            self._fill()


def event_messages(caller: Caller, name: str, reason: str) -> list[str]:
    found = caller.get("/api/v1/namespaces/default/events").json["items"]
    return [
        each["message"]
        for each in found
        if (each["involvedObject"]["name"], each["reason"]) == (name, reason)
    ]


def writes(name: str, size_bytes: int) -> Object:
    """A pod that keeps so much in a volume of its own."""
    wanted = pod(
        name, f"head -c {size_bytes} /dev/zero > /v/x; touch /v/done; sleep 1000", runtimeClassName="crun"
    )
    wanted["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    wanted["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/v/done"]}, "periodSeconds": 1},
    }
    return wanted


def has_pressure(cluster: SmallDisk) -> bool:
    node = cluster.server.system.get("/api/v1/nodes/n1").json
    return condition(node, "DiskPressure") == "True"


def taints(cluster: SmallDisk) -> list[str]:
    node = cluster.server.system.get("/api/v1/nodes/n1").json
    return [each["key"] for each in node["spec"].get("taints") or ()]


def test_the_one_that_filled_it_goes_and_others_do_not_notice(cluster: SmallDisk, acme: Caller) -> None:
    looked_after = pod("looked-after", "sleep 1000", runtimeClassName="crun")
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 60}
    looked_after["spec"]["containers"][0]["livenessProbe"] = probe
    create(acme, looked_after)
    create(acme, writes("fat", 30 << 20))
    ready(acme, "looked-after")
    ready(acme, "fat")
    with Ballast(cluster) as ballast:
        # Late comers: one that needs an image, one that needs only room.
        foreign = pod("foreign", runtimeClassName="crun", tolerations=ANYWHERE)
        foreign["spec"]["containers"][0]["image"] = cluster.image
        create(acme, foreign)
        create(acme, pod("late", runtimeClassName="crun", tolerations=ANYWHERE))
        # Whether or not the node evicts before they are set up, they find no room.
        wait_until(lambda: event_messages(acme, "late", "FailedMount"))
        ballast.hold()
        assert event_messages(acme, "late", "FailedMount")[0].endswith("No space left on device")
        found = ended(acme, "fat")
        assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", "Evicted")
        assert "low on resource: ephemeral-storage" in found["status"]["message"]
        wait_until(lambda: has_pressure(cluster))
        wait_until(lambda: "node.kubernetes.io/disk-pressure" in taints(cluster))
        # What it had is free again: who waited goes on.
        ready(acme, "late")
        ready(acme, "foreign")
    ready(acme, "looked-after")
    found = acme.get(f"{PODS}/looked-after").json
    why = [
        f"{each['reason']}: {each['message']}"
        for each in acme.get("/api/v1/namespaces/default/events").json["items"]
        if each["involvedObject"]["name"] == "looked-after"
    ]
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0, why
    assert "worker failed" not in cluster.agents["n1"].log
    assert "never retrieved" not in cluster.agents["n1"].log
    remove(acme, "fat", "late", "foreign", "looked-after")


def test_a_pull_that_has_no_room_says_so(cluster: SmallDisk, acme: Caller) -> None:
    """Pulls keep some room free for what already runs."""
    for path in (cluster.nodes[0].data / "images").glob("*/rootfs/big"):
        shutil.rmtree(path.parents[1])  # As if it had never been here.
    data = cluster.nodes[0].data
    ballast = data / "ballast"
    free = os.statvfs(data)
    ballast.write_bytes(bytes(free.f_bavail * free.f_frsize - (SIZE_BYTES // 50)))
    try:
        foreign = pod("unfetched", runtimeClassName="crun", tolerations=ANYWHERE)
        foreign["spec"]["containers"][0] |= {"image": cluster.image, "imagePullPolicy": "Always"}
        create(acme, foreign)

        def waits(found: Object) -> bool:
            statuses = found["status"].get("containerStatuses") or [{}]
            reason = statuses[0].get("state", {}).get("waiting", {}).get("reason")
            return reason in ("ErrImagePull", "ImagePullBackOff")

        until(acme, "unfetched", waits)
        [first, *_] = event_messages(acme, "unfetched", "Failed")
        assert "no space left on device" in first
        assert str(data) not in first
    finally:
        ballast.unlink()
    ready(acme, "unfetched")
    remove(acme, "unfetched")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_pods_come_again_when_there_is_room(cluster: SmallDisk, acme: Caller) -> None:
    """A minute after: what comes and goes must not bring pods."""
    with Ballast(cluster):
        wait_until(lambda: has_pressure(cluster))
        create(acme, pod("waits", runtimeClassName="crun"))
        wait_until(lambda: event_messages(acme, "waits", "FailedScheduling"))
    wait_until(lambda: not has_pressure(cluster), 120)
    ready(acme, "waits")
    remove(acme, "waits")
