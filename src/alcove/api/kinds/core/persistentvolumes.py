"""Persistent volumes: pieces of storage that claims are bound to."""

from collections.abc import Callable

from alcove.api import names
from alcove.api.fields import FieldError, forbidden, invalid, not_supported, required
from alcove.api.kind import Strategy
from alcove.api.kinds.core.claims import VOLUME_MODES, check_access_modes
from alcove.api.kinds.core.nodeselectors import check_node_selector
from alcove.api.kinds.core.paths import check_no_backsteps
from alcove.api.kinds.core.pods.defaults import default_attached_volume
from alcove.api.kinds.core.resources import default_resource_list
from alcove.api.kinds.core.volumesources import ATTACHED, check_csi_driver
from alcove.api.kinds.metadata import immutable
from alcove.api.objects import Object
from alcove.api.validation import (
    NOT_POSITIVE,
    Faults,
    check_choice,
    check_name,
    check_present,
    check_value,
    difference,
    read_quantity,
    same,
)

_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)
_RENAMED_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _default(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    spec.setdefault("volumeMode", "Filesystem")
    if capacity := spec.get("capacity"):
        default_resource_list(capacity)
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")
    default_attached_volume(spec)
    if "status" in volume and not volume["status"].get("phase"):
        volume["status"]["phase"] = "Pending"


def _validate(volume: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    spec = volume.get("spec", {})
    modes = spec.get("accessModes", [])
    if not modes:
        faults.append(required("spec.accessModes"))
    check_access_modes(modes, "spec.accessModes", faults)
    _check_capacity(spec.get("capacity", {}), faults)
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy:
        check_choice(policy, _RECLAIM_POLICIES, "spec.persistentVolumeReclaimPolicy", faults)
    if "nodeAffinity" in spec:
        _check_node_affinity(spec["nodeAffinity"], faults)
    _check_source(volume.get("metadata", {}).get("name", ""), spec, faults)
    if policy == "Recycle" and _is_root(spec.get("hostPath", {}).get("path", "")):
        message = "may not be 'recycle' for a hostPath mount of '/'"
        faults.append(forbidden("spec.persistentVolumeReclaimPolicy", message))
    if class_name := spec.get("storageClassName"):
        check_value(class_name, names.dns_subdomain, "spec.storageClassName", faults)
    if "volumeMode" in spec:
        check_choice(spec["volumeMode"], VOLUME_MODES, "spec.volumeMode", faults)
    if "volumeAttributesClassName" in spec:
        _check_attributes(spec, faults)
    return faults


def _is_root(path: str) -> bool:
    return path.startswith("/") and not [part for part in path.split("/") if part not in ("", ".")]


def _check_capacity(capacity: Object, faults: Faults) -> None:
    if not capacity:
        faults.append(required("spec.capacity"))
    if list(capacity) != ["storage"]:
        faults.append(not_supported("spec.capacity", capacity, ("storage",)))
    for resource, amount in capacity.items():
        read = read_quantity(amount, f"spec.capacity[{resource}]", faults)
        if read is None:
            continue
        if read.nano < 0:
            message = "must be a valid resource quantity"
            faults.append(invalid(f"spec.capacity[{resource}]", read.value, message))
        if read.nano <= 0:
            faults.append(invalid(f"spec.capacity[{resource}]", str(read), NOT_POSITIVE))


def _check_node_affinity(affinity: Object, faults: Faults) -> None:
    if "required" in affinity:
        check_node_selector(affinity["required"], "spec.nodeAffinity.required", faults)
    else:
        message = "must specify required node constraints"
        faults.append(required("spec.nodeAffinity.required", message))


def _check_source(name: str, spec: Object, faults: Faults) -> None:
    chosen = ""
    for kind, check in _SOURCES.items():
        if kind not in spec:
            continue
        if chosen:
            faults.append(forbidden(f"spec.{kind}", "may not specify more than 1 volume type"))
            continue
        chosen = kind
        check(spec[kind], "spec.persistentDisk" if kind == "gcePersistentDisk" else f"spec.{kind}", faults)
    if not chosen:
        faults.append(required("spec", "must specify a volume type"))
    if chosen == "local" and "nodeAffinity" not in spec:
        faults.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    if chosen == "iscsi" and "initiatorName" in spec["iscsi"]:
        portal = spec["iscsi"].get("targetPortal", "")
        if len(f"{name}:{portal}") > 64:
            message = (
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
                "if iscsi.initiatorName is specified."
            )
            faults.append(invalid("spec.iscsi.targetportal", portal, message))


def _glusterfs(source: Object, path: str, faults: Faults) -> None:
    ATTACHED["glusterfs"](source, path, faults)
    namespace = source.get("endpointsNamespace")
    if namespace == "":
        message = "if the endpointnamespace is set, it must be a valid namespace name"
        faults.append(invalid(f"{path}.endpointsNamespace", namespace, message))
    elif namespace is not None:
        check_value(namespace, names.dns_label, f"{path}.endpointsNamespace", faults)


def _with_secret(kind: str) -> Callable[[Object, str, Faults], None]:
    """A source of pods whose secret, here, needs a namespace as well."""

    def check(source: Object, path: str, faults: Faults) -> None:
        ATTACHED[kind](source, path, faults)
        if "secretRef" in source:
            check_present(source["secretRef"].get("namespace"), f"{path}.secretRef.namespace", faults)

    return check


def _iscsi(source: Object, path: str, faults: Faults) -> None:
    ATTACHED["iscsi"](source, path, faults)
    if "secretRef" in source:
        check_present(source["secretRef"].get("name"), f"{path}.secretRef.name", faults)


def _azure_file(source: Object, path: str, faults: Faults) -> None:
    ATTACHED["azureFile"](source, path, faults)
    if source.get("secretNamespace") == "":
        faults.append(required(f"{path}.secretNamespace"))


def _local(source: Object, path: str, faults: Faults) -> None:
    if not source.get("path"):
        faults.append(required(f"{path}.path"))
    else:
        check_no_backsteps(source["path"], f"{path}.path", faults)


def _csi(source: Object, path: str, faults: Faults) -> None:
    check_csi_driver(source.get("driver", ""), f"{path}.driver", faults)
    check_present(source.get("volumeHandle"), f"{path}.volumeHandle", faults)
    for field in _CSI_SECRETS:
        if field in source:
            reference = source[field]
            check_name(reference.get("name", ""), names.dns_subdomain, f"{path}.{field}.name", faults)
            check_name(reference.get("namespace", ""), names.dns_label, f"{path}.{field}.namespace", faults)


_SOURCES: dict[str, Callable[[Object, str, Faults], None]] = {
    "hostPath": ATTACHED["hostPath"],
    "gcePersistentDisk": ATTACHED["gcePersistentDisk"],
    "awsElasticBlockStore": ATTACHED["awsElasticBlockStore"],
    "glusterfs": _glusterfs,
    "flocker": ATTACHED["flocker"],
    "nfs": ATTACHED["nfs"],
    "rbd": ATTACHED["rbd"],
    "quobyte": ATTACHED["quobyte"],
    "cephfs": ATTACHED["cephfs"],
    "iscsi": _iscsi,
    "cinder": _with_secret("cinder"),
    "fc": ATTACHED["fc"],
    "flexVolume": ATTACHED["flexVolume"],
    "azureFile": _azure_file,
    "vsphereVolume": ATTACHED["vsphereVolume"],
    "photonPersistentDisk": ATTACHED["photonPersistentDisk"],
    "portworxVolume": ATTACHED["portworxVolume"],
    "azureDisk": ATTACHED["azureDisk"],
    "scaleIO": ATTACHED["scaleIO"],
    "local": _local,
    "storageos": _with_secret("storageos"),
    "csi": _csi,
}


def _check_attributes(spec: Object, faults: Faults) -> None:
    name, field = spec["volumeAttributesClassName"], "spec.volumeAttributesClassName"
    if not name:
        faults.append(required(field, "an empty string is disallowed"))
    else:
        check_value(name, names.dns_subdomain, field, faults)
    if "csi" not in spec:
        faults.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    faults: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    source, source_before = _source_of(spec), _source_of(before)
    if "csi" in source and "controllerExpandSecretRef" not in source_before.get("csi", ()):
        # Volumes made before expansion was thought of may still get the secret for it.
        csi = {field: value for field, value in source["csi"].items() if field != "controllerExpandSecretRef"}
        source = {**source, "csi": csi}
    if not same(source, source_before):
        message = (
            f"spec.persistentvolumesource is immutable after creation\n{difference(source_before, source)}"
        )
        faults.append(forbidden("spec.persistentvolumesource", message))
    immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode", faults)
    if "nodeAffinity" in before and not _same_affinity(spec.get("nodeAffinity"), before["nodeAffinity"]):
        message = "field is immutable, except for updating from beta label to GA"
        faults.append(invalid("nodeAffinity", spec.get("nodeAffinity"), message))
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        message = "update from non-nil value to nil is forbidden"
        faults.append(forbidden("spec.volumeAttributesClassName", message))
    return faults


def _source_of(spec: Object) -> Object:
    return {kind: spec[kind] for kind in _SOURCES if kind in spec}


def _same_affinity(new: Object | None, old: Object) -> bool:
    return same(new, old) or same(new, _with_labels_renamed(new, old))


def _with_labels_renamed(new: Object | None, old: Object) -> Object:
    """The old affinity, with beta labels renamed where the new one has the name that replaced them."""
    terms = [dict(term) for term in old.get("required", {}).get("nodeSelectorTerms", ())]
    others = (new or {}).get("required", {}).get("nodeSelectorTerms", ())
    for term, other in zip(terms, others, strict=False):
        expressions = [dict(expression) for expression in term.get("matchExpressions", ())]
        for expression, wanted in zip(expressions, other.get("matchExpressions", ()), strict=False):
            renamed = _RENAMED_LABELS.get(expression.get("key", ""))
            if renamed is not None and renamed == wanted.get("key"):
                expression["key"] = renamed
        if expressions:
            term["matchExpressions"] = expressions
    return {**old, "required": {**old.get("required", {}), "nodeSelectorTerms": terms}}


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    prepare_create=lambda volume: volume.update(status={"phase": "Pending"}),
    has_status=True,
)
