"""Pods are told apart by all that makes them different."""

from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.keys import HOME, ObjectKey, PlaneId

_KEY = ObjectKey(HOME, TenantId("acme"), "default", "web")


def test_a_pod_made_anew_under_its_name_is_another() -> None:
    one, other = (PodKey.of(_KEY, {"metadata": {"uid": uid}}) for uid in ("u-1", "u-2"))
    assert one != other
    assert one.object_key == other.object_key == _KEY


def test_it_says_where_it_is_from() -> None:
    pod = {"metadata": {"uid": "u-1"}}
    assert str(PodKey.of(_KEY, pod)) == "acme/default/web (u-1)"
    elsewhere = ObjectKey(PlaneId("beta"), SYSTEM, "default", "web")
    assert str(PodKey.of(elsewhere, pod)) == "beta:system/default/web (u-1)"
