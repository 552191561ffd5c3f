"""Security contexts of pods and containers: users, groups, profiles, sysctls, Windows options."""

import re
from collections.abc import Sequence

from alcove.api import names
from alcove.api.fields import duplicate, forbidden, invalid, not_supported, required, too_long
from alcove.api.kinds.core.paths import check_descending
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_choice, check_id, check_value

_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROFILE_LENGTH_MAX = 4095
_SYSCTL_LENGTH_MAX = 253
_SYSCTL_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = "(" + _SYSCTL_SEGMENT + r"[\./])*" + _SYSCTL_SEGMENT
_is_sysctl = re.compile(_SYSCTL).fullmatch
_IPC_SYSCTLS = frozenset(
    [
        "kernel.sem",
        "kernel.shm",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.msg",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
    ]
)
_CREDENTIAL_SPEC_KIB_MAX = 64
_DOMAIN_LENGTH_MAX = 256
_USER_LENGTH_MAX = 104
_WINDOWS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_is_windows_domain = re.compile(rf"{_WINDOWS_LABEL}(?:\.{_WINDOWS_LABEL})*").fullmatch
_is_netbios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_has_control = re.compile(r"[\x00-\x1f\x7f]").search
_has_bad_user_character = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search


def check_container_security(security: Object, host_users: bool, path: str, errors: FieldErrors) -> None:
    for field in ("runAsUser", "runAsGroup"):
        if field in security:
            check_id(security[field], f"{path}.{field}", errors)
    if "procMount" in security:
        mount = security["procMount"]
        check_choice(mount, ("Default", "Unmasked"), f"{path}.procMount", errors)
        if host_users and mount == "Unmasked":
            message = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", mount, message))
    _check_seccomp(security.get("seccompProfile"), f"{path}.seccompProfile", errors)
    if security.get("allowPrivilegeEscalation") is False:
        _check_no_escalation(security, path, errors)
    _check_windows_options(security.get("windowsOptions"), f"{path}.windowsOptions", errors)
    _check_apparmor(security.get("appArmorProfile"), f"{path}.appArmorProfile", errors)


def _check_no_escalation(security: Object, path: str, errors: FieldErrors) -> None:
    if security.get("privileged"):
        message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, security, message))
    if "CAP_SYS_ADMIN" in security.get("capabilities", {}).get("add", ()):
        message = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        errors.append(invalid(path, security, message))


def check_pod_security(spec: Object, path: str, errors: FieldErrors) -> None:
    """Check `spec.securityContext`, if it is not empty."""
    security = spec["securityContext"]
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        if field in security:
            check_id(security[field], f"{path}.{field}", errors)
    for index, group in enumerate(security.get("supplementalGroups", ())):
        check_id(group, f"{path}.supplementalGroups[{index}]", errors)
    if sysctls := security.get("sysctls"):
        _check_sysctls(sysctls, spec, f"{path}.sysctls", errors)
    if "fsGroupChangePolicy" in security:
        policy = security["fsGroupChangePolicy"]
        check_choice(policy, ("Always", "OnRootMismatch"), f"{path}.fsGroupChangePolicy", errors)
    _check_seccomp(security.get("seccompProfile"), f"{path}.seccompProfile", errors)
    _check_windows_options(security.get("windowsOptions"), f"{path}.windowsOptions", errors)
    _check_apparmor(security.get("appArmorProfile"), f"{path}.appArmorProfile", errors)
    if "supplementalGroupsPolicy" in security:
        policy = security["supplementalGroupsPolicy"]
        check_choice(policy, ("Merge", "Strict"), f"{path}.supplementalGroupsPolicy", errors)
    if "seLinuxChangePolicy" in security:
        policy = security["seLinuxChangePolicy"]
        check_choice(policy, ("Recursive",), f"{path}.seLinuxChangePolicy", errors)


def check_shared_processes(spec: Object, path: str, errors: FieldErrors) -> None:
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        message = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.securityContext.shareProcessNamespace", True, message))


def _check_sysctls(sysctls: Sequence[Object], spec: Object, path: str, errors: FieldErrors) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        name, where = sysctl.get("name", ""), f"{path}[{index}].name"
        if not name:
            errors.append(required(where))
        elif len(name) > _SYSCTL_LENGTH_MAX or not _is_sysctl(name):
            message = f"must have at most {_SYSCTL_LENGTH_MAX} characters and match regex ^{_SYSCTL}$"
            errors.append(invalid(where, name, message))
        elif name in seen:
            errors.append(duplicate(where, name))
        _check_host_sysctl(_dotted(name), name, spec, where, errors)
        seen.add(name)


def _check_host_sysctl(dotted: str, name: str, spec: Object, path: str, errors: FieldErrors) -> None:
    if spec.get("hostNetwork") and dotted.startswith("net."):
        errors.append(invalid(path, name, "may not be specified when 'hostNetwork' is true"))
    elif spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
        errors.append(invalid(path, name, "may not be specified when 'hostIPC' is true"))


def _dotted(name: str) -> str:
    """Return the sysctl with dots; in the form with slashes (`net/ipv4/...`), dots belong to segments."""
    slash, dot = name.find("/"), name.find(".")
    return name.translate({46: "/", 47: "."}) if slash >= 0 and (dot < 0 or slash < dot) else name


def _check_seccomp(profile: Object | None, path: str, errors: FieldErrors) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))
    if kind != "Localhost":
        if local is not None:
            message = "can only be set when seccomp type is Localhost"
            errors.append(invalid(f"{path}.localhostProfile", profile, message))
    elif local is None:
        errors.append(required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost"))
    else:
        check_descending(local, f"{path}.localhostProfile", errors)


def _check_apparmor(profile: Object | None, path: str, errors: FieldErrors) -> None:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        _check_local_apparmor(local, f"{path}.localhostProfile", errors)
    elif not kind:
        errors.append(required(f"{path}.type", "type is required when appArmorProfile is set"))
    elif kind not in _PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILE_TYPES))
    elif local is not None:
        message = "can only be set when AppArmor type is Localhost"
        errors.append(invalid(f"{path}.localhostProfile", local, message))


def _check_local_apparmor(name: str | None, path: str, errors: FieldErrors) -> None:
    if not name:
        errors.append(required(path, "must be set when AppArmor type is Localhost"))
        return
    if name != name.strip():
        errors.append(invalid(path, name, "must not be padded with whitespace"))
    if len(name.encode()) > _PROFILE_LENGTH_MAX:
        errors.append(too_long(path, _PROFILE_LENGTH_MAX))


def _check_windows_options(options: Object | None, path: str, errors: FieldErrors) -> None:
    if options is None:
        return
    if "gmsaCredentialSpecName" in options:
        name = options["gmsaCredentialSpecName"]
        check_value(name, names.dns_subdomain, f"{path}.gmsaCredentialSpecName", errors)
    spec = options.get("gmsaCredentialSpec")
    if spec == "":
        message = "gmsaCredentialSpec cannot be an empty string"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, message))
    elif spec is not None and len(spec.encode()) > _CREDENTIAL_SPEC_KIB_MAX * 1024:
        message = f"gmsaCredentialSpec size must be under {_CREDENTIAL_SPEC_KIB_MAX} KiB"
        errors.append(invalid(f"{path}.gmsaCredentialSpec", spec, message))
    if "runAsUserName" in options:
        user = options["runAsUserName"]
        where = f"{path}.runAsUserName"
        errors += [invalid(where, user, f"runAsUserName{message}") for message in _windows_user_errors(user)]


def _windows_user_errors(name: str) -> list[str]:
    if not name:
        return [" cannot be an empty string"]
    if _has_control(name):
        return [" cannot contain control characters"]
    if name.count("\\") > 1:
        return [" cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    messages = []
    if len(domain) >= _DOMAIN_LENGTH_MAX:
        messages.append(f"'s Domain length must be under {_DOMAIN_LENGTH_MAX} characters")
    if backslash and not (_is_netbios(domain) or _is_windows_domain(domain)):
        messages.append("'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        messages.append("'s User cannot be empty")
    elif len(user) > _USER_LENGTH_MAX:
        messages.append(f"'s User length must not be longer than {_USER_LENGTH_MAX} characters")
    if user and not user.strip(". "):
        messages.append("'s User cannot contain only periods or spaces")
    if _has_bad_user_character(user):
        messages.append("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return messages


def check_user_namespace(spec: Object, path: str, errors: FieldErrors) -> None:
    """A pod with a user namespace (`hostUsers: false`) must not share the host's other namespaces."""
    message = "when `hostUsers` is false"
    if spec.get("hostNetwork"):
        errors.append(forbidden(f"{path}.hostNetwork", message))
    if spec.get("hostPID"):
        errors.append(forbidden(f"{path}.HostPID", message))
    if spec.get("hostIPC"):
        errors.append(forbidden(f"{path}.HostIPC", message))
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field, ())):
            if container.get("volumeDevices"):
                errors.append(forbidden(f"{path}.{field}[{index}].volumeDevices", message))
