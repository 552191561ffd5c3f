"""The OCI configuration of sandboxes and containers, from the pod's spec. Pure, except that a seccomp profile of the node is
read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from alcove.agent.cgroups import CgroupLimits
from alcove.agent.runtime import security
from alcove.agent.runtime.base import Isolation, SpecRefused
from alcove.agent.runtime.expand import environment, expand
from alcove.agent.runtime.resources import QOS, oci_resources
from alcove.agent.runtime.users import User
from alcove.api.kinds.core.pods.totals import qos_class
from alcove.api.objects import Object

OCI_VERSION = "1.0.2"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHM_BYTES = 64 << 20
_CGROUPS = "/sys/fs/cgroup"
PAUSE = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep 2147483647 & wait")
"""The sandbox's process: holds the namespaces, and reaps orphans if the pod shares its process namespace."""
_PING = {"net.ipv4.ping_group_range": "0 2147483647"}
_ANY_PORT = {"net.ipv4.ip_unprivileged_port_start": "0"}


class ImageConfig(Struct, frozen=True):
    """An image's defaults for running it."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    working_dir: str = ""
    user: str = ""
    stop_signal: str = ""


class BindMount(Struct, frozen=True):
    """A bind mount of a file or directory of the node."""

    source: str
    destination: str
    read_only: bool = False
    propagation: str = "rprivate"
    recursive_read_only: str = ""
    """`Enabled` or `IfPossible`: mounts inside it are read-only as well."""


SANDBOX_MOUNTS_MAX = 124
"""Volumes and files of the node (`/etc/hosts` and the like) mounted in one container in gVisor, which takes at most 128
open files to start a container, four of them for others. A container with more is not started: `CreateContainerConfigError`."""


class MemoryVolume(Struct, frozen=True):
    """A tmpfs that a sandbox with its own kernel makes itself, shared by the pod's containers. It counts as the
    sandbox's memory, and lasts as long as the sandbox."""

    source: str
    """The source of the mounts that it takes the place of: an empty file on the node. Of a directory, gVisor would
    keep the contents in a file in it."""
    options: str


class IdMapping(Struct, frozen=True):
    """The user namespace of a pod: its ids from 0 are the node's from `host_start`."""

    host_start: int
    count: int = 65_536


NODE = "node"
"""Instead of a path in NamespacePaths: the node's namespace."""


class NamespacePaths(Struct, frozen=True):
    """Paths of the namespaces that a container joins; empty for a new one. An empty network is the node's."""

    network: str = ""
    ipc: str = ""
    uts: str = ""
    pid: str = ""
    user: str = ""


def sandbox_namespaces(pod: Object, network: str) -> NamespacePaths:
    """The namespaces that the pod's sandbox joins."""
    pid, ipc = (NODE if pod.get(field) else "" for field in ("hostPID", "hostIPC"))
    return NamespacePaths(network=network, pid=pid, ipc=ipc)


def shared_namespaces(
    pod: Object, isolation: Isolation, network: str, sandbox_process: int, mapping: IdMapping | None
) -> NamespacePaths:
    """The namespaces that the pod's containers join: those of `sandbox_process`, the host's pid of the
    sandbox."""
    shares_processes = bool(pod.get("shareProcessNamespace"))
    if isolation is not Isolation.NAMESPACES:
        # In gVisor's sandbox containers share all but processes, and these too if they name the same file.
        return NamespacePaths(network=network, pid="/proc/self/ns/pid" if shares_processes else "")
    sandbox, host = f"/proc/{sandbox_process}/ns", sandbox_namespaces(pod, network)
    return NamespacePaths(
        network=network,
        ipc=host.ipc or f"{sandbox}/ipc",
        uts=f"{sandbox}/uts",
        pid=f"{sandbox}/pid" if shares_processes else host.pid,
        user=f"{sandbox}/user" if mapping is not None else "",
    )


class ContainerContext(Struct, frozen=True):
    """The node's part of a container's configuration."""

    isolation: Isolation
    policy: security.SecurityPolicy
    rootfs: str
    cgroup: str
    limits: CgroupLimits
    seccomp: Object
    """The result of `seccomp.load`."""
    seccomp_profiles: Path = Path("/nonexistent")
    """The directory of the node's own seccomp profiles."""
    namespaces: NamespacePaths = NamespacePaths()
    mapping: IdMapping | None = None
    unified_cgroups: bool = False
    oom_score: int = 0
    rlimits: Sequence[Object] = ()
    capabilities: tuple[str, ...] = security.ALL_CAPABILITIES
    """The capabilities that the agent itself has."""


def sandbox_config(
    pod: Object, context: ContainerContext, hostname: str, memory_volumes: Sequence[MemoryVolume] = ()
) -> Object:
    """The configuration of a pod's sandbox, which holds the namespaces, the host name and the sysctls;
    `memory_volumes` are those that it makes itself."""
    security.check_pod(pod, context.policy)
    process = {
        "user": {"uid": 0, "gid": 0},
        "args": list(PAUSE),
        "env": [f"PATH={PATH}"],
        "cwd": "/",
        "noNewPrivileges": True,
        "capabilities": _capability_sets(()),
        "oomScoreAdj": context.oom_score,
    }
    config = _config(context, process, ())
    config["hostname"] = hostname
    config["root"]["readonly"] = True
    config["linux"]["sysctl"] = _sysctls(pod, context)
    config["linux"]["seccomp"] = security.seccomp_profile({}, {}, (), context.policy, context.seccomp)
    config["annotations"] = _mount_hints(memory_volumes)
    return config


def _mount_hints(volumes: Sequence[MemoryVolume]) -> dict[str, str]:
    """gVisor's annotations: it makes a tmpfs in place of every mount of the source, one for all containers."""
    return {
        f"dev.gvisor.spec.mount.{index}.{field}": value
        for index, volume in enumerate(volumes)
        for field, value in (
            ("source", volume.source),
            ("type", "tmpfs"),
            ("share", "pod"),
            ("options", volume.options),
        )
    }


def container_config(
    pod: Object,
    container: Object,
    image: ImageConfig,
    variables: Sequence[tuple[str, str]],
    user: User,
    mounts: Iterable[BindMount],
    context: ContainerContext,
    hostname: str = "",
) -> Object:
    """The configuration of a container. `variables` are resolved but not expanded, in order; `hostname` is that of the
    pod."""
    have = security.capabilities(container, context.policy, context.capabilities)
    env = _environment(container, image, variables, user, hostname)
    security_context: Object = container.get("securityContext") or {}
    process = {
        "terminal": bool(container.get("tty")),
        "user": {"uid": user.uid, "gid": user.gid, "additionalGids": list(user.groups)},
        "args": command(container, image, env),
        "env": [f"{name}={value}" for name, value in env.items()],
        "cwd": container.get("workingDir") or image.working_dir or "/",
        "noNewPrivileges": security.no_new_privileges(container),
        "capabilities": _capability_sets(have),
        "oomScoreAdj": context.oom_score,
    }
    config = _config(context, process, mounts)
    config["annotations"] = {QOS: qos_class(pod)}
    config["root"]["readonly"] = bool(security_context.get("readOnlyRootFilesystem"))
    config["linux"]["seccomp"] = security.seccomp_profile(
        pod, container, have, context.policy, context.seccomp, context.seccomp_profiles
    )
    if profile := security.apparmor_profile(pod, container).get("localhostProfile"):
        config["process"]["apparmorProfile"] = profile
    is_privileged = security.is_privileged(container, context.policy)
    if is_privileged or security.is_unmasked(pod, container, context.policy):
        config["linux"] |= {"maskedPaths": [], "readonlyPaths": []}
    if is_privileged:
        config["linux"]["resources"]["devices"] = [{"allow": True, "access": "rwm"}]
    return config


def command(container: Object, image: ImageConfig, env: Mapping[str, str]) -> list[str]:
    """The command line. A container's `command` replaces the image's entrypoint and command; `args` replace
    only the image's command. Raises SpecRefused if both are empty."""
    entry = container.get("command") or image.entrypoint
    args = container.get("args") or (() if container.get("command") else image.command)
    arguments = [expand(each, env) for each in (*entry, *args)]
    if not arguments:
        raise SpecRefused("no command specified")
    return arguments


def _environment(
    container: Object, image: ImageConfig, variables: Sequence[tuple[str, str]], user: User, hostname: str
) -> dict[str, str]:
    """PATH, HOME and TERM, overridden by the image's variables, which the container's override. HOSTNAME is set as
    other runtimes set it: programs take it for the pod's name."""
    env = {"PATH": PATH, "HOME": user.home}
    if container.get("tty"):
        env["TERM"] = "xterm"
    for pair in image.env:
        name, _, value = pair.partition("=")
        env[name] = value
    if hostname:
        env["HOSTNAME"] = hostname
    return env | environment(variables)


def _capability_sets(have: Sequence[str]) -> Object:
    """No ambient or inheritable capabilities: a program of a user other than root starts without any."""
    return {name: list(have) for name in ("bounding", "effective", "permitted")}


def _config(context: ContainerContext, process: Object, mounts: Iterable[BindMount]) -> Object:
    linux: Object = {
        "cgroupsPath": context.cgroup,
        "namespaces": _namespaces(context),
        "resources": oci_resources(context.limits),
        "maskedPaths": list(security.MASKED_PATHS),
        "readonlyPaths": _read_only_paths(context),
        "rootfsPropagation": "private",
    }
    if context.mapping is not None and not context.namespaces.user:
        mapping = {"containerID": 0, "hostID": context.mapping.host_start, "size": context.mapping.count}
        linux |= {"uidMappings": [mapping], "gidMappings": [mapping]}
    return {
        "ociVersion": OCI_VERSION,
        "process": {**process, "rlimits": list(context.rlimits)},
        "root": {"path": context.rootfs, "readonly": False},
        "mounts": [*_standard_mounts(context), *_mounts(mounts, context)],
        "linux": linux,
    }


def _read_only_paths(context: ContainerContext) -> list[str]:
    """With version 1 of control groups, the directory above their mounts is a tmpfs that would be writable."""
    has_directory = context.isolation is Isolation.NAMESPACES and not context.unified_cgroups
    return [*security.READONLY_PATHS, *([_CGROUPS] if has_directory and context.mapping is None else ())]


def _namespaces(context: ContainerContext) -> list[Object]:
    shared = context.namespaces
    namespaces = {"pid": shared.pid, "ipc": shared.ipc, "uts": shared.uts, "mount": "", "cgroup": ""}
    if shared.network:
        namespaces["network"] = shared.network
    if context.mapping is not None:
        namespaces["user"] = shared.user
    return [
        {"type": kind, "path": path} if path else {"type": kind}
        for kind, path in namespaces.items()
        if path != NODE
    ]


def _standard_mounts(context: ContainerContext) -> list[Object]:
    """The mounts of every container. In a user namespace, sysfs cannot be mounted, so /sys is empty."""
    mounts = [
        _mount("/proc", "proc", "proc", "nosuid", "noexec", "nodev"),
        _mount("/dev", "tmpfs", "tmpfs", "nosuid", "strictatime", "mode=755", "size=65536k"),
        _mount(
            "/dev/pts", "devpts", "devpts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"
        ),
        _shared_memory(context),
    ]
    if context.mapping is None:
        mounts.append(_mount("/sys", "sysfs", "sysfs", "nosuid", "noexec", "nodev", "ro"))
    else:
        mounts.append(
            _mount("/sys", "tmpfs", "tmpfs", "nosuid", "noexec", "nodev", "ro", "mode=755", "size=0")
        )
    if context.isolation is Isolation.NAMESPACES:
        mounts.append(_mount("/dev/mqueue", "mqueue", "mqueue", "nosuid", "noexec", "nodev"))
    if context.mapping is None:
        # Programs read their limits there. In gVisor they are those of its own kernel (`OciRuntime.show_limits`).
        mounts.append(_mount(_CGROUPS, "cgroup", "cgroup", "nosuid", "noexec", "nodev", "relatime", "ro"))
    return mounts


def _shared_memory(context: ContainerContext) -> Object:
    if context.namespaces.ipc == NODE:
        return _mount("/dev/shm", "bind", "/dev/shm", "rbind", "rw", "nosuid", "noexec", "nodev")
    return _mount("/dev/shm", "tmpfs", "shm", "nosuid", "noexec", "nodev", "mode=1777", f"size={SHM_BYTES}")


def _mount(destination: str, kind: str, source: str, *options: str) -> Object:
    return {"destination": destination, "type": kind, "source": source, "options": list(options)}


def _mounts(mounts: Iterable[BindMount], context: ContainerContext) -> list[Object]:
    """In order of depth: a mount inside another one comes after it."""
    ordered = sorted(mounts, key=lambda mount: len(PurePosixPath(mount.destination).parts))
    if context.isolation is Isolation.SANDBOX and len(ordered) > SANDBOX_MOUNTS_MAX:
        message = f"the container has {len(ordered)} mounts, and in a sandbox at most {SANDBOX_MOUNTS_MAX} are possible"
        raise SpecRefused(f"{message}: put several sources into one projected volume")
    entries = []
    for mount in ordered:
        options = ["rbind", mount.propagation, "ro" if mount.read_only else "rw", "nodev"]
        if mount.recursive_read_only and context.isolation is Isolation.NAMESPACES:
            options.append("rro")
        elif mount.recursive_read_only == "Enabled":
            raise SpecRefused("recursive read-only mounts of hostPath volumes are not supported in a sandbox")
        if context.mapping is not None:
            options.append("idmap")
        entries.append(_mount(mount.destination, "bind", mount.source, *options))
    return entries


def network_sysctls(pod: Object) -> dict[str, str]:
    """The pod's network sysctls: unprivileged ping, and those of its spec.

    The runtime sets them, except in a pod with a user namespace, whose root may not: there the agent sets
    them before. Such a root has no capabilities on the network namespace either, so every user may bind ports
    below 1024 there.
    """
    defaults = _PING if pod.get("hostUsers") is not False else {**_PING, **_ANY_PORT}
    return {
        name: value
        for name, value in {**defaults, **security.sysctls_of(pod)}.items()
        if _is_of_network(name)
    }


def _is_of_network(name: str) -> bool:
    return name.startswith(("net.", "net/"))


def _sysctls(pod: Object, context: ContainerContext) -> dict[str, str]:
    others = {name: value for name, value in security.sysctls_of(pod).items() if not _is_of_network(name)}
    if context.mapping is not None or not context.namespaces.network:
        return others
    return {**network_sysctls(pod), **others}
