"""Who may have DaemonSets."""

from pathlib import Path

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
LABELS = {"app": "agent"}
SET: Object = {
    "metadata": {"name": "agent"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def test_tenants_may_not(tenant_admin: Caller) -> None:
    refused = tenant_admin.post(SETS, SET)
    assert refused.status == 403
    assert refused.json["message"] == "only system tenant is allowed to have DaemonSet"


def test_ring0_may(control_plane: LocalServer) -> None:
    assert control_plane.system.post(f"{SETS}?dryRun=All", SET).status == 201


def test_tenants_may_where_ring0_says_so(tmp_path: Path) -> None:
    with LocalServer(tmp_path, "--tenant-daemonsets") as server:
        assert server.make_tenant("acme").post(SETS, SET).status == 201


def test_one_tenant_may_where_its_tenant_object_says_so(
    control_plane: LocalServer, tenant_admin: Caller
) -> None:
    tenant = tenant_admin.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    for allowed, status in ((True, 201), (False, 403)):
        changed = control_plane.system.patch(f"/api/v1/tenants/{tenant}", {"spec": {"daemonSets": allowed}})
        assert changed.status == 200, changed.body
        assert tenant_admin.post(f"{SETS}?dryRun=All", SET).status == status
