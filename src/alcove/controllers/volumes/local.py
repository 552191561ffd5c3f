"""Local volumes: what is made for a claim, and what cannot be. Pure."""

from __future__ import annotations

from alcove.api import local_volumes, objects
from alcove.api.objects import Object, get
from alcove.controllers.volumes import facts

MODES = frozenset(("ReadWriteOnce", "ReadWriteOncePod"))


def wants(claim: Object, chosen: Object | None) -> bool:
    """Whether it is time to make a volume for the claim, and ours to do."""
    if chosen is None or chosen.get("provisioner") != local_volumes.PROVISIONER:
        return False
    if get(claim, "spec", "volumeName") or "deletionTimestamp" in claim["metadata"]:
        return False
    return facts.SELECTED_NODE in objects.annotations(claim) or not facts.waits_for_consumer(chosen)


def fault(claim: Object, chosen: Object) -> str:
    """Why there can be no such volume; empty: there can."""
    if not facts.waits_for_consumer(chosen):
        return (
            "a local volume is where its pod is: the class must have volumeBindingMode WaitForFirstConsumer"
        )
    if others := facts.modes(claim) - MODES:
        return f"a local volume is on one node: {', '.join(sorted(others))} cannot be had"
    if facts.volume_mode(claim) != "Filesystem":
        return "local volumes are file systems, not blocks"
    if get(claim, "spec", "selector") is not None:
        return "a claim with a selector gets volumes that are there; none is made for it"
    if get(claim, "spec", "dataSourceRef") is not None or get(claim, "spec", "dataSource") is not None:
        return "local volumes begin empty: they cannot be made from a data source"
    return ""


def volume_name(claim: Object) -> str:
    """One name for one claim: made twice, it is made once."""
    return f"pvc-{claim['metadata']['uid']}"


def volume(claim: Object, chosen: Object, node: str) -> Object:
    name, metadata = volume_name(claim), claim["metadata"]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
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
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [here]}]}},
            "persistentVolumeReclaimPolicy": chosen.get("reclaimPolicy") or "Delete",
            "storageClassName": facts.class_of(claim),
            "volumeMode": "Filesystem",
        },
    }
