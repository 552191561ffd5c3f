"""Whose pods may have what ring0's may."""

import pytest

from alcove.agent.podkey import PodKey
from alcove.agent.trusted_tenants import TrustedTenants, is_ring0
from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.api.objects import Object
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.resources import TENANTS

SPECS: dict[str, Object] = {
    "trusted": {"podSecurity": "privileged"},
    "plain": {},
    "strict": {"podSecurity": "baseline"},
}


def key(plane: str, tenant: str) -> PodKey:
    return PodKey(PlaneId(plane), TenantId(tenant), "default", "web", "u")


@pytest.mark.parametrize(
    ("plane", "tenant", "expected"),
    [
        (HOME, SYSTEM, True),
        (HOME, "trusted", True),
        ("trusted", "trusted", True),
        (HOME, "plain", False),
        (HOME, "strict", False),
        (HOME, "unknown", False),
        ("beta", SYSTEM, False),
        ("beta", "trusted", False),
    ],
)
def test_only_the_tenant_that_ring0_trusts(plane: str, tenant: str, expected: bool) -> None:
    planes = Planes()
    mirror = planes.mirror(ListSelection(TENANTS), tenant=SYSTEM, only=HOME)
    at_home = mirror.add_plane(HOME)
    for revision, (name, spec) in enumerate(SPECS.items(), 1):
        metadata = {"name": name, "tenant": SYSTEM, "uid": name, "resourceVersion": str(revision)}
        at_home.put({"metadata": metadata, "spec": spec}, Revision(revision))
    assert TrustedTenants(planes).includes(key(plane, tenant)) is expected


def test_a_dedicated_plane_has_no_ring0() -> None:
    assert [is_ring0(each) for each in (key(HOME, SYSTEM), key("beta", SYSTEM), key(HOME, "acme"))] == [
        True,
        False,
        False,
    ]
