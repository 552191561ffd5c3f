from typing import Any

from alcove.api.objects import Object
from alcove.vpc import states
from alcove.vpc.placement import PlacementStatus
from alcove.vpc.states import ProvisioningState

MADE = "2024-05-01T10:00:00Z"
NOW = 1714557601.25  # 1.25 s later


def vpc(**more: Any) -> Object:
    return {"metadata": {"name": "v", "creationTimestamp": MADE, "generation": 3}, "spec": {}, **more}


def test_how_long_provisioning_took_is_written_once() -> None:
    obj = vpc()
    states.enter(obj, ProvisioningState.INIT, NOW)
    assert obj["spec"] == {"status": "Init", "createtime": MADE}
    states.enter(obj, ProvisioningState.PROVISIONED, NOW)
    assert obj["spec"]["provisiondelay"] == "1.250"
    states.enter(obj, ProvisioningState.FAILED, NOW + 5)
    states.enter(obj, ProvisioningState.PROVISIONED, NOW + 9)
    assert obj["spec"]["provisiondelay"] == "1.250" and states.is_provisioned(obj)


def test_a_time_before_creation_is_no_delay() -> None:
    obj = vpc()
    states.enter(obj, ProvisioningState.PROVISIONED, NOW - 100)
    assert obj["spec"]["provisiondelay"] == "0.000"


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    obj = vpc()
    obj["status"] = states.described(
        obj, ProvisioningState.PROVISIONED, "", NOW, states.placed(obj, PlacementStatus(2, 1), NOW)
    )
    again = states.described(
        obj, ProvisioningState.PROVISIONED, "", NOW + 60, states.placed(obj, PlacementStatus(2, 2), NOW + 60)
    )
    before, after = (
        {each["type"]: each for each in status["conditions"]} for status in (obj["status"], again)
    )
    assert after["Provisioned"]["lastTransitionTime"] == before["Provisioned"]["lastTransitionTime"]
    assert after["Placed"]["lastTransitionTime"] > before["Placed"]["lastTransitionTime"]
    assert before["Placed"] | {"status": "False", "message": "1 of 2 are on droplets"} == before["Placed"]
    assert after["Placed"]["observedGeneration"] == 3


def test_what_others_keep_in_the_status_stays() -> None:
    assert (
        states.described(vpc(status={"used": 3, "message": "old"}), ProvisioningState.FAILED, "why", NOW)[
            "used"
        ]
        == 3
    )


def test_the_finalizer_is_set_once_and_removed_alone() -> None:
    obj = vpc()
    obj["metadata"]["finalizers"] = ["mine"]
    states.hold(obj)
    states.hold(obj)
    assert obj["metadata"]["finalizers"] == ["mine", states.FINALIZER]
    states.let_go(obj)
    assert obj["metadata"]["finalizers"] == ["mine"]


def test_a_few_names_stand_for_many() -> None:
    assert states.some(["a", "b"]) == "a, b"
    assert states.some([f"n{number}" for number in range(9)]) == "n0, n1, n2, n3, n4 and 4 more"
