"""What is next for claims and volumes, by tables."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.controllers.volumes import facts, plan
from alcove.controllers.volumes.plan import BindClaim, ClaimContext, ClaimLost, VolumePhase, WaitForVolume


def claim(name: str = "c", *, uid: str = "u", annotations: Object | None = None, **spec: Any) -> Object:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": spec.pop("size", "1Gi")}},
        **spec,
    }
    metadata = {"name": name, "namespace": "n", "uid": uid, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": wanted}


def volume(name: str = "v", size: str = "1Gi", *, labels: Object | None = None, **spec: Any) -> Object:
    metadata: Object = {"name": name, "labels": labels or {}, "annotations": spec.pop("annotations", {})}
    wanted = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, **spec}
    return {"metadata": metadata, "spec": wanted, "status": {"phase": "Available"}}


def ref(name: str = "c", uid: str = "u", namespace: str = "n") -> Object:
    return {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})}


def a_class(provisioner: str = "p", mode: str = "Immediate") -> Object:
    return {"metadata": {"name": "k"}, "provisioner": provisioner, "volumeBindingMode": mode}


DONE = {facts.BIND_COMPLETED: "yes"}
DELAYED = a_class("alcove.io/local", "WaitForFirstConsumer")
PICKED = {facts.SELECTED_NODE: "node"}


@pytest.mark.parametrize(
    ("wanted", "free", "expected"),
    [
        (claim(), [volume("large", "9Gi"), volume("small", "1Gi"), volume("mid", "2Gi")], "small"),
        (claim(size="2Gi"), [volume("small", "1Gi"), volume("mid", "2Gi")], "mid"),
        (claim(size="20Gi"), [volume("small", "1Gi")], None),
        (claim(storageClassName="k"), [volume("plain")], None),
        (claim(storageClassName="k"), [volume("k", storageClassName="k")], "k"),
        (claim(), [volume("k", storageClassName="k")], None),
        (claim(accessModes=["ReadWriteMany"]), [volume("once")], None),
        (claim(), [volume("many", accessModes=["ReadWriteMany", "ReadWriteOnce"])], "many"),
        (claim(volumeMode="Block"), [volume("files")], None),
        (claim(volumeMode="Block"), [volume("blocks", volumeMode="Block")], "blocks"),
        (claim(selector={"matchLabels": {"a": "1"}}), [volume("b", labels={"a": "2"})], None),
        (claim(selector={"matchLabels": {"a": "1"}}), [volume("a", labels={"a": "1"})], "a"),
        (claim(selector={"matchExpressions": [{"key": "a", "operator": "Odd"}]}), [volume("a")], None),
    ],
)
def test_the_smallest_that_fits(wanted: Object, free: list[Object], expected: str | None) -> None:
    next_ = plan.for_claim(wanted, ClaimContext(free=free, chosen=a_class()))
    assert (next_.volume["metadata"]["name"] if isinstance(next_, BindClaim) else None) == expected


@pytest.mark.parametrize(
    ("meant", "takes"),
    [
        (volume(claimRef=ref()), True),
        (volume(claimRef=ref(uid="")), True),
        (volume(claimRef=ref(uid="another")), False),
        (volume(claimRef=ref(namespace="other")), False),
        (volume(size="1Mi", claimRef=ref()), False),
        (volume(claimRef=ref(), volumeMode="Block"), False),
    ],
)
def test_a_volume_that_names_the_claim_comes_first(meant: Object, takes: bool) -> None:
    free = [volume("smaller")]
    for chosen in (a_class(), DELAYED):
        next_ = plan.for_claim(claim(), ClaimContext(meant=[meant], free=free, chosen=chosen))
        assert (next_ == BindClaim(meant)) is takes


def test_free_volumes_of_a_class_that_waits_are_the_schedulers() -> None:
    wanted = claim(storageClassName="k")
    around = ClaimContext(free=[volume(storageClassName="k")], chosen=DELAYED)
    planned = plan.for_claim(wanted, around)
    assert (
        isinstance(planned, WaitForVolume)
        and planned.event is not None
        and planned.event.reason == "WaitForFirstConsumer"
    )
    user = {"metadata": {"name": "web"}}
    planned = plan.for_claim(wanted, ClaimContext(chosen=DELAYED, user=user))
    assert isinstance(planned, WaitForVolume) and planned.event is not None
    assert (planned.event.reason, planned.event.message) == (
        "WaitForPodScheduled",
        "waiting for pod web to be scheduled",
    )


@pytest.mark.parametrize(
    ("wanted", "around", "reason", "provisioner"),
    [
        (claim(), ClaimContext(), "FailedBinding", ""),
        (claim(storageClassName=""), ClaimContext(default_class="k"), "FailedBinding", ""),
        (claim(storageClassName="k"), ClaimContext(), "ProvisioningFailed", ""),
        (claim(storageClassName="k"), ClaimContext(chosen=a_class("ebs")), "ExternalProvisioning", "ebs"),
        (
            claim(storageClassName="k"),
            ClaimContext(chosen=a_class(facts.NO_PROVISIONER)),
            "ProvisioningFailed",
            "",
        ),
        (
            claim(storageClassName="k", annotations=PICKED),
            ClaimContext(chosen=DELAYED),
            "",
            "alcove.io/local",
        ),
        (claim(volumeName="v"), ClaimContext(), "", ""),
        (claim(volumeName="v"), ClaimContext(named=volume(size="1Mi")), "VolumeMismatch", ""),
        (claim(volumeName="v"), ClaimContext(named=volume(claimRef=ref("other"))), "FailedBinding", ""),
    ],
)
def test_what_a_claim_waits_for(wanted: Object, around: ClaimContext, reason: str, provisioner: str) -> None:
    next_ = plan.for_claim(wanted, around)
    assert isinstance(next_, WaitForVolume)
    assert (next_.event.reason if next_.event else "", next_.provisioner) == (reason, provisioner)


def test_a_claim_without_a_class_takes_the_default_once_there_is_one() -> None:
    assert plan.for_claim(claim(), ClaimContext(default_class="k")) == WaitForVolume(takes_class="k")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (volume(), BindClaim),
        (volume(claimRef=ref()), BindClaim),
        (volume(claimRef=ref(uid="")), BindClaim),
        (volume(claimRef=ref(uid="another")), "ClaimMisbound"),
        (volume(claimRef=ref("other", "x")), "ClaimMisbound"),
        (None, "ClaimLost"),
    ],
)
def test_a_claim_that_was_bound(named: Object | None, expected: Any) -> None:
    next_ = plan.for_claim(claim(annotations=DONE, volumeName="v"), ClaimContext(named=named))
    assert next_.event.reason == expected if isinstance(next_, ClaimLost) else isinstance(next_, expected)


def test_a_bound_claim_that_names_nothing_is_lost() -> None:
    assert isinstance(plan.for_claim(claim(annotations=DONE), ClaimContext()), ClaimLost)


MADE = {facts.PROVISIONED_BY: "p"}


@pytest.mark.parametrize(
    ("found", "its_claim", "fate"),
    [
        (volume(), None, VolumePhase.FREE),
        (volume(claimRef=ref(uid="")), None, VolumePhase.FREE),
        (volume(claimRef=ref()), None, VolumePhase.RELEASED),
        (volume(claimRef=ref()), claim(uid="another"), VolumePhase.RELEASED),
        (volume(claimRef=ref()), claim(), VolumePhase.HELD),
        (volume(claimRef=ref()), claim(volumeName="v"), VolumePhase.BOUND),
        (volume(claimRef=ref()), claim(volumeName="w"), VolumePhase.UNBOUND),
        (
            volume(claimRef=ref(), annotations=MADE, persistentVolumeReclaimPolicy="Delete"),
            claim(volumeName="w"),
            VolumePhase.RELEASED,
        ),
        (
            volume(claimRef=ref(), annotations=MADE, persistentVolumeReclaimPolicy="Retain"),
            claim(volumeName="w"),
            VolumePhase.UNBOUND,
        ),
    ],
)
def test_the_fate_of_a_volume(found: Object, its_claim: Object | None, fate: VolumePhase) -> None:
    assert plan.for_volume(found, its_claim) is fate
