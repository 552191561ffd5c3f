"""External storage: disks, network file systems, CSI. Used by pods and by persistent volumes; rules that only
persistent volumes have are in `persistentvolumes`.
"""

import re
from collections.abc import Callable

from alcove.api import names
from alcove.api.fields import invalid, not_supported, required, too_long
from alcove.api.kinds.core.paths import check_no_backsteps
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_choice, check_present, check_value

Source = Callable[[Object, str, FieldErrors], None]

HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_CSI_DRIVER_LENGTH_MAX = 63
_IQN = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([A-Za-z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII).search,
    "eui": re.compile(r"eui.[A-Za-z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[A-Za-z0-9]{32}").fullmatch,
}
_HOST_PORT = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*):[^\[\]:]*").fullmatch


def _requires(*fields: str) -> Source:
    """Return a check that some fields are present."""

    def check(source: Object, path: str, errors: FieldErrors) -> None:
        for field in fields:
            check_present(source.get(field), f"{path}.{field}", errors)

    return check


def _host_path(source: Object, path: str, errors: FieldErrors) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
        return
    check_no_backsteps(source["path"], f"{path}.path", errors)
    check_choice(source.get("type", ""), HOST_PATH_TYPES, f"{path}.type", errors)


def _partitioned(name: str) -> Source:
    def check(source: Object, path: str, errors: FieldErrors) -> None:
        check_present(source.get(name), f"{path}.{name}", errors)
        if not 0 <= source.get("partition", 0) <= 255:
            message = names.out_of_range(1, 255)
            errors.append(invalid(f"{path}.partition", source["partition"], message))

    return check


def _nfs(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("server"), f"{path}.server", errors)
    check_present(source.get("path"), f"{path}.path", errors)
    if not source.get("path", "").startswith("/"):
        errors.append(invalid(f"{path}.path", source.get("path", ""), "must be an absolute path"))


def _iscsi(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("targetPortal"), f"{path}.targetPortal", errors)
    if not source.get("iqn"):
        errors.append(required(f"{path}.iqn"))
    else:
        _check_iqn(source["iqn"], f"{path}.iqn", errors)
    if not 0 <= source.get("lun", 0) <= 255:
        errors.append(invalid(f"{path}.lun", source["lun"], names.out_of_range(0, 255)))
    asks_secret = source.get("chapAuthDiscovery") or source.get("chapAuthSession")
    if asks_secret and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    if "initiatorName" in source:
        _check_iqn(source["initiatorName"], f"{path}.initiatorname", errors)


def _check_iqn(name: str, field: str, errors: FieldErrors) -> None:
    matches = _IQN.get(name[:3])
    if matches is None:
        errors.append(invalid(field, name, "must be valid format starting with iqn, eui, or naa"))
    elif not matches(name):
        errors.append(invalid(field, name, "must be valid format"))


def _flocker(source: Object, path: str, errors: FieldErrors) -> None:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        message = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(path, "resource", message))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))


def _cinder(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("volumeID"), f"{path}.volumeID", errors)
    if "secretRef" in source:
        check_present(source["secretRef"].get("name"), f"{path}.secretRef.name", errors)


def _quobyte(source: Object, path: str, errors: FieldErrors) -> None:
    pairs = "must be a host:port pair or multiple pairs separated by commas"
    registry = source.get("registry", "")
    if not registry:
        errors.append(required(f"{path}.registry", pairs))
    elif len(source.get("tenant", "")) >= 65:
        message = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(f"{path}.tenant", message))
    else:
        errors += [
            invalid(f"{path}.registry", registry, pairs)
            for pair in registry.split(",")
            if not _HOST_PORT(pair)
        ]
    check_present(source.get("volume"), f"{path}.volume", errors)


def _fc(source: Object, path: str, errors: FieldErrors) -> None:
    targets, ids = source.get("targetWWNs"), source.get("wwids")
    if not targets and not ids:
        message = "must specify either targetWWNs or wwids, but not both"
        errors.append(required(f"{path}.targetWWNs", message))
    if targets and ids:
        message = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(f"{path}.targetWWNs", targets, message))
    if not targets:
        return
    if "lun" not in source:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif not 0 <= source["lun"] <= 255:
        errors.append(invalid(f"{path}.lun", source["lun"], names.out_of_range(0, 255)))


def _flex(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("driver"), f"{path}.driver", errors)
    for option in source.get("options", ()):
        domain = "." + option.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            message = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid(f"{path}.options[{option}]", option, message))


def _azure_disk(source: Object, path: str, errors: FieldErrors) -> None:
    check_present(source.get("diskName"), f"{path}.diskName", errors)
    check_present(source.get("diskURI"), f"{path}.diskURI", errors)
    if "cachingMode" in source:
        modes = ("None", "ReadOnly", "ReadWrite")
        check_choice(source["cachingMode"], modes, f"{path}.cachingMode", errors)
    kind, uri = source.get("kind"), source.get("diskURI", "")
    if kind is None:
        return
    check_choice(kind, ("Dedicated", "Managed", "Shared"), f"{path}.kind", errors)
    managed = (
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    )
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (managed,)))
    if kind != "Managed" and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (blob,)))


def _storage_os(source: Object, path: str, errors: FieldErrors) -> None:
    if not source.get("volumeName"):
        errors.append(required(f"{path}.volumeName"))
    else:
        check_value(source["volumeName"], names.dns_label, f"{path}.volumeName", errors)
    if namespace := source.get("volumeNamespace"):
        check_value(namespace, names.dns_label, f"{path}.volumeNamespace", errors)
    if "secretRef" in source:
        check_present(source["secretRef"].get("name"), f"{path}.secretRef.name", errors)


def check_csi_driver(driver: str, field: str, errors: FieldErrors) -> None:
    if not driver:
        errors.append(required(field))
        return
    if len(driver.encode()) > _CSI_DRIVER_LENGTH_MAX:
        errors.append(too_long(field, _CSI_DRIVER_LENGTH_MAX))
    errors += [invalid(field, driver, message) for message in names.dns_subdomain(driver.lower())]


ATTACHED: dict[str, Source] = {
    "hostPath": _host_path,
    "gcePersistentDisk": _partitioned("pdName"),
    "awsElasticBlockStore": _partitioned("volumeID"),
    "nfs": _nfs,
    "iscsi": _iscsi,
    "glusterfs": _requires("endpoints", "path"),
    "flocker": _flocker,
    "rbd": _requires("monitors", "image"),
    "cinder": _cinder,
    "cephfs": _requires("monitors"),
    "quobyte": _quobyte,
    "fc": _fc,
    "flexVolume": _flex,
    "azureFile": _requires("secretName", "shareName"),
    "vsphereVolume": _requires("volumePath"),
    "photonPersistentDisk": _requires("pdID"),
    "portworxVolume": _requires("volumeID"),
    "azureDisk": _azure_disk,
    "storageos": _storage_os,
    "scaleIO": _requires("gateway", "system", "volumeName"),
}
