"""Pods are distinguished by every part of their key."""

from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM, TenantId
from alcove.client.keys import HOME, ObjectKey, PlaneId

_KEY = ObjectKey(HOME, TenantId("acme"), "default", "web")


def test_a_pod_created_again_under_its_name_has_another_key() -> None:
    one, other = (PodKey.of(_KEY, {"metadata": {"uid": uid}}) for uid in ("u-1", "u-2"))
    assert one != other
    assert one.object_key == other.object_key == _KEY


def test_a_key_names_its_plane_and_tenant() -> None:
    pod = {"metadata": {"uid": "u-1"}}
    assert str(PodKey.of(_KEY, pod)) == "acme/default/web (u-1)"
    elsewhere = ObjectKey(PlaneId("beta"), SYSTEM, "default", "web")
    assert str(PodKey.of(elsewhere, pod)) == "beta:system/default/web (u-1)"


def test_directories_are_unique_over_planes() -> None:
    uid = "0b1f9c3e-6d0f-4c56-9d3c-5b1a6b1c2d3e"
    home = PodKey.of(_KEY, {"metadata": {"uid": uid}})
    away = PodKey.of(ObjectKey(PlaneId("beta"), _KEY.tenant, "default", "web"), {"metadata": {"uid": uid}})
    odd = PodKey.of(ObjectKey(PlaneId("beta"), _KEY.tenant, "default", "web"), {"metadata": {"uid": "../x"}})
    assert home.directory_name == uid
    assert len({home.directory_name, away.directory_name, odd.directory_name}) == 3
    assert "/" not in odd.directory_name
