"""A foreign plane survives the way through its Secret, and Secrets that are none are no planes."""

from alcove.api.foreign_planes import NAMESPACE, ForeignPlane, by_tenant, plane_of, secret_of
from alcove.api.ids import TenantId
from alcove.api.objects import Object


def plane(name: str, tenant: str = "acme") -> ForeignPlane:
    return ForeignPlane(
        name=name,
        tenant=TenantId(tenant),
        server="https://192.0.2.1:6443",
        authority=b"CA",
        certificate=b"CERT",
        key=b"KEY",
        kubelet_authority=b"KUBELET",
    )


def changed(secret: Object, **fields: object) -> Object:
    return {**secret, **fields}


def test_a_plane_is_what_its_secret_says() -> None:
    secret = secret_of(plane("office"), "uid")
    assert secret["metadata"]["namespace"] == NAMESPACE
    assert secret["metadata"]["ownerReferences"][0] == {
        "apiVersion": "v1",
        "kind": "Tenant",
        "name": "acme",
        "uid": "uid",
    }
    assert plane_of(secret) == plane("office")


def test_other_secrets_are_no_planes() -> None:
    secret = secret_of(plane("office"), "uid")
    assert plane_of(changed(secret, type="Opaque")) is None
    assert plane_of(changed(secret, metadata={"name": "office"})) is None
    assert plane_of(changed(secret, data={"server": "not base64!"})) is None
    assert plane_of(changed(secret, data={"server": "/w=="})) is None


def test_the_first_of_two_planes_of_one_tenant_counts() -> None:
    secrets = [secret_of(each, "uid") for each in (plane("b"), plane("a"), plane("c", "globex"))]
    assert {tenant: each.name for tenant, each in by_tenant(secrets).items()} == {"acme": "a", "globex": "c"}
