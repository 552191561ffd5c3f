"""What an agent removes of pods that an earlier process left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alcove.agent.cgroups import Cgroups
from alcove.agent.images.snapshots import OverlaySnapshots
from alcove.agent.podkey import PodKey
from alcove.agent.pods.node_services import NodeServices, PodDirectories, sweep
from alcove.api.ids import TenantId
from alcove.client.keys import HOME


def pod(tenant: str, number: int) -> PodKey:
    uid = f"00000000-0000-0000-0000-{number:012}"
    return PodKey(HOME, TenantId(tenant), "default", f"p{number}", uid)


def test_groups_of_tenants_and_pods_that_are_gone_are_removed(tmp_path: Path) -> None:
    fields: dict[str, Any] = dict.fromkeys(NodeServices.__struct_fields__)
    services = NodeServices(
        **fields
        | {
            "folders": PodDirectories(tmp_path / "data"),
            "snapshots": OverlaySnapshots(tmp_path / "snapshots"),
            "cgroups": Cgroups(f"cgroup2 {tmp_path}/cgroup cgroup2 rw 0 0\n"),
            "group": "/alcove/al0",
        }
    )
    kept, lost, strange, older = pod("red", 1), pod("red", 2), pod("blue", 3), pod("red", 4)
    top = tmp_path / "cgroup/alcove/al0"
    for key in (kept, lost, strange):
        (tmp_path / "cgroup" / services.pod_group(key)[1:]).mkdir(parents=True)
    # Made by an agent that had no groups of tenants.
    (top / older.directory_name).mkdir()
    (top / "canary").mkdir()
    removed = sweep(services, [kept, older])
    assert set(removed) == {lost.directory_name, strange.tenant_directory_name, "canary"}
    assert {each.name for each in top.iterdir()} == {kept.tenant_directory_name, older.directory_name}
    assert [each.name for each in (top / kept.tenant_directory_name).iterdir() if each.is_dir()] == [
        kept.directory_name
    ]
