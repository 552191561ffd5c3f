"""What binding writes into claims and volumes."""

from alcove.api.objects import Object
from alcove.controllers.volumes import facts, writes


def claim(**spec: object) -> Object:
    metadata = {"name": "c", "namespace": "n", "uid": "u", "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"], **spec}}


def volume(**spec: object) -> Object:
    wanted = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}, **spec}
    return {"metadata": {"name": "v"}, "spec": wanted}


def test_our_choice_is_marked_and_can_be_undone() -> None:
    chosen = writes.claimed(volume(), claim())
    assert chosen is not None and chosen["spec"]["claimRef"]["uid"] == "u"
    assert chosen["metadata"]["annotations"] == {facts.BOUND_BY_CONTROLLER: "yes"}
    assert writes.claimed(chosen, claim()) is None
    undone = writes.unclaimed(chosen)
    assert "claimRef" not in undone["spec"] and undone["metadata"]["annotations"] == {}


def test_a_choice_of_somebody_elses_stays_when_undone() -> None:
    given = {"name": "c", "namespace": "n"}
    chosen = writes.claimed(volume(claimRef=given), claim())
    assert chosen is not None and "annotations" not in chosen["metadata"]
    undone = writes.unclaimed(chosen)["spec"]["claimRef"]
    assert {key: undone[key] for key in given} == given and "uid" not in undone


def test_the_claims_side() -> None:
    bound = writes.bound(claim(), volume())
    assert bound is not None and bound["spec"]["volumeName"] == "v"
    marks = {facts.BIND_COMPLETED: "yes", facts.BOUND_BY_CONTROLLER: "yes"}
    assert bound["metadata"]["annotations"] == marks
    assert writes.bound(bound, volume()) is None
    by_user = writes.bound(claim(volumeName="v"), volume())
    assert by_user is not None and by_user["metadata"]["annotations"] == {facts.BIND_COMPLETED: "yes"}


def test_statuses() -> None:
    bound = writes.bound_status(claim(), volume())
    assert bound is not None
    assert bound["status"] == {
        "phase": "Bound",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
    }
    assert writes.bound_status(bound, volume()) is None
    larger = volume(capacity={"storage": "9Gi"})
    assert writes.bound_status(bound, larger) is None
    lost = writes.unbound_status(bound, "Lost")
    assert lost is not None and lost["status"] == {"phase": "Lost"}
    assert writes.unbound_status(lost, "Lost") is None
