"""What is kept of objects between the wire and the core: a fraction, for there are many.

Each function returns a smaller object with just the fields that are read from it later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from alcove.api.objects import Object

_METADATA = ("name", "namespace", "tenant", "uid", "labels", "creationTimestamp", "deletionTimestamp")
_POD_SPEC = (
    "affinity",
    "nodeName",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "resourceClaims",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "tolerations",
    "topologySpreadConstraints",
)
_CONTAINER = ("name", "image", "restartPolicy")
_CONDITIONS = ("PodResizePending", "DisruptionTarget")
_CONTAINER_STATUS = ("name", "resources", "allocatedResources")
_VOLUMES = (
    "persistentVolumeClaim",
    "ephemeral",
    "image",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "rbd",
    "iscsi",
)


def _some(given: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {field: given[field] for field in fields if field in given}


def trim_pod(pod: Object) -> Object:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    kept = _some(metadata, _METADATA)
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    if owners:
        kept["ownerReferences"] = [_some(each, ("kind", "uid", "controller")) for each in owners]
    small: Object = {"metadata": kept, "spec": _trim_spec(spec), "status": _trim_status(status)}
    return small


def _trim_spec(spec: Object) -> Object:
    kept = _some(spec, _POD_SPEC)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            kept[field] = [_trim_container(each) for each in spec[field]]
    volumes = [each for each in spec.get("volumes") or () if any(each.get(kind) for kind in _VOLUMES)]
    if volumes:
        kept["volumes"] = [_some(each, ("name", *_VOLUMES)) for each in volumes]
    return kept


def _trim_container(container: Object) -> Object:
    kept = _some(container, _CONTAINER)
    if requests := (container.get("resources") or {}).get("requests"):
        kept["resources"] = {"requests": requests}
    ports = [each for each in container.get("ports") or () if each.get("hostPort")]
    if ports:
        kept["ports"] = ports
    return kept


def _trim_status(status: Object) -> Object:
    kept = _some(status, ("phase", "nominatedNodeName", "startTime", "resources", "allocatedResources"))
    conditions = [each for each in status.get("conditions") or () if each.get("type") in _CONDITIONS]
    if conditions:
        kept["conditions"] = conditions
    for field in ("containerStatuses", "initContainerStatuses"):
        resized = [each for each in status.get(field) or () if each.get("resources")]
        if resized:
            kept[field] = [_some(each, _CONTAINER_STATUS) for each in resized]
    return kept


def trim_node(node: Object) -> Object:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return {
        "metadata": _some(metadata, _METADATA),
        "spec": _some(spec, ("taints", "unschedulable")),
        "status": _some(status, ("allocatable", "capacity", "images", "runtimeHandlers")),
    }
