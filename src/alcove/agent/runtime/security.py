"""Security settings of containers: capabilities, seccomp profiles, masked paths; and what tenants may
request.

The default capabilities are fewer than those of most runtimes: without CAP_NET_RAW (unprivileged ping works),
CAP_MKNOD and CAP_AUDIT_WRITE.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from alcove.agent.runtime import seccomp
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.api.objects import Object

DEFAULT_CAPABILITIES = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_NET_BIND_SERVICE"),
    *("CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
)
ALL_CAPABILITIES = (
    *("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL"),
    *("CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE"),
    *("CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER"),
    *("CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT"),
    *("CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME"),
    *("CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL"),
    *("CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM"),
    *("CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE"),
)
"""In the kernel's order: the index is the bit."""
MASKED_PATHS = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/selinux"),
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
HARMLESS_CAPABILITIES = frozenset(
    [*DEFAULT_CAPABILITIES, *("CAP_AUDIT_WRITE", "CAP_IPC_LOCK", "CAP_LEASE", "CAP_NET_RAW", "CAP_SYS_NICE")]
)
"""The capabilities that a tenant may add: none of them has effects outside the container."""
SAFE_SYSCTLS = frozenset(
    [
        *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"),
        *("net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout"),
        *("net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time"),
        *("net.ipv4.tcp_syncookies", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
    ]
)


_SWAPPED = str.maketrans("./", "/.")
_NO_PROFILES = Path("/nonexistent")


class SecurityPolicy(Struct, frozen=True):
    """What a pod may request beyond the defaults."""

    privileged: bool
    unconfined: bool
    """Whether it may run without a seccomp profile."""
    any_capability: bool
    any_sysctl: bool
    host_namespaces: bool


TENANT = SecurityPolicy(
    privileged=False, unconfined=False, any_capability=False, any_sysctl=False, host_namespaces=False
)
TENANT_SANDBOXED = SecurityPolicy(
    privileged=False, unconfined=True, any_capability=True, any_sysctl=False, host_namespaces=False
)
"""In a sandbox with its own kernel: capabilities and system calls apply to that kernel only."""
RING0 = SecurityPolicy(
    privileged=True, unconfined=True, any_capability=True, any_sysctl=True, host_namespaces=True
)


def policy_of(is_trusted: bool, isolation: Isolation) -> SecurityPolicy:
    if is_trusted:
        return RING0
    return TENANT_SANDBOXED if isolation is Isolation.SANDBOX else TENANT


def check_pod(pod: Object, policy: SecurityPolicy) -> None:
    """Raises SpecRefused if the pod requests something that only ring0's pods may have."""
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field) and not policy.host_namespaces:
            raise SpecRefused(f"{field} is not allowed for pods of tenants")
    for name in sysctls_of(pod):
        if name not in SAFE_SYSCTLS and not policy.any_sysctl:
            raise SpecRefused(f"forbidden sysctl: {name!r} is not allowed")


def sysctls_of(pod: Object) -> dict[str, str]:
    """The sysctls of the pod's spec by name, with dots as separators."""
    sysctls = (pod.get("securityContext") or {}).get("sysctls") or ()
    return {_with_dots(each["name"]): each["value"] for each in sysctls}


def _with_dots(name: str) -> str:
    """A name may have slashes as separators instead: then the first of both is one, and dots are part of a
    component."""
    dot, slash = name.find("."), name.find("/")
    if slash < 0 or 0 <= dot < slash:
        return name
    return name.translate(_SWAPPED)


def is_privileged(container: Object, policy: SecurityPolicy) -> bool:
    """Whether the container is privileged. Raises SpecRefused if the policy does not allow that."""
    requested = bool((container.get("securityContext") or {}).get("privileged"))
    if requested and not policy.privileged:
        raise SpecRefused("privileged containers are not allowed for pods of tenants")
    return requested


def held(mask: int) -> tuple[str, ...]:
    """The capabilities in a mask of /proc/PID/status."""
    return tuple(name for bit, name in enumerate(ALL_CAPABILITIES) if mask >> bit & 1)


def capabilities(
    container: Object, policy: SecurityPolicy, available: Sequence[str] = ALL_CAPABILITIES
) -> tuple[str, ...]:
    """The bounding set of a container; `available` are the capabilities that the node can give. Raises
    SpecRefused."""
    if is_privileged(container, policy):
        return tuple(available)
    requested = (container.get("securityContext") or {}).get("capabilities") or {}
    added = [_full_name(name) for name in requested.get("add") or ()]
    dropped = [_full_name(name) for name in requested.get("drop") or ()]
    have = set() if "CAP_ALL" in dropped else set(DEFAULT_CAPABILITIES) - set(dropped)
    if "CAP_ALL" in added:
        added = [name for name in available if name not in dropped]
    _check_added(added, policy)
    return tuple(sorted(have | set(added)))


def _full_name(name: str) -> str:
    upper = name.upper()
    return upper if upper.startswith("CAP_") else f"CAP_{upper}"


def _check_added(added: Sequence[str], policy: SecurityPolicy) -> None:
    for name in added:
        if name not in ALL_CAPABILITIES:
            raise SpecRefused(f"unknown capability {name}")
        if name not in HARMLESS_CAPABILITIES and not policy.any_capability:
            raise SpecRefused(f"capability {name} is not allowed for pods of tenants")


def seccomp_profile(
    pod: Object,
    container: Object,
    have: Sequence[str],
    policy: SecurityPolicy,
    raw: Object,
    directory: Path = _NO_PROFILES,
) -> Object | None:
    """The container's seccomp profile; None for unconfined. `raw` comes from `seccomp.load`; `directory` has the node's
    own profiles, which only ring0's pods may use: they may allow more than the default.

    Raises SpecRefused.
    """
    if is_privileged(container, policy):
        return None
    container_profile = (container.get("securityContext") or {}).get("seccompProfile")
    pod_profile = (pod.get("securityContext") or {}).get("seccompProfile")
    profile = container_profile or pod_profile or {"type": "RuntimeDefault"}
    match profile["type"]:
        case "RuntimeDefault":
            return seccomp.default_profile(raw, have)
        case "Unconfined" if policy.unconfined:
            return None
        case "Localhost" if policy.privileged:
            local = seccomp.load_local(directory, profile.get("localhostProfile") or "")
            return seccomp.local_profile(local, have)
        case kind:
            raise SpecRefused(f"seccomp profile {kind} is not allowed for pods of tenants")


def apparmor_profile(pod: Object, container: Object) -> Object:
    """The container's AppArmor profile in the pod's spec; empty if it has none. `RuntimeDefault` is no profile:
    the runtimes have none of their own."""
    for holder in (container, pod):
        profile: Object | None = (holder.get("securityContext") or {}).get("appArmorProfile")
        if profile is not None:
            return profile
    return {}


def is_unmasked(pod: Object, container: Object, policy: SecurityPolicy) -> bool:
    """Whether the container sees all of /proc. Raises SpecRefused if it would be that of the node's root."""
    if (container.get("securityContext") or {}).get("procMount") != "Unmasked":
        return False
    if pod.get("hostUsers") is not False and not policy.privileged:
        raise SpecRefused("procMount Unmasked is not allowed without hostUsers: false")
    return True


def no_new_privileges(container: Object) -> bool:
    """Whether `allowPrivilegeEscalation: false` is set, so that setuid programs gain no privileges."""
    return (container.get("securityContext") or {}).get("allowPrivilegeEscalation") is False
