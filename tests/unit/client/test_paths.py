"""Every path names its tenant, and no name can leave its segment."""

import pytest

from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.client import paths
from alcove.client.resources import CLUSTER_ROLES, DEPLOYMENTS, NAMESPACES, PODS, TENANTS

ACME = TenantId("acme")


def test_paths_of_objects() -> None:
    assert paths.one(ACME, PODS, "web", "a") == "/api/v1/tenants/acme/namespaces/web/pods/a"
    assert paths.one(ACME, PODS, "web", "a", "status").endswith("/pods/a/status")
    assert paths.one(ACME, NAMESPACES, "", "web") == "/api/v1/tenants/acme/namespaces/web"
    assert paths.one(SYSTEM, TENANTS, "", "acme", "finalize") == "/api/v1/tenants/acme/finalize"
    assert paths.collection(ALL, DEPLOYMENTS) == "/apis/apps/v1/tenants/all/deployments"


def test_names_stay_in_their_segment() -> None:
    role = paths.one(ACME, CLUSTER_ROLES, "", "system:node/../x?y")
    assert role.endswith("/clusterroles/system:node%2F..%2Fx%3Fy")


def test_queries_leave_out_what_is_empty() -> None:
    assert paths.with_query("/x", {"a": "", "b": "1 2"}) == "/x?b=1+2"
    assert paths.with_query("/x", {"a": ""}) == "/x"


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/api/v1/tenants/acme/namespaces/default/pods/x", "acme"),
        ("/apis/apps/v1/tenants/acme/deployments?watch=1", "acme"),
        ("/api/v1/tenants/acme?limit=1", "acme"),
        ("/api/v1/tenants/system/nodes", paths.RING0),
        ("/api/v1/tenants/all/pods", paths.RING0),
        ("/api/v1/tenants", paths.RING0),
        ("/version", paths.RING0),
    ],
)
def test_the_tenant_of_a_request_path(path: str, who: str) -> None:
    assert paths.tenant_of(path) == who
