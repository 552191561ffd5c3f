"""Local volumes: the volume to create for a claim, and unsupported requests. Pure."""

from __future__ import annotations

from alcove.api import local_volumes, objects
from alcove.api.objects import Object, get
from alcove.controllers.volumes import facts

MODES = frozenset(("ReadWriteOnce", "ReadWriteOncePod"))


def wants(claim: Object, chosen: Object | None) -> bool:
    """Whether the local provisioner should create a volume for the claim now."""
    if chosen is None or chosen.get("provisioner") != local_volumes.PROVISIONER:
        return False
    if get(claim, "spec", "volumeName") or "deletionTimestamp" in claim["metadata"]:
        return False
    return facts.SELECTED_NODE in objects.annotations(claim) or not facts.waits_for_consumer(chosen)


def find_problem(claim: Object, chosen: Object) -> str:
    """A message if the claim cannot be provisioned; otherwise empty."""
    if not facts.waits_for_consumer(chosen):
        return "local volumes require volumeBindingMode WaitForFirstConsumer in the StorageClass"
    if unsupported := facts.modes(claim) - MODES:
        return f"access mode not supported by local volumes: {', '.join(sorted(unsupported))}"
    if facts.volume_mode(claim) != "Filesystem":
        return "local volumes do not support volumeMode Block"
    if get(claim, "spec", "selector") is not None:
        return "claims with a selector cannot be provisioned; they can only be bound to existing volumes"
    if get(claim, "spec", "dataSourceRef") is not None or get(claim, "spec", "dataSource") is not None:
        return "local volumes do not support data sources"
    return ""


def volume_name(claim: Object) -> str:
    """Derived from the claim's uid, so that a repeated creation fails with AlreadyExists."""
    return f"pvc-{claim['metadata']['uid']}"


def volume(claim: Object, chosen: Object, node: str) -> Object:
    name, metadata = volume_name(claim), claim["metadata"]
    node_requirement = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "metadata": {
            "name": name,
            "labels": {local_volumes.NODE_LABEL: node},
            "annotations": {facts.PROVISIONED_BY: local_volumes.PROVISIONER},
            "finalizers": [local_volumes.FINALIZER],
        },
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": str(facts.requested(claim))},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "local": {"path": local_volumes.path(name)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [node_requirement]}]}},
            "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy") or "Delete",
            "storageClassName": facts.class_of(claim),
            "volumeMode": "Filesystem",
        },
    }
