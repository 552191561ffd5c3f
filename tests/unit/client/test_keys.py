"""Keys name plane and tenant, always."""

from alcove.api.ids import TenantId
from alcove.client.keys import HOME, ObjectKey, PlaneId, TenantKey

KEY = ObjectKey(HOME, TenantId("acme"), "web", "pod")


def test_derived_keys_have_the_same_tenant() -> None:
    assert KEY.of("other") == ObjectKey(HOME, TenantId("acme"), "web", "other")
    assert KEY.of("role", "") == ObjectKey(HOME, TenantId("acme"), "", "role")
    assert KEY.tenant_key == TenantKey(HOME, TenantId("acme"))


def test_equal_names_on_two_planes_are_two_keys() -> None:
    other = ObjectKey(PlaneId("acme"), TenantId("acme"), "web", "pod")
    assert other != KEY and hash(other) != hash(KEY) and len({KEY, other}) == 2


def test_as_text() -> None:
    assert str(KEY) == "acme/web/pod"
    assert str(KEY.of("role", "")) == "acme/role"
    assert str(ObjectKey(PlaneId("acme"), TenantId("acme"), "web", "pod")) == "acme:acme/web/pod"
