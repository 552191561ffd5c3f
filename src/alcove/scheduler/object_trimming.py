"""Trims objects to the fields that the scheduler reads, to save memory.

Each function returns a new object with only these fields.
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


def _pick(obj: Mapping[str, Any], fields: Iterable[str]) -> Object:
    return {field: obj[field] for field in fields if field in obj}


def trim_pod(pod: Object) -> Object:
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    trimmed = _pick(metadata, _METADATA)
    owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
    if owners:
        trimmed["ownerReferences"] = [_pick(each, ("kind", "uid", "controller")) for each in owners]
    small: Object = {"metadata": trimmed, "spec": _trim_spec(spec), "status": _trim_status(status)}
    return small


def _trim_spec(spec: Object) -> Object:
    trimmed = _pick(spec, _POD_SPEC)
    for field in ("containers", "initContainers"):
        if spec.get(field):
            trimmed[field] = [_trim_container(each) for each in spec[field]]
    volumes = [each for each in spec.get("volumes") or () if any(each.get(kind) for kind in _VOLUMES)]
    if volumes:
        trimmed["volumes"] = [_pick(each, ("name", *_VOLUMES)) for each in volumes]
    return trimmed


def _trim_container(container: Object) -> Object:
    trimmed = _pick(container, _CONTAINER)
    if requests := (container.get("resources") or {}).get("requests"):
        trimmed["resources"] = {"requests": requests}
    ports = [each for each in container.get("ports") or () if each.get("hostPort")]
    if ports:
        trimmed["ports"] = ports
    return trimmed


def _trim_status(status: Object) -> Object:
    trimmed = _pick(status, ("phase", "nominatedNodeName", "startTime", "resources", "allocatedResources"))
    conditions = [each for each in status.get("conditions") or () if each.get("type") in _CONDITIONS]
    if conditions:
        trimmed["conditions"] = conditions
    for field in ("containerStatuses", "initContainerStatuses"):
        resized = [each for each in status.get(field) or () if each.get("resources")]
        if resized:
            trimmed[field] = [_pick(each, _CONTAINER_STATUS) for each in resized]
    return trimmed


def trim_node(node: Object) -> Object:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return {
        "metadata": _pick(metadata, _METADATA),
        "spec": _pick(spec, ("taints", "unschedulable")),
        "status": _pick(status, ("allocatable", "capacity", "images", "runtimeHandlers")),
    }
