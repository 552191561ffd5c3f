"""What tenants may write to volumes on nodes' disks, and the finalizers of new claims and volumes."""

from typing import Any

import pytest

from alcove.api import local_volumes
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import PERSISTENT_VOLUMES
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.storage import FINALIZERS, LocalVolumeAdmission, StorageProtection
from alcove.apiserver.identity import Identity

ACME = TenantId("acme")
ANN, RING0 = Identity(ACME, "ann"), Identity(SYSTEM, "system:kube-controller-manager")


def attributes(
    new: Object, old: Object | None, who: Identity, resource: GroupResource = PERSISTENT_VOLUMES
) -> Attributes:
    kind = Kind(
        group=resource.group,
        version="v1",
        kind=resource.resource,
        resource=resource.resource,
        singular=resource.resource,
        scope=Scope.TENANT,
        schema=SchemaNode(SchemaType.OBJECT),
    )
    operation = Operation.CREATE if old is None else Operation.UPDATE
    return Attributes(
        operation=operation, kind=kind, tenant=ACME, namespace="", name="v", obj=new, old=old, identity=who
    )


def volume(*finalizers: str, node: str = "", **spec: Any) -> Object:
    labels = {local_volumes.NODE_LABEL: node} if node else {}
    return {"metadata": {"name": "v", "labels": labels, "finalizers": list(finalizers)}, "spec": spec}


OURS = volume(
    local_volumes.FINALIZER, node="n", local={"path": local_volumes.path("v")}, capacity={"storage": "1Gi"}
)


def changed(**more: Any) -> Object:
    return {**OURS, **more}


@pytest.mark.parametrize(
    ("new", "old", "message"),
    [
        (volume(nfs={"server": "s"}), None, ""),
        (volume(hostPath={"path": "/"}), None, "hostPath volumes can only be created by the system"),
        (volume(local={"path": "/"}), None, "local volumes can only be created by the system"),
        (volume(local={"path": "/alcove/x"}), None, "local volumes"),
        (volume(node="n", nfs={}), None, "the label alcove.io/node"),
        (volume(local_volumes.FINALIZER, nfs={}), None, "the finalizer alcove.io/local-volume"),
        (OURS, OURS, ""),
        (changed(spec={**OURS["spec"], "claimRef": {"name": "c"}}), OURS, ""),
        (changed(spec={**OURS["spec"], "persistentVolumeReclaimPolicy": "Retain"}), OURS, ""),
        (changed(spec={**OURS["spec"], "capacity": {"storage": "2Gi"}}), OURS, "follows its claim"),
        (changed(spec={**OURS["spec"], "local": {"path": "/etc"}}), OURS, "local volumes"),
        (changed(metadata={**OURS["metadata"], "finalizers": []}), OURS, "the finalizer"),
        (changed(metadata={**OURS["metadata"], "labels": {}}), OURS, "the label"),
    ],
)
async def test_what_a_tenant_may_write(new: Object, old: Object | None, message: str) -> None:
    plugin = LocalVolumeAdmission()
    assert plugin.handles(Operation.CREATE, PERSISTENT_VOLUMES, "") and plugin.handles(
        Operation.UPDATE, PERSISTENT_VOLUMES, "status"
    )
    try:
        await plugin.validate(attributes(new, old, ANN))
        actual = ""
    except Forbidden as error:
        actual = error.message
    assert message in actual and bool(message) == bool(actual)
    await plugin.validate(attributes(new, old, RING0))


async def test_new_claims_and_volumes_are_protected_once() -> None:
    plugin = StorageProtection()
    for resource, finalizer in FINALIZERS.items():
        assert plugin.handles(Operation.CREATE, resource, "")
        assert not plugin.handles(Operation.UPDATE, resource, "")
        new = volume("other")
        for _ in range(2):
            await plugin.admit(attributes(new, None, ANN, resource))
            assert new["metadata"]["finalizers"] == ["other", finalizer]
