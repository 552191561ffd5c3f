"""Rules by operating system: options of the other system, Windows host processes."""

from alcove.api.fields import forbidden, invalid, not_supported, required
from alcove.api.kinds.core.pods.containers import all_containers
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors

_SYSTEMS = ("linux", "windows")
_NOT_ON_WINDOWS_POD = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_NOT_ON_WINDOWS_SPEC = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
_NOT_ON_WINDOWS_CONTAINER = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def check_os(spec: Object, path: str, errors: FieldErrors) -> None:
    """Check `spec.os`, if it is set."""
    name = spec["os"].get("name", "")
    if not name:
        errors.append(required(f"{path}.os.name"))
    elif name not in _SYSTEMS:
        errors.append(not_supported(f"{path}.os", name, _SYSTEMS))
    elif name == "linux":
        _check_linux(spec, path, errors)
    else:
        _check_windows(spec, path, errors)


def _check_linux(spec: Object, path: str, errors: FieldErrors) -> None:
    message = "windows options cannot be set for a linux pod"
    if "windowsOptions" in spec.get("securityContext", ()):
        errors.append(forbidden(f"{path}.securityContext.windowsOptions", message))
    for container, where in all_containers(spec, path):
        if "windowsOptions" in container.get("securityContext", ()):
            errors.append(forbidden(f"{where}.securityContext.windowsOptions", message))


def _check_windows(spec: Object, path: str, errors: FieldErrors) -> None:
    message = "cannot be set for a windows pod"
    for field in _NOT_ON_WINDOWS_SPEC:
        if spec.get(field) or (field in spec and field in ("hostUsers", "shareProcessNamespace")):
            errors.append(forbidden(f"{path}.{field}", message))
    security = spec.get("securityContext", {})
    for field in _NOT_ON_WINDOWS_POD:
        if field in security:
            errors.append(forbidden(f"{path}.securityContext.{field}", message))
    for container, where in all_containers(spec, path):
        for field in _NOT_ON_WINDOWS_CONTAINER:
            if field in container.get("securityContext", ()):
                errors.append(forbidden(f"{where}.securityContext.{field}", message))


def check_host_process(spec: Object, path: str, errors: FieldErrors) -> None:
    """Windows host processes: all containers of a pod or none, and only with host networking."""
    whole = spec.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    count = total = 0
    for container, where in all_containers(spec, path):
        total += 1
        host_process = container.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
        if whole is not None and host_process is not None and whole != host_process:
            message = (
                f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            )
            field = f"{where}.securityContext.windowsOptions.hostProcess"
            errors.append(invalid(field, host_process, message))
        count += bool(whole if host_process is None else host_process)
    if not count:
        return
    if count != total:
        message = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        errors.append(invalid(path, "", message))
    if not spec.get("hostNetwork"):
        message = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, message))
