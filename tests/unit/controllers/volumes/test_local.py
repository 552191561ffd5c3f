"""Local volumes: for which claims, and what they look like."""

from typing import Any

import pytest

from alcove.api import local_volumes
from alcove.api.objects import Object
from alcove.controllers.volumes import facts, local

CLASS = {"provisioner": "alcove.io/local", "volumeBindingMode": "WaitForFirstConsumer"}
PICKED = {facts.SELECTED_NODE: "n1"}


def claim(annotations: Object | None = None, deleted: bool = False, **spec: Any) -> Object:
    metadata: Object = {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "1"}
    metadata["annotations"] = PICKED if annotations is None else annotations
    if deleted:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "5Gi"}},
    }
    return {"metadata": metadata, "spec": {**wanted, **spec}}


@pytest.mark.parametrize(
    ("wanted", "chosen", "expected"),
    [
        (claim(), CLASS, True),
        (claim({}), CLASS, False),
        (claim({}), {**CLASS, "volumeBindingMode": "Immediate"}, True),
        (claim(), {**CLASS, "provisioner": "other"}, False),
        (claim(), None, False),
        (claim(volumeName="v"), CLASS, False),
        (claim(deleted=True), CLASS, False),
    ],
)
def test_when_one_is_wanted(wanted: Object, chosen: Object | None, expected: bool) -> None:
    assert local.wants(wanted, chosen) is expected


@pytest.mark.parametrize(
    ("wanted", "chosen", "message"),
    [
        (claim(), CLASS, ""),
        (claim(accessModes=["ReadWriteOncePod"]), CLASS, ""),
        (claim(accessModes=["ReadWriteMany", "ReadWriteOnce"]), CLASS, "local volumes: ReadWriteMany"),
        (claim(volumeMode="Block"), CLASS, "volumeMode Block"),
        (claim(selector={}), CLASS, "selector"),
        (claim(dataSourceRef={"kind": "VolumeSnapshot", "name": "s"}), CLASS, "data source"),
        (claim(), {**CLASS, "volumeBindingMode": "Immediate"}, "WaitForFirstConsumer"),
    ],
)
def test_what_cannot_be_had(wanted: Object, chosen: Object, message: str) -> None:
    found = local.find_problem(wanted, chosen)
    assert message in found and bool(message) == bool(found)


def test_the_volume() -> None:
    made = local.volume(claim(), CLASS, "n1")
    assert made["metadata"]["name"] == "pvc-u" and local_volumes.is_local(made)
    assert local_volumes.node_of(made) == "n1" and local_volumes.FINALIZER in made["metadata"]["finalizers"]
    assert facts.is_meant_for(made, claim()) and facts.capacity(made) == facts.requested(claim())
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
    retained = local.volume(claim(), {**CLASS, "reclaimPolicy": "Retain"}, "n1")
    assert retained["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
