"""Volume mounts and block devices of a container."""

from collections.abc import Mapping, Sequence

from alcove.api.fields import forbidden, invalid, not_found, not_supported, required
from alcove.api.kinds.core.paths import check_descending
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

Volumes = Mapping[str, Object]
"""A pod's valid volumes by name."""

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_mounts(container: Object, volumes: Volumes, path: str, errors: FieldErrors) -> None:
    """Check `volumeMounts` and `volumeDevices`, which must not use the same names or paths."""
    mounts, devices = container.get("volumeMounts", ()), container.get("volumeDevices", ())
    if mounts:
        _check_volume_mounts(container, mounts, devices, volumes, f"{path}.volumeMounts", errors)
    if devices:
        _check_devices(devices, mounts, volumes, f"{path}.volumeDevices", errors)


def _check_volume_mounts(
    container: Object,
    mounts: Sequence[Object],
    devices: Sequence[Object],
    volumes: Volumes,
    path: str,
    errors: FieldErrors,
) -> None:
    seen: set[str] = set()
    device_names = {device.get("name", "") for device in devices}
    device_paths = {device.get("devicePath", "") for device in devices}
    for index, mount in enumerate(mounts):
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        if name not in volumes:
            errors.append(not_found(f"{path}[{index}].name", name))
        if not where:
            errors.append(required(f"{path}[{index}].mountPath"))
        if where in seen:
            errors.append(invalid(f"{path}[{index}].mountPath", where, "must be unique"))
        seen.add(where)
        if name in device_names:
            message = "must not already exist in volumeDevices"
            errors.append(invalid(f"{path}[{index}].name", name, message))
        if where in device_paths:
            message = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{path}[{index}].mountPath", where, message))
        if len(mount) > 2:
            _check_mount_options(mount, container, index, path, errors)


def _check_mount_options(
    mount: Object, container: Object, index: int, path: str, errors: FieldErrors
) -> None:
    """The paths in these errors lack the index, as in Kubernetes."""
    if sub_path := mount.get("subPath"):
        check_descending(sub_path, f"{path}.subPath", errors)
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            message = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}[{index}].subPathExpr", expression, message))
        check_descending(expression, f"{path}.subPathExpr", errors)
    if "mountPropagation" in mount:
        _check_propagation(mount["mountPropagation"], container, f"{path}.mountPropagation", errors)
    if "recursiveReadOnly" in mount:
        _check_recursive(mount, f"{path}.recursiveReadOnly", errors)


def _check_propagation(propagation: str, container: Object, path: str, errors: FieldErrors) -> None:
    if propagation not in _PROPAGATIONS:
        errors.append(not_supported(path, propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and not container.get("securityContext", {}).get("privileged"):
        message = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(path, message))


def _check_recursive(mount: Object, path: str, errors: FieldErrors) -> None:
    recursive = mount["recursiveReadOnly"]
    if recursive not in _RECURSIVE:
        errors.append(not_supported(path, recursive, _RECURSIVE))
    elif recursive != "Disabled":
        if not mount.get("readOnly"):
            errors.append(forbidden(path, "may only be specified when readOnly is true"))
        if mount.get("mountPropagation", "None") != "None":
            message = "may only be specified when mountPropagation is None or not specified"
            errors.append(forbidden(path, message))


def _check_devices(
    devices: Sequence[Object], mounts: Sequence[Object], volumes: Volumes, path: str, errors: FieldErrors
) -> None:
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    mount_names = {mount.get("name", "") for mount in mounts}
    mount_paths = {mount.get("mountPath", "") for mount in mounts}
    for index, device in enumerate(devices):
        name, where = device.get("name", ""), device.get("devicePath", "")
        at_name, at_path = f"{path}[{index}].name", f"{path}[{index}].devicePath"
        _check_device_name(name, volumes, seen_names, at_name, errors)
        if not where:
            errors.append(required(at_path))
        if where in seen_paths:
            errors.append(invalid(at_path, where, "must be unique"))
        if ".." in where.split("/"):
            errors.append(invalid(at_path, where, "can not contain backsteps ('..')"))
        else:
            seen_paths.add(where)
        if name in mount_names:
            errors.append(invalid(at_name, name, "must not already exist in volumeMounts"))
        if where in mount_paths:
            errors.append(invalid(at_path, where, "must not already exist as a path in volumeMounts"))
        if name:
            seen_names.add(name)


def _check_device_name(name: str, volumes: Volumes, seen: set[str], path: str, errors: FieldErrors) -> None:
    if not name:
        errors.append(required(path))
    if name in seen:
        errors.append(invalid(path, name, "must be unique"))
    volume = volumes.get(name)
    if volume is None:
        errors.append(not_found(path, name))
    elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
        message = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, message))
