"""Volumes: where bound ones can be reached, which ones waiting claims get, and what is done in which order."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, Decision, Prepare, Unschedulable
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.ledger import CLAIMS_SECONDS_MAX
from alcove.scheduler.nodes import HOSTNAME, REGION, ZONE
from alcove.scheduler.storage import read_claim, read_volume
from alcove.testing.scheduling import OTHER, TENANT, Scene, node, pod


def claim(
    name: str, *, size: str = "1Gi", of: str = "wait", volume: str = "", bound: bool = False, **more: Any
) -> Object:
    spec = {
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "storageClassName": of,
        "resources": {"requests": {"storage": size}},
        **({"volumeName": volume} if volume else {}),
        **more.pop("spec", {}),
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **more}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Bound" if bound else "Pending"}}


def volume(name: str, *, size: str = "1Gi", on: str = "", of: str = "wait", **more: Any) -> Object:
    spec: Object = {
        "capacity": {"storage": size},
        "accessModes": more.pop("modes", ["ReadWriteOnce"]),
        "storageClassName": of,
        **more.pop("spec", {}),
    }
    if on:
        expression = {"key": HOSTNAME, "operator": "In", "values": [on]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"metadata": {"name": name, **more}, "spec": spec, "status": {"phase": "Available"}}


def storage_class(
    name: str, *, waits: bool = True, provisioner: str = "kubernetes.io/no-provisioner", **more: Any
) -> Object:
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode, **more}


def using(name: str, *claims: str, **more: Any) -> Object:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return pod(name, volumes=volumes, **more)


class Desk:
    def __init__(self, *nodes: Object) -> None:
        self.now = 0.0
        self.core = Scheduler(lambda: self.now)
        for each in nodes:
            self.see(ObjectKind.NODE, each, SYSTEM)
        self.see(ObjectKind.STORAGE_CLASS, storage_class("wait"))
        self.see(ObjectKind.STORAGE_CLASS, storage_class("make", provisioner="csi.example.com"))
        self.see(ObjectKind.STORAGE_CLASS, storage_class("now", waits=False, provisioner="csi.example.com"))

    def see(self, kind: ObjectKind, obj: Object, tenant: TenantId = TENANT, gone: bool = False) -> Object:
        self.core.observe(SchedulerEvent(HOME, tenant, kind, obj, gone))
        return obj

    def decide(self) -> list[Decision]:
        found = []
        while (decision := self.core.schedule_next()) is not None:
            found.append(decision)
        return found

    def only(self) -> Decision:
        (decision,) = self.decide()
        return decision


def _why(decision: Decision) -> str:
    assert isinstance(decision, Unschedulable), decision
    return decision.text.removeprefix("0/2 nodes are available: ").split(". preemption")[0]


PAIR = (node("n1", {ZONE: "a"}), node("n2", {ZONE: "b"}))


def test_a_bound_volume_is_used_where_it_can_be_reached() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.VOLUME, volume("v", on="n2"))
    desk.see(ObjectKind.CLAIM, claim("c", volume="v", bound=True))
    desk.see(ObjectKind.POD, using("p", "c"))
    decision = desk.only()
    assert isinstance(decision, BindPod)
    assert decision.node == "n2"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim("c", of="now")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", of="none")], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim("c", volume="v")], "pod has unbound immediate PersistentVolumeClaims"),
        (
            [claim("c", deletionTimestamp="2026-01-01T00:00:00Z")],
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            [{**claim("c", volume="v"), "status": {"phase": "Lost"}}],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ([claim("c", volume="v", bound=True)], 'persistentvolume "v" not found'),
        ([claim("c")], "2 node(s) didn't find available persistent volumes to bind"),
    ],
)
def test_reasons_about_claims(made: list[Object], message: str) -> None:
    desk = Desk(*PAIR)
    for each in made:
        desk.see(ObjectKind.CLAIM, each)
    desk.see(ObjectKind.POD, using("p", "c"))
    assert _why(desk.only()) == message


def test_unreachable_volumes() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.VOLUME, volume("v", on="elsewhere"))
    desk.see(ObjectKind.CLAIM, claim("c", volume="v", bound=True))
    desk.see(ObjectKind.POD, using("p", "c"))
    assert _why(desk.only()) == "2 node(s) didn't match PersistentVolume's node affinity"


def test_zones_of_old_volumes() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.VOLUME, volume("v", labels={"failure-domain.beta.kubernetes.io/zone": "b__c"}))
    desk.see(ObjectKind.CLAIM, claim("c", volume="v", bound=True))
    desk.see(ObjectKind.POD, using("p", "c"))
    decision = desk.only()
    assert isinstance(decision, BindPod)
    assert decision.node == "n2"
    desk.see(ObjectKind.VOLUME, volume("w", labels={ZONE: "z"}))
    desk.see(ObjectKind.CLAIM, claim("d", volume="w", bound=True))
    desk.see(ObjectKind.POD, using("q", "d"))
    assert _why(desk.only()) == "2 node(s) had no available volume zone"


OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, {"a", "b", "old", "bare"}),
        # Where no node says a zone there is but one.
        ({ZONE: "a"}, {"a", "bare"}),
        ({ZONE: "a__b"}, {"a", "b", "bare"}),
        ({REGION: "north"}, {"a", "bare"}),
        ({ZONE: "a", REGION: "south"}, {"bare"}),
        # A volume's old label is looked for by its old name, then by today's; not the other way round.
        ({OLD_ZONE: "b"}, {"b", "bare"}),
        ({OLD_ZONE: "a"}, {"a", "old", "bare"}),
        ({OLD_REGION: "north"}, {"a", "bare"}),
        ({ZONE: "c"}, {"bare"}),
    ],
)
def test_volumes_that_say_their_zone(labels: dict[str, str], expected: set[str]) -> None:
    scene = Scene(
        node("a", {ZONE: "a", REGION: "north"}),
        node("b", {ZONE: "b", REGION: "south"}),
        node("old", {OLD_ZONE: "a"}),
        node("bare"),
    )
    storage = scene.cache.storage(TENANT)
    storage.volumes["v"] = read_volume(volume("v", labels=labels))
    bound = read_claim(claim("c", volume="v", bound=True))
    storage.claims[bound.key] = bound
    assert scene.feasible(using("p", "c")) == expected


def test_a_waiting_claim_gets_the_smallest_volume_that_fits() -> None:
    desk = Desk(node("n"))
    for name, size in (("large", "10Gi"), ("fitting", "2Gi"), ("small", "1Gi")):
        desk.see(ObjectKind.VOLUME, volume(name, size=size))
    desk.see(ObjectKind.CLAIM, claim("c", size="2Gi"))
    desk.see(ObjectKind.POD, using("p", "c"))
    decision = desk.only()
    assert isinstance(decision, Prepare)
    assert decision.plan.binds == (("fitting", ("default", "c")),)


@pytest.mark.parametrize(
    "unfit",
    [
        volume("v", size="500Mi"),
        volume("v", of="else"),
        volume("v", modes=["ReadOnlyMany"]),
        volume("v", spec={"volumeMode": "Block"}),
        volume("v", spec={"claimRef": {"namespace": "default", "name": "another", "uid": "x"}}),
        volume("v", deletionTimestamp="2026-01-01T00:00:00Z"),
        {**volume("v"), "status": {"phase": "Released"}},
        volume("v", labels={"tier": "slow"}),
    ],
)
def test_volumes_that_do_not_suit(unfit: Object) -> None:
    desk = Desk(node("n"))
    desk.see(ObjectKind.VOLUME, unfit)
    desk.see(
        ObjectKind.CLAIM,
        claim(
            "c",
            spec={"selector": {"matchLabels": {"tier": "fast"}}} if unfit["metadata"].get("labels") else {},
        ),
    )
    desk.see(ObjectKind.POD, using("p", "c"))
    assert isinstance(desk.only(), Unschedulable)
    desk.see(ObjectKind.VOLUME, volume("good", labels={"tier": "fast"}))
    assert isinstance(desk.only(), Prepare)


def test_two_claims_get_two_volumes_on_one_node() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.VOLUME, volume("a", on="n1"))
    desk.see(ObjectKind.VOLUME, volume("b", on="n2", size="2Gi"))
    desk.see(ObjectKind.VOLUME, volume("c", on="n2", size="3Gi"))
    desk.see(ObjectKind.CLAIM, claim("x"))
    desk.see(ObjectKind.CLAIM, claim("y"))
    desk.see(ObjectKind.POD, using("p", "x", "y"))
    decision = desk.only()
    assert isinstance(decision, Prepare)
    assert decision.node == "n2"
    assert {name for name, _ in decision.plan.binds} == {"b", "c"}


def test_a_volume_made_for_a_claim_is_the_only_one_it_gets() -> None:
    desk = Desk(*PAIR)
    reference = {"namespace": "default", "name": "c"}
    desk.see(ObjectKind.VOLUME, volume("meant", on="n2", size="9Gi", spec={"claimRef": reference}))
    desk.see(ObjectKind.VOLUME, volume("other", on="n1"))
    desk.see(ObjectKind.CLAIM, claim("c"))
    desk.see(ObjectKind.POD, using("p", "c"))
    decision = desk.only()
    assert isinstance(decision, Prepare)
    assert (decision.node, decision.plan.binds) == ("n2", (("meant", ("default", "c")),))


def test_what_no_volume_fits_is_provisioned_where_the_class_can() -> None:
    desk = Desk(*PAIR)
    only_b = [{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]
    desk.see(
        ObjectKind.STORAGE_CLASS,
        storage_class("b-only", provisioner="csi.example.com", allowedTopologies=only_b),
    )
    desk.see(ObjectKind.CLAIM, claim("c", of="b-only"))
    desk.see(ObjectKind.POD, using("p", "c"))
    decision = desk.only()
    assert isinstance(decision, Prepare)
    assert (decision.node, decision.plan.provisions) == ("n2", (("default", "c"),))


def test_a_claim_that_chose_a_node_stays_there() -> None:
    desk = Desk(*PAIR)
    chosen = {"volume.kubernetes.io/selected-node": "n1"}
    desk.see(ObjectKind.CLAIM, claim("c", of="make", annotations=chosen))
    for number in range(3):
        desk.see(ObjectKind.POD, using(f"p{number}", "c"))
    assert {each.node for each in desk.decide() if isinstance(each, Prepare)} == {"n1"}


def test_a_pod_is_bound_once_its_claims_are() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.VOLUME, volume("v", on="n1"))
    desk.see(ObjectKind.CLAIM, claim("c"))
    desk.see(ObjectKind.POD, using("p", "c"))
    prepare = desk.only()
    assert isinstance(prepare, Prepare)
    assert desk.decide() == []
    desk.see(ObjectKind.CLAIM, claim("c", volume="v", bound=True))
    bind = desk.only()
    assert isinstance(bind, BindPod)
    assert (bind.pod, bind.node) == (prepare.pod, "n1")
    desk.core.bound(bind.pod)
    assert desk.core.cache.storage(TENANT).promised == {}


def test_a_promised_volume_is_not_promised_twice() -> None:
    desk = Desk(node("n"))
    desk.see(ObjectKind.VOLUME, volume("v"))
    for name in ("c", "d"):
        desk.see(ObjectKind.CLAIM, claim(name))
        desk.see(ObjectKind.POD, using(f"p-{name}", name))
    assert [type(each) for each in desk.decide()] == [Prepare, Unschedulable]


def test_no_tenant_gets_another_tenants_volume() -> None:
    desk = Desk(node("n"))
    desk.see(ObjectKind.VOLUME, volume("v"), OTHER)
    desk.see(ObjectKind.CLAIM, claim("c"))
    desk.see(ObjectKind.POD, using("p", "c"))
    assert isinstance(desk.only(), Unschedulable)


def test_failure_to_prepare_frees_the_place_and_the_volume() -> None:
    desk = Desk(node("n", cpu="1"))
    desk.see(ObjectKind.VOLUME, volume("v"))
    desk.see(ObjectKind.CLAIM, claim("c"))
    desk.see(ObjectKind.POD, using("p", "c", cpu="1"))
    prepare = desk.only()
    desk.core.unprepared(prepare.pod)
    assert desk.core.cache.storage(TENANT).promised == {}
    desk.now += 2
    assert isinstance(desk.only(), Prepare)


def test_a_provisioner_that_gives_up_lets_the_pod_go_elsewhere() -> None:
    desk = Desk(*PAIR)
    desk.see(ObjectKind.CLAIM, claim("c", of="make"))
    desk.see(ObjectKind.POD, using("p", "c"))
    prepare = desk.only()
    assert isinstance(prepare, Prepare)
    desk.see(
        ObjectKind.CLAIM,
        claim("c", of="make", annotations={"volume.kubernetes.io/selected-node": prepare.node}),
    )
    assert desk.decide() == []
    desk.see(ObjectKind.CLAIM, claim("c", of="make"))
    desk.now += 2
    assert isinstance(desk.only(), Prepare)


def test_volumes_that_never_come_hold_the_place_for_a_time_only() -> None:
    desk = Desk(node("n"))
    desk.see(ObjectKind.CLAIM, claim("c", of="make"))
    desk.see(ObjectKind.POD, using("p", "c"))
    assert isinstance(desk.only(), Prepare)
    desk.now += CLAIMS_SECONDS_MAX + 1
    desk.decide()
    desk.now += 2
    assert isinstance(desk.only(), Prepare)


def test_ephemeral_claims_must_be_made_for_the_pod() -> None:
    desk = Desk(node("n"))
    made = pod("p", volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}])
    desk.see(ObjectKind.POD, made)
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    decision = desk.only()
    assert isinstance(decision, Unschedulable)
    assert waiting in decision.text
    desk.now += 60
    desk.see(ObjectKind.CLAIM, claim("p-scratch", of="make"))
    decision = desk.only()
    assert isinstance(decision, Unschedulable)
    assert "PVC default/p-scratch was not created for pod default/p (pod is not owner)" in decision.text
    owner = [{"uid": made["metadata"]["uid"], "controller": True}]
    desk.see(ObjectKind.CLAIM, claim("p-scratch", of="make", ownerReferences=owner))
    assert isinstance(desk.only(), Prepare)


def test_a_claim_for_one_pod_only() -> None:
    desk = Desk(node("n"))
    desk.see(ObjectKind.VOLUME, volume("v", modes=["ReadWriteOncePod"]))
    desk.see(ObjectKind.CLAIM, claim("c", volume="v", bound=True, modes=["ReadWriteOncePod"]))
    first = desk.see(ObjectKind.POD, using("first", "c"))
    assert isinstance(desk.only(), BindPod)
    desk.see(ObjectKind.POD, using("second", "c"))
    decision = desk.only()
    assert isinstance(decision, Unschedulable)
    assert "ReadWriteOncePod access mode already in-use by another pod" in decision.text
    desk.see(ObjectKind.POD, first, gone=True)
    assert isinstance(desk.only(), BindPod)
