"""The checks of the baseline level, which prevent known privilege escalations. Pure: no I/O.

A check returns a violation as (reason, detail), or None. Reasons and details are those of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from alcove.api.objects import Object

Finding = tuple[str, str]
Check = Callable[["PodView"], Finding | None]

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES = (_APPARMOR, _SECCOMP, _SECCOMP_OF)
_CAPABILITIES = frozenset(
    (
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    )
)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")

_SYSCTLS_1_0 = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    )
)
_SYSCTLS_1_27 = _SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_1_29 = _SYSCTLS_1_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_1_32 = _SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_1_0 = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))
_SELINUX_1_31 = _SELINUX_1_0 | {"container_engine_t"}


class PodView(Struct, frozen=True):
    """The parts of a pod or template that the checks use."""

    spec: Object
    annotations: Mapping[str, str]
    security: Object
    """The pod's security context."""
    containers: Sequence[tuple[str, Object, Object]]
    """Name, container and security context of all containers: init, regular and ephemeral."""

    @classmethod
    def of(cls, metadata: Object, spec: Object) -> PodView:
        containers = [
            (container.get("name", ""), container, container.get("securityContext") or {})
            for field in ("initContainers", "containers", "ephemeralContainers")
            for container in spec.get(field) or ()
        ]
        return cls(spec, metadata.get("annotations") or {}, spec.get("securityContext") or {}, containers)

    @property
    def is_bare(self) -> bool:
        """Whether the pod has no security context and no security annotation, like most pods."""
        if self.security or any(security for _, _, security in self.containers):
            return False
        return not any(key.startswith(_PROFILES) for key in self.annotations)

    @property
    def is_windows(self) -> bool:
        return (self.spec.get("os") or {}).get("name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """Whether the pod has a user namespace: root in it has no privileges on the node."""
        return self.spec.get("hostUsers") is False


def quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def containers(names: Sequence[str]) -> str:
    return f"{plural('container', len(names))} {quoted(names)}"


def setters(pod_is_bad: bool, names: Sequence[str]) -> str:
    """Names the violators: the pod, containers, or both; empty if there are none."""
    violators = ["pod"] if pod_is_bad else []
    if names:
        violators.append(containers(names))
    return " and ".join(violators)


def apparmor(pod: PodView) -> Finding | None:
    of_pod = _apparmor_type(pod.security)
    bad = {name: kind for name, _, own in pod.containers if (kind := _apparmor_type(own)) is not None}
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in pod.annotations.items()
        if key.startswith(_APPARMOR) and not _is_apparmor_annotation(value)
    )
    kinds = {*bad.values(), *(() if of_pod is None else (of_pod,))}
    values = [*sorted(kinds), *annotations]
    if not values:
        return None
    violators = [setters(of_pod is not None, list(bad))] if kinds else []
    if annotations:
        violators.append(plural("annotation", len(annotations)))
    reason = plural("forbidden AppArmor profile", len(values))
    return reason, f"{' and '.join(violators)} must not set AppArmor profile type to {quoted(values)}"


def _apparmor_type(security: Object) -> str | None:
    """The type of the profile if it is forbidden, else None."""
    profile = security.get("appArmorProfile")
    if profile is None or profile.get("type") in ("RuntimeDefault", "Localhost"):
        return None
    return str(profile.get("type", ""))


def _is_apparmor_annotation(value: str) -> bool:
    return value in ("", "runtime/default") or value.startswith("localhost/")


def capabilities(pod: PodView) -> Finding | None:
    bad: dict[str, set[str]] = {}
    for name, _, security in pod.containers:
        added = {*((security.get("capabilities") or {}).get("add") or ())} - _CAPABILITIES
        if added:
            bad[name] = added
    if not bad:
        return None
    named = quoted(sorted(set().union(*bad.values())))
    message = f"{containers(list(bad))} must not include {named} in securityContext.capabilities.add"
    return "non-default capabilities", message


def host_namespaces(pod: PodView) -> Finding | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return ("host namespaces", ", ".join(shared)) if shared else None


def host_paths(pod: PodView) -> Finding | None:
    names = [
        each.get("name", "") for each in pod.spec.get("volumes") or () if each.get("hostPath") is not None
    ]
    return ("hostPath volumes", f"{plural('volume', len(names))} {quoted(names)}") if names else None


def host_ports(pod: PodView) -> Finding | None:
    bad: list[str] = []
    ports: set[str] = set()
    for name, container, _ in pod.containers:
        used = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if used:
            bad.append(name)
            ports |= used
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    message = f"{containers(bad)} {use} {plural('hostPort', len(ports))} {', '.join(sorted(ports))}"
    return "hostPort", message


def host_probes(pod: PodView) -> Finding | None:
    bad: set[str] = set()
    hosts: set[str] = set()
    for name, container, _ in pod.containers:
        handlers = [container[probe] for probe in _PROBES if probe in container]
        if lifecycle := container.get("lifecycle"):
            handlers += [lifecycle[hook] for hook in _HOOKS if hook in lifecycle]
        if found := {host for handler in handlers for host in _hosts(handler)}:
            bad.add(name)
            hosts |= found
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    noun = plural("probe or lifecycle host", len(hosts))
    return "probe or lifecycle host", f"{containers(sorted(bad))} {use} {noun} {quoted(sorted(hosts))}"


def _hosts(handler: Object) -> list[str]:
    found = [(handler.get(action) or {}).get("host") for action in ("httpGet", "tcpSocket")]
    return [host for host in found if host]


def privileged(pod: PodView) -> Finding | None:
    bad = [name for name, _, security in pod.containers if security.get("privileged")]
    return ("privileged", f"{containers(bad)} must not set securityContext.privileged=true") if bad else None


def proc_mount(pod: PodView) -> Finding | None:
    bad = {
        name: security["procMount"]
        for name, _, security in pod.containers
        if security.get("procMount") not in (None, "Default")
    }
    if not bad:
        return None
    kinds = quoted(sorted(set(bad.values())))
    return "procMount", f"{containers(list(bad))} must not set securityContext.procMount to {kinds}"


def selinux(allowed: frozenset[str]) -> Check:
    def check(pod: PodView) -> Finding | None:
        forbidden: dict[str, Any] = {"types": set(), "user": False, "role": False}
        bad_pod = _is_bad_selinux(pod.security.get("seLinuxOptions"), allowed, forbidden)
        bad = [
            name
            for name, _, security in pod.containers
            if _is_bad_selinux(security.get("seLinuxOptions"), allowed, forbidden)
        ]
        violators = setters(bad_pod, bad)
        if not violators:
            return None
        data = []
        if types := sorted(forbidden["types"]):
            data.append(f"{plural('type', len(types))} {quoted(types)}")
        data += [f"{field} may not be set" for field in ("user", "role") if forbidden[field]]
        return (
            "seLinuxOptions",
            f"{violators} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}",
        )

    return check


def _is_bad_selinux(options: Object | None, allowed: frozenset[str], forbidden: dict[str, Any]) -> bool:
    if options is None:
        return False
    is_bad = False
    if options.get("type", "") not in allowed:
        forbidden["types"].add(options.get("type", ""))
        is_bad = True
    for field in ("user", "role"):
        if options.get(field):
            forbidden[field] = is_bad = True
    return is_bad


def seccomp_annotations(pod: PodView) -> Finding | None:
    keys = [_SECCOMP, *(f"{_SECCOMP_OF}{name}" for name, _, _ in pod.containers)]
    bad = sorted(
        {
            f'{key}="{pod.annotations[key]}"'
            for key in keys
            if key in pod.annotations and not _is_seccomp_annotation(pod.annotations[key])
        }
    )
    if not bad:
        return None
    return "seccompProfile", f"forbidden {plural('annotation', len(bad))} {', '.join(bad)}"


def _is_seccomp_annotation(value: str) -> bool:
    return value in ("runtime/default", "docker/default") or value.startswith("localhost/")


def is_seccomp(security: Object) -> bool | None:
    """Whether an allowed profile is set; None if no profile is set."""
    profile = security.get("seccompProfile")
    return None if profile is None else profile.get("type") in ("Localhost", "RuntimeDefault")


def seccomp(pod: PodView) -> Finding | None:
    bad_pod = is_seccomp(pod.security) is False
    bad = [(name, security) for name, _, security in pod.containers if is_seccomp(security) is False]
    violators = setters(bad_pod, [name for name, _ in bad])
    if not violators:
        return None
    holders = [security for _, security in bad] + ([pod.security] if bad_pod else [])
    values = sorted({str(holder["seccompProfile"].get("type", "")) for holder in holders})
    return (
        "seccompProfile",
        f"{violators} must not set securityContext.seccompProfile.type to {quoted(values)}",
    )


def sysctls(allowed: frozenset[str]) -> Check:
    def check(pod: PodView) -> Finding | None:
        names = [each.get("name", "") for each in pod.security.get("sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return ("forbidden sysctls", ", ".join(bad)) if bad else None

    return check


def host_process(pod: PodView) -> Finding | None:
    bad = [name for name, _, security in pod.containers if _is_host_process(security)]
    violators = setters(_is_host_process(pod.security), bad)
    if not violators:
        return None
    return "hostProcess", f"{violators} must not set securityContext.windowsOptions.hostProcess=true"


def _is_host_process(security: Object) -> bool:
    return bool((security.get("windowsOptions") or {}).get("hostProcess"))


def proc_mount_outside_user_namespaces(pod: PodView) -> Finding | None:
    return None if pod.has_own_users else proc_mount(pod)


CHECKS: tuple[tuple[str, bool, tuple[tuple[int, Check], ...]], ...] = (
    ("appArmorProfile", True, ((0, apparmor),)),
    ("capabilities_baseline", True, ((0, capabilities),)),
    ("hostNamespaces", False, ((0, host_namespaces),)),
    ("hostPathVolumes", False, ((0, host_paths),)),
    ("hostPorts", False, ((0, host_ports),)),
    ("hostProbesAndHostLifecycle", False, ((34, host_probes),)),
    ("privileged", True, ((0, privileged),)),
    ("procMount", True, ((0, proc_mount), (35, proc_mount_outside_user_namespaces))),
    ("seLinuxOptions", True, ((0, selinux(_SELINUX_1_0)), (31, selinux(_SELINUX_1_31)))),
    ("seccompProfile_baseline", True, ((0, seccomp_annotations), (19, seccomp))),
    (
        "sysctls",
        True,
        (
            (0, sysctls(_SYSCTLS_1_0)),
            (27, sysctls(_SYSCTLS_1_27)),
            (29, sysctls(_SYSCTLS_1_29)),
            (32, sysctls(_SYSCTLS_1_32)),
        ),
    ),
    ("windowsHostProcess", True, ((0, host_process),)),
)
"""The checks in the order in which violations are listed: name, whether a bare pod cannot violate it, and
(minor version, check) pairs: each check applies from its version on."""
