"""Warnings for volumes, claims and storage classes."""

from alcove.api.objects import Object, annotations, get
from alcove.api.warnings import nodes
from alcove.api.warnings.base import annotated, present
from alcove.api.warnings.templates import claim_spec

_CLASS = {
    "volume.beta.kubernetes.io/storage-class": (
        'deprecated since v1.8; use "storageClassName" attribute instead'
    ),
}
_VOLUME_ANNOTATIONS = {
    **_CLASS,
    "volume.beta.kubernetes.io/mount-options": (
        'deprecated since v1.31; use "mountOptions" attribute instead'
    ),
}
_VOLUME_FIELDS = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible "
    "logging of tokens in volume attributes"
)


def claim(new: Object, _old: Object | None) -> list[str]:
    return [*annotated(_CLASS, annotations(new), ""), *claim_spec(new.get("spec") or {}, "spec")]


def volume(new: Object, _old: Object | None) -> list[str]:
    spec = new.get("spec") or {}
    messages = annotated(_VOLUME_ANNOTATIONS, annotations(new), "")
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        messages.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}")
    for index, term in enumerate(get(spec, "nodeAffinity", "required", "nodeSelectorTerms", default=())):
        messages += nodes.expressions(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    return messages + present(_VOLUME_FIELDS, spec, "spec.")


def storage_class(new: Object, _old: Object | None) -> list[str]:
    return [
        f"allowedTopologies[{index}].matchLabelExpressions[{number}].key: {nodes.DEPRECATED[each['key']]}"
        for index, topology in enumerate(new.get("allowedTopologies") or ())
        for number, each in enumerate(topology.get("matchLabelExpressions") or ())
        if each.get("key") in nodes.DEPRECATED
    ]


def capacity(new: Object, _old: Object | None) -> list[str]:
    return nodes.selector(new.get("nodeTopology"), "nodeTopology")


def driver(new: Object, old: Object | None) -> list[str]:
    requested = get(new, "spec", "tokenRequests", default=[])
    if not requested or get(new, "spec", "serviceAccountTokenInSecrets") is not None:
        return []
    return [_TOKENS] if old is None or get(old, "spec", "tokenRequests", default=[]) != requested else []
