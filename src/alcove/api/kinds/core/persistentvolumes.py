"""PersistentVolumes: storage that claims are bound to."""

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
    FieldErrors,
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
    errors: list[FieldError] = []
    spec = volume.get("spec", {})
    modes = spec.get("accessModes", [])
    if not modes:
        errors.append(required("spec.accessModes"))
    check_access_modes(modes, "spec.accessModes", errors)
    _check_capacity(spec.get("capacity", {}), errors)
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy:
        check_choice(policy, _RECLAIM_POLICIES, "spec.persistentVolumeReclaimPolicy", errors)
    if "nodeAffinity" in spec:
        _check_node_affinity(spec["nodeAffinity"], errors)
    _check_source(volume.get("metadata", {}).get("name", ""), spec, errors)
    if policy == "Recycle" and _is_root(spec.get("hostPath", {}).get("path", "")):
        message = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", message))
    if class_name := spec.get("storageClassName"):
        check_value(class_name, names.dns_subdomain, "spec.storageClassName", errors)
    if "volumeMode" in spec:
        check_choice(spec["volumeMode"], VOLUME_MODES, "spec.volumeMode", errors)
    if "volumeAttributesClassName" in spec:
        _check_attributes(spec, errors)
    return errors


def _is_root(path: str) -> bool:
    return path.startswith("/") and not [part for part in path.split("/") if part not in ("", ".")]


def _check_capacity(capacity: Object, errors: FieldErrors) -> None:
    if not capacity:
        errors.append(required("spec.capacity"))
    if list(capacity) != ["storage"]:
        errors.append(not_supported("spec.capacity", capacity, ("storage",)))
    for resource, amount in capacity.items():
        read = read_quantity(amount, f"spec.capacity[{resource}]", errors)
        if read is None:
            continue
        if read.nano < 0:
            message = "must be a valid resource quantity"
            errors.append(invalid(f"spec.capacity[{resource}]", read.value, message))
        if read.nano <= 0:
            errors.append(invalid(f"spec.capacity[{resource}]", str(read), NOT_POSITIVE))


def _check_node_affinity(affinity: Object, errors: FieldErrors) -> None:
    if "required" in affinity:
        check_node_selector(affinity["required"], "spec.nodeAffinity.required", errors)
    else:
        message = "must specify required node constraints"
        errors.append(required("spec.nodeAffinity.required", message))


def _check_source(name: str, spec: Object, errors: FieldErrors) -> None:
    chosen = ""
    for kind, check in _SOURCES.items():
        if kind not in spec:
            continue
        if chosen:
            errors.append(forbidden(f"spec.{kind}", "may not specify more than 1 volume type"))
            continue
        chosen = kind
        check(spec[kind], "spec.persistentDisk" if kind == "gcePersistentDisk" else f"spec.{kind}", errors)
    if not chosen:
        errors.append(required("spec", "must specify a volume type"))
    if chosen == "local" and "nodeAffinity" not in spec:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    if chosen == "iscsi" and "initiatorName" in spec["iscsi"]:
        portal = spec["iscsi"].get("targetPortal", "")
        if len(f"{name}:{portal}") > 64:
            message = (
                "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
                "if iscsi.initiatorName is specified."
            )
            errors.append(invalid("spec.iscsi.targetportal", portal, message))


def _glusterfs(source: Object, path: str, errors: FieldErrors) -> None:
    ATTACHED["glusterfs"](source, path, errors)
    namespace = source.get("endpointsNamespace")
    if namespace == "":
        message = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(f"{path}.endpointsNamespace", namespace, message))
    elif namespace is not None:
        check_value(namespace, names.dns_label, f"{path}.endpointsNamespace", errors)


def _with_secret(kind: str) -> Callable[[Object, str, FieldErrors], None]:
    """Check a pod's volume source whose secret needs a namespace in a persistent volume."""

    def check(source: Object, path: str, errors: FieldErrors) -> None:
        ATTACHED[kind](source, path, errors)
        if "secretRef" in source:
            check_present(source["secretRef"].get("namespace"), f"{path}.secretRef.namespace", errors)

    return check


def _iscsi(source: Object, path: str, errors: FieldErrors) -> None:
    ATTACHED["iscsi"](source, path, errors)
    if "secretRef" in source:
        check_present(source["secretRef"].get("name"), f"{path}.secretRef.name", errors)


def _azure_file(source: Object, path: str, errors: FieldErrors) -> None:
    ATTACHED["azureFile"](source, path, errors)
    if source.get("secretNamespace") == "":
        errors.append(required(f"{path}.secretNamespace"))


def _local(source: Object, path: str, errors: FieldErrors) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
    else:
        check_no_backsteps(source["path"], f"{path}.path", errors)


def _csi(source: Object, path: str, errors: FieldErrors) -> None:
    check_csi_driver(source.get("driver", ""), f"{path}.driver", errors)
    check_present(source.get("volumeHandle"), f"{path}.volumeHandle", errors)
    for field in _CSI_SECRETS:
        if field in source:
            reference = source[field]
            check_name(reference.get("name", ""), names.dns_subdomain, f"{path}.{field}.name", errors)
            check_name(reference.get("namespace", ""), names.dns_label, f"{path}.{field}.namespace", errors)


_SOURCES: dict[str, Callable[[Object, str, FieldErrors], None]] = {
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


def _check_attributes(spec: Object, errors: FieldErrors) -> None:
    name, field = spec["volumeAttributesClassName"], "spec.volumeAttributesClassName"
    if not name:
        errors.append(required(field, "an empty string is disallowed"))
    else:
        check_value(name, names.dns_subdomain, field, errors)
    if "csi" not in spec:
        errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    spec, before = new.get("spec", {}), old.get("spec", {})
    source, source_before = _source_of(spec), _source_of(before)
    if "csi" in source and "controllerExpandSecretRef" not in source_before.get("csi", ()):
        # Volumes created before expansion existed may still get the secret for it.
        csi = {field: value for field, value in source["csi"].items() if field != "controllerExpandSecretRef"}
        source = {**source, "csi": csi}
    if not same(source, source_before):
        message = (
            f"spec.persistentvolumesource is immutable after creation\n{difference(source_before, source)}"
        )
        errors.append(forbidden("spec.persistentvolumesource", message))
    immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode", errors)
    if "nodeAffinity" in before and not _same_affinity(spec.get("nodeAffinity"), before["nodeAffinity"]):
        message = "field is immutable, except for updating from beta label to GA"
        errors.append(invalid("nodeAffinity", spec.get("nodeAffinity"), message))
    if "volumeAttributesClassName" in before and "volumeAttributesClassName" not in spec:
        message = "update from non-nil value to nil is forbidden"
        errors.append(forbidden("spec.volumeAttributesClassName", message))
    return errors


def _source_of(spec: Object) -> Object:
    return {kind: spec[kind] for kind in _SOURCES if kind in spec}


def _same_affinity(new: Object | None, old: Object) -> bool:
    return same(new, old) or same(new, _with_labels_renamed(new, old))


def _with_labels_renamed(new: Object | None, old: Object) -> Object:
    """Return the old affinity, with beta labels renamed where the new one uses their replacement."""
    terms = [dict(term) for term in old.get("required", {}).get("nodeSelectorTerms", ())]
    others = (new or {}).get("required", {}).get("nodeSelectorTerms", ())
    for term, other in zip(terms, others, strict=False):
        expressions = [dict(expression) for expression in term.get("matchExpressions", ())]
        for expression, new_expression in zip(expressions, other.get("matchExpressions", ()), strict=False):
            renamed = _RENAMED_LABELS.get(expression.get("key", ""))
            if renamed is not None and renamed == new_expression.get("key"):
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
