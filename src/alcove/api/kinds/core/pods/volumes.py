"""Volumes of a pod: one source each, names unique."""

from collections.abc import Callable

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, required
from alcove.api.kinds.core.claims import check_claim_template
from alcove.api.kinds.core.paths import check_descending, check_file_mode
from alcove.api.kinds.core.pods.projections import check_downward_files, check_key_paths, check_projected
from alcove.api.kinds.core.volumesources import ATTACHED, check_csi_driver
from alcove.api.objects import Object
from alcove.api.validation import (
    FieldErrors,
    check_present,
    check_required_choice,
    check_value,
    read_quantity,
)

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_volumes(spec: Object, pod_name: str, path: str, errors: FieldErrors) -> dict[str, Object]:
    """Check the volumes and return the valid ones by name. `pod_name` is empty in templates."""
    valid: dict[str, Object] = {}
    volumes = spec.get("volumes", ())
    ephemeral_claims = {
        f"{pod_name}-{volume.get('name', '')}" for volume in volumes if "ephemeral" in volume and pod_name
    }
    for index, volume in enumerate(volumes):
        before = len(errors)
        where, name = f"{path}[{index}]", volume.get("name", "")
        _check_source(volume, name, pod_name, where, errors)
        if not name:
            errors.append(required(f"{where}.name"))
        else:
            check_value(name, names.dns_label, f"{where}.name", errors)
        if name in valid:
            errors.append(duplicate(f"{where}.name", name))
        if len(errors) == before:
            valid[name] = volume
        if ephemeral_claims and volume.get("persistentVolumeClaim", {}).get("claimName") in ephemeral_claims:
            message = "must not reference a PVC that gets created for an ephemeral volume"
            claim = volume["persistentVolumeClaim"]["claimName"]
            errors.append(invalid(f"{where}.persistentVolumeClaim.claimName", claim, message))
    return valid


def _check_source(volume: Object, name: str, pod_name: str, path: str, errors: FieldErrors) -> None:
    chosen = ""
    if len(volume) == 2:
        chosen = next((kind for kind in volume if kind in _SOURCES), "")
        if chosen:
            _SOURCES[chosen](volume[chosen], f"{path}.{_SAID_AS.get(chosen, chosen)}", errors)
    else:
        for kind in _SOURCES:
            if kind not in volume:
                continue
            if chosen:
                where = f"{path}.{_MISSAID_AS.get(kind, kind)}"
                errors.append(forbidden(where, "may not specify more than 1 volume type"))
            else:
                chosen = kind
                _SOURCES[kind](volume[kind], f"{path}.{_SAID_AS.get(kind, kind)}", errors)
    if not chosen:
        errors.append(required(path, "must specify a volume type"))
    elif chosen == "ephemeral" and pod_name and name:
        _check_ephemeral_claim(f"{pod_name}-{name}", name, path, errors)
    elif "iscsi" in volume:
        _check_initiator_length(volume, name, path, errors)


def _check_ephemeral_claim(claim: str, name: str, path: str, errors: FieldErrors) -> None:
    for message in names.dns_subdomain(claim):
        errors.append(invalid(f"{path}.name", name, f'PVC name "{claim}": {message}'))


def _check_initiator_length(volume: Object, name: str, path: str, errors: FieldErrors) -> None:
    source = volume["iscsi"]
    if "initiatorName" in source and len(f"{name}:{source.get('targetPortal', '')}") > 64:
        message = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
            "if iscsi.initiatorName is specified."
        )
        errors.append(invalid(f"{path}.name", name, message))


def _empty_dir(source: Object, path: str, errors: FieldErrors) -> None:
    if "sizeLimit" in source:
        limit = read_quantity(source["sizeLimit"], f"{path}.sizeLimit", errors)
        if limit is not None and limit.nano < 0:
            errors.append(forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity"))


def _secret(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("secretName"), f"{path}.secretName", errors)
    _check_files(source, path, errors)


def _config_map(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("name"), f"{path}.name", errors)
    _check_files(source, path, errors)


def _check_files(source: Object, path: str, errors: FieldErrors) -> None:
    check_file_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    if items := source.get("items"):
        check_key_paths(items, f"{path}.items", errors)


def _downward(source: Object, path: str, errors: FieldErrors) -> None:
    check_file_mode(source.get("defaultMode"), f"{path}.defaultMode", errors)
    check_downward_files(source.get("items", ()), path, errors)


def _claim(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("claimName"), f"{path}.claimName", errors)


def _ephemeral(source: Object, path: str, errors: FieldErrors) -> None:
    template = source.get("volumeClaimTemplate")
    if template is None:
        errors.append(required(f"{path}.volumeClaimTemplate"))
    else:
        check_claim_template(template, f"{path}.volumeClaimTemplate", errors)


def _git_repo(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("repository"), f"{path}.repository", errors)
    check_descending(source.get("directory", ""), f"{path}.directory", errors)


def _csi(source: Object, path: str, errors: FieldErrors) -> None:
    check_csi_driver(source.get("driver", ""), f"{path}.driver", errors)
    secret = source.get("nodePublishSecretRef")
    if secret is None:
        return
    if not secret.get("name"):
        errors.append(required(f"{path}.nodePublishSecretRef.name"))
    else:
        check_value(secret["name"], names.dns_subdomain, f"{path}.name", errors)


def _image(source: Object, path: str, errors: FieldErrors) -> None:
    policy = source.get("pullPolicy", "")
    check_required_choice(policy, _PULL_POLICIES, f"{path}.pullPolicy", errors)


Source = Callable[[Object, str, FieldErrors], None]
_SOURCES: dict[str, Source] = {
    "emptyDir": _empty_dir,
    "hostPath": ATTACHED["hostPath"],
    "gitRepo": _git_repo,
    "gcePersistentDisk": ATTACHED["gcePersistentDisk"],
    "awsElasticBlockStore": ATTACHED["awsElasticBlockStore"],
    "secret": _secret,
    "nfs": ATTACHED["nfs"],
    "iscsi": ATTACHED["iscsi"],
    "glusterfs": ATTACHED["glusterfs"],
    "flocker": ATTACHED["flocker"],
    "persistentVolumeClaim": _claim,
    "rbd": ATTACHED["rbd"],
    "cinder": ATTACHED["cinder"],
    "cephfs": ATTACHED["cephfs"],
    "quobyte": ATTACHED["quobyte"],
    "downwardAPI": _downward,
    "fc": ATTACHED["fc"],
    "flexVolume": ATTACHED["flexVolume"],
    "configMap": _config_map,
    "azureFile": ATTACHED["azureFile"],
    "vsphereVolume": ATTACHED["vsphereVolume"],
    "photonPersistentDisk": ATTACHED["photonPersistentDisk"],
    "portworxVolume": ATTACHED["portworxVolume"],
    "azureDisk": ATTACHED["azureDisk"],
    "storageos": ATTACHED["storageos"],
    "projected": check_projected,
    "scaleIO": ATTACHED["scaleIO"],
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}
"""In Kubernetes' order of checks: of several sources, the first is checked and the others are errors."""

_SAID_AS = {"gcePersistentDisk": "persistentDisk"}
_MISSAID_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Typos of Kubernetes that are part of its messages."""
