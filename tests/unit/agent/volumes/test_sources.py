"""Which persistent volumes a pod may use on this node, by a table; and the owner of projected files."""

import pytest

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.agent.volumes.errors import VolumeFailure
from alcove.agent.volumes.local import SIZE_BYTES_MIN
from alcove.agent.volumes.sources import HostPathMount, LocalVolumeMount, VolumeSources
from alcove.api import local_volumes
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes

ACME = PodKey(HOME, TenantId("acme"), "default", "web", "u1")
RING0 = PodKey(HOME, SYSTEM, "default", "web", "u1")
PRETENDER = PodKey(PlaneId("acme"), SYSTEM, "default", "web", "u1")
HERE = {local_volumes.NODE_LABEL: "here"}


def sources() -> VolumeSources:
    return VolumeSources(ObjectLookup(Planes()), lambda: 0.0, "here", dict, None)


def volume(labels: Object | None = None, **spec: object) -> Object:
    whole: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **spec}
    return {"metadata": {"name": "pv", "uid": "v1", "labels": labels or {}}, "spec": whole}


def local(path: str = "/alcove/pv") -> Object:
    return {"path": path}


@pytest.mark.parametrize("key", [ACME, RING0])
def test_local_volumes_are_known_by_whose_they_are(key: PodKey) -> None:
    found = sources()._persistent(key, "v", volume(HERE, local=local("/alcove/other-name")), False)
    assert isinstance(found, LocalVolumeMount)
    wanted = found.volume
    assert (wanted.tenant, wanted.uid, wanted.size_bytes) == (key.tenant, "v1", 1 << 30)
    assert (found.read_only, found.is_exclusive) == (False, False)


@pytest.mark.parametrize(
    ("spec", "asked", "read_only", "exclusive"),
    [
        ({}, True, True, False),
        ({"accessModes": ["ReadOnlyMany"]}, False, True, False),
        ({"accessModes": ["ReadOnlyMany", "ReadWriteOnce"]}, False, False, False),
        ({"accessModes": ["ReadWriteOncePod"]}, False, False, True),
    ],
)
def test_modes(spec: Object, asked: bool, read_only: bool, exclusive: bool) -> None:
    found = sources()._persistent(ACME, "v", volume(HERE, local=local(), **spec), asked)
    assert isinstance(found, LocalVolumeMount)
    assert (found.read_only, found.is_exclusive) == (read_only, exclusive)


def test_no_volume_is_smaller_than_a_file_system() -> None:
    found = sources()._persistent(ACME, "v", volume(HERE, local=local(), capacity={"storage": "1"}), False)
    assert isinstance(found, LocalVolumeMount) and found.volume.size_bytes == SIZE_BYTES_MIN


@pytest.mark.parametrize("key", [ACME, PRETENDER])
@pytest.mark.parametrize(
    ("pv", "message"),
    [
        (volume(hostPath={"path": "/etc"}), "hostPath volumes are not allowed for pods of tenants"),
        (volume(HERE, hostPath={"path": "/alcove/pv"}), "hostPath volumes are not allowed"),
        (volume(local=local("/etc")), "local volumes are not allowed for pods of tenants"),
        (volume(HERE, local=local("/etc")), "local volumes are not allowed"),
        (volume(local=local("/alcove/../etc")), "not on this node"),
        (volume(local=local()), "not on this node"),
        (
            volume({local_volumes.NODE_LABEL: "elsewhere"}, local=local()),
            'is on node "elsewhere", not on this node',
        ),
        (volume(HERE, local=local(), volumeMode="Block"), "volumeMode Block"),
        (volume(csi={"driver": "d"}), "only local volumes"),
        (volume(nfs={"server": "s", "path": "/"}), "only local volumes"),
    ],
)
def test_what_a_tenants_pod_does_not_get(key: PodKey, pv: Object, message: str) -> None:
    with pytest.raises(VolumeFailure, match=message):
        sources()._persistent(key, "v", pv, False)


def test_ring0_has_paths_of_the_node() -> None:
    found = sources()._persistent(RING0, "v", volume(hostPath={"path": "/srv", "type": ""}), True)
    assert found == HostPathMount("v", {"path": "/srv", "type": ""}, True)
    found = sources()._persistent(RING0, "v", volume(local=local("/srv")), False)
    assert found == HostPathMount("v", {"path": "/srv", "type": "Directory"}, False)


def test_a_trusted_tenant_has_paths_of_the_node() -> None:
    lookup = ObjectLookup(Planes())
    trusting = VolumeSources(lookup, lambda: 0.0, "here", dict, None, lambda key: key == ACME)
    found = trusting._persistent(ACME, "v", volume(hostPath={"path": "/srv", "type": ""}), False)
    assert found == HostPathMount("v", {"path": "/srv", "type": ""}, False)
