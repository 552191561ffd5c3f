"""Pods as they can be created again: without what a node, the scheduler and the network controllers added."""

from alcove.api.objects import Object

VPC_ANNOTATION = "mizar.com/vpc"
SUBNET_ANNOTATION = "mizar.com/subnet"
READINESS_ANNOTATION = "arktos.futurewei.com/network-readiness"
_OF_ITS_PLACE = (VPC_ANNOTATION, SUBNET_ANNOTATION, READINESS_ANNOTATION)
_METADATA = ("name", "labels", "ownerReferences", "finalizers")


def unscheduled(pod: Object) -> Object:
    """The pod to create: the same name and spec, to be scheduled anew."""
    old = pod["metadata"]
    metadata = {field: old[field] for field in _METADATA if old.get(field)}
    kept = {key: value for key, value in (old.get("annotations") or {}).items() if key not in _OF_ITS_PLACE}
    if kept:
        metadata["annotations"] = kept
    spec = {
        key: value for key, value in pod["spec"].items() if key not in ("nodeName", "ephemeralContainers")
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
