"""What is next for claims and volumes, by tables."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.controllers.volumes import facts, plan
from alcove.controllers.volumes.plan import Around, Bind, Fate, Lost, Wait


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
    next_ = plan.for_claim(wanted, Around(free=free, chosen=a_class()))
    assert (next_.volume["metadata"]["name"] if isinstance(next_, Bind) else None) == expected


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
        next_ = plan.for_claim(claim(), Around(meant=[meant], free=free, chosen=chosen))
        assert (next_ == Bind(meant)) is takes


def test_free_volumes_of_a_class_that_waits_are_the_schedulers() -> None:
    wanted = claim(storageClassName="k")
    around = Around(free=[volume(storageClassName="k")], chosen=DELAYED)
    told = plan.for_claim(wanted, around)
    assert isinstance(told, Wait) and told.told is not None and told.told.reason == "WaitForFirstConsumer"
    user = {"metadata": {"name": "web"}}
    told = plan.for_claim(wanted, Around(chosen=DELAYED, user=user))
    assert isinstance(told, Wait) and told.told is not None
    assert (told.told.reason, told.told.message) == (
        "WaitForPodScheduled",
        "waiting for pod web to be scheduled",
    )


@pytest.mark.parametrize(
    ("wanted", "around", "reason", "provisioner"),
    [
        (claim(), Around(), "FailedBinding", ""),
        (claim(storageClassName=""), Around(default_class="k"), "FailedBinding", ""),
        (claim(storageClassName="k"), Around(), "ProvisioningFailed", ""),
        (claim(storageClassName="k"), Around(chosen=a_class("ebs")), "ExternalProvisioning", "ebs"),
        (claim(storageClassName="k"), Around(chosen=a_class(facts.NO_PROVISIONER)), "ProvisioningFailed", ""),
        (claim(storageClassName="k", annotations=PICKED), Around(chosen=DELAYED), "", "alcove.io/local"),
        (claim(volumeName="v"), Around(), "", ""),
        (claim(volumeName="v"), Around(named=volume(size="1Mi")), "VolumeMismatch", ""),
        (claim(volumeName="v"), Around(named=volume(claimRef=ref("other"))), "FailedBinding", ""),
    ],
)
def test_what_a_claim_waits_for(wanted: Object, around: Around, reason: str, provisioner: str) -> None:
    next_ = plan.for_claim(wanted, around)
    assert isinstance(next_, Wait)
    assert (next_.told.reason if next_.told else "", next_.provisioner) == (reason, provisioner)


def test_a_claim_without_a_class_takes_the_default_once_there_is_one() -> None:
    assert plan.for_claim(claim(), Around(default_class="k")) == Wait(takes_class="k")


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        (volume(), Bind),
        (volume(claimRef=ref()), Bind),
        (volume(claimRef=ref(uid="")), Bind),
        (volume(claimRef=ref(uid="another")), "ClaimMisbound"),
        (volume(claimRef=ref("other", "x")), "ClaimMisbound"),
        (None, "ClaimLost"),
    ],
)
def test_a_claim_that_was_bound(named: Object | None, expected: Any) -> None:
    next_ = plan.for_claim(claim(annotations=DONE, volumeName="v"), Around(named=named))
    assert next_.told.reason == expected if isinstance(next_, Lost) else isinstance(next_, expected)


def test_a_bound_claim_that_names_nothing_is_lost() -> None:
    assert isinstance(plan.for_claim(claim(annotations=DONE), Around()), Lost)


MADE = {facts.PROVISIONED_BY: "p"}


@pytest.mark.parametrize(
    ("found", "its_claim", "fate"),
    [
        (volume(), None, Fate.FREE),
        (volume(claimRef=ref(uid="")), None, Fate.FREE),
        (volume(claimRef=ref()), None, Fate.RELEASED),
        (volume(claimRef=ref()), claim(uid="another"), Fate.RELEASED),
        (volume(claimRef=ref()), claim(), Fate.HELD),
        (volume(claimRef=ref()), claim(volumeName="v"), Fate.BOUND),
        (volume(claimRef=ref()), claim(volumeName="w"), Fate.UNBOUND),
        (
            volume(claimRef=ref(), annotations=MADE, persistentVolumeReclaimPolicy="Delete"),
            claim(volumeName="w"),
            Fate.RELEASED,
        ),
        (
            volume(claimRef=ref(), annotations=MADE, persistentVolumeReclaimPolicy="Retain"),
            claim(volumeName="w"),
            Fate.UNBOUND,
        ),
    ],
)
def test_the_fate_of_a_volume(found: Object, its_claim: Object | None, fate: Fate) -> None:
    assert plan.for_volume(found, its_claim) is fate
