import uuid

import pytest

from alcove.api import meta
from alcove.api.ids import TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.schema.node import SchemaNode, SchemaType

ACME = TenantId("acme")


def kind(group: str, resource: str, scope: Scope) -> Kind:
    return Kind(
        group=group,
        version="v1",
        kind="Any",
        resource=resource,
        singular="any",
        scope=scope,
        schema=SchemaNode(SchemaType.OBJECT),
    )


def test_uids_are_random_uuids() -> None:
    assert uuid.UUID(meta.new_uid()).version == 4
    assert meta.new_uid() != meta.new_uid()


def test_generated_name_is_cut_to_a_label() -> None:
    short, long = meta.generate_name("web-"), meta.generate_name("x" * 100)

    assert short.startswith("web-")
    assert len(short) == 9
    assert long.startswith("x" * 58)
    assert len(long) == 63


def test_times_read_back_as_written() -> None:
    assert meta.format_time(1_714_557_600.9) == "2024-05-01T10:00:00Z"
    assert meta.format_micro_time(1_714_557_600.25) == "2024-05-01T10:00:00.250000Z"
    assert meta.parse_time("2024-05-01T10:00:00.250000Z") == 1_714_557_600.25
    assert meta.parse_time("2024-05-01T12:00:00+02:00") == 1_714_557_600


@pytest.mark.parametrize(
    ("of", "namespace", "expected"),
    [
        (kind("", "pods", Scope.NAMESPACE), "web", "/api/v1/tenants/acme/namespaces/web/pods/x"),
        (
            kind("apps", "deployments", Scope.NAMESPACE),
            "web",
            "/apis/apps/v1/tenants/acme/namespaces/web/deployments/x",
        ),
        (kind("", "namespaces", Scope.TENANT), "", "/api/v1/tenants/acme/namespaces/x"),
        (kind("mizar.com", "vpcs", Scope.RING0), "", "/apis/mizar.com/v1/tenants/acme/vpcs/x"),
        (kind("", "tenants", Scope.RING0), "", "/api/v1/tenants/x"),
    ],
)
def test_self_link_is_the_full_path(of: Kind, namespace: str, expected: str) -> None:
    assert meta.self_link(of, ACME, namespace, "x") == expected
