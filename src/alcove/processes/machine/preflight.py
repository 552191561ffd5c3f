"""Preflight checks of this machine, each with a fix: what `alcove doctor` shows and `alcove up` decides by.

Each check is a function that returns a PreflightFinding and leaves nothing changed. `CHECKS` is the list.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

KERNEL_MIN = (5, 10)
"""The first with bpf_redirect_peer."""
DISK_BYTES_MIN = 64 << 20
DISK_BYTES_GOOD = 2 << 30
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Some feature will not work, or not as well."""
    NO_TENANTS = "no tenants"
    """Nodes can run ring0's pods, but not tenants'."""
    HOLLOW = "missing"
    """Nodes can only be hollow."""
    FAILED = "failed"
    """A cluster cannot start."""


class PreflightFinding(Struct, frozen=True):
    name: str
    state: CheckState
    detail: str
    fix: str = ""


class DataDirectory(Struct, frozen=True):
    """The state directory of an existing or new cluster."""

    data: Path
    port: int
    is_up: bool
    trial: Path | None = None
    """Directory of the runtimes' trial results. None to try again each time."""


Check = Callable[[DataDirectory], PreflightFinding]


def look(directory: DataDirectory, checks: Sequence[Check] | None = None) -> list[PreflightFinding]:
    return [check(directory) for check in checks or CHECKS]


def lacking(findings: Sequence[PreflightFinding]) -> list[PreflightFinding]:
    """Findings because of which nodes on this machine cannot run pods."""
    return [finding for finding in findings if finding.state in (CheckState.HOLLOW, CheckState.FAILED)]


def without_tenants(findings: Sequence[PreflightFinding]) -> list[PreflightFinding]:
    """Findings because of which nodes can run ring0's pods, but not tenants'."""
    return [finding for finding in findings if finding.state is CheckState.NO_TENANTS]


def root(_directory: DataDirectory) -> PreflightFinding:
    if os.geteuid() == 0:
        return PreflightFinding("root", CheckState.OK, "yes")
    return PreflightFinding(
        "root", CheckState.HOLLOW, "no: pods, networks and eBPF require it", "run it with sudo"
    )


def kernel(_directory: DataDirectory) -> PreflightFinding:
    release = platform.release()
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if platform.system() != "Linux" or numbers < KERNEL_MIN:
        minimum = ".".join(map(str, KERNEL_MIN))
        return PreflightFinding(
            "kernel", CheckState.HOLLOW, f"{platform.system()} {release}", f"Linux {minimum} or newer"
        )
    return PreflightFinding("kernel", CheckState.OK, release)


def namespaces(_directory: DataDirectory) -> PreflightFinding:
    name = "namespaces"
    if os.geteuid() != 0:
        return PreflightFinding(name, CheckState.HOLLOW, "cannot be created without root", "run it with sudo")
    from alcove.dataplane import namespaces as kernel_namespaces
    from alcove.dataplane.errors import DataPlaneError

    probe = f"alcove-doctor-{os.getpid()}"
    try:
        os.close(kernel_namespaces.make(probe))
    except (DataPlaneError, OSError) as error:
        return PreflightFinding(
            name, CheckState.HOLLOW, str(error), "a kernel with CONFIG_NET_NS, and CAP_SYS_ADMIN"
        )
    finally:
        kernel_namespaces.remove(probe)
    return PreflightFinding(name, CheckState.OK, "network namespaces can be created")


def bpf(_directory: DataDirectory) -> PreflightFinding:
    """Creates and closes a map, to see whether the kernel allows it."""
    from alcove.dataplane.errors import Unsupported

    try:
        from alcove.dataplane.bpf import library

        lib = library()
    except Unsupported as error:
        return PreflightFinding("eBPF", CheckState.HOLLOW, str(error), "apt install libbpf1")
    descriptor = lib.bpf_map_create(1, b"alcove_doctor", 4, 4, 1, None)
    if descriptor < 0:
        return PreflightFinding(
            "eBPF",
            CheckState.HOLLOW,
            f"the kernel refuses to create a map: {os.strerror(-descriptor)}",
            "CAP_BPF, CONFIG_BPF_SYSCALL",
        )
    os.close(descriptor)
    return PreflightFinding("eBPF", CheckState.OK, "maps can be created")


def programs(_directory: DataDirectory) -> PreflightFinding:
    """The data plane's BPF programs: compiled already, or a compiler is installed."""
    from alcove.dataplane.build import find_compiler, find_object, shipped_object
    from alcove.dataplane.errors import BuildFailed

    name, fix = "eBPF programs", "apt install clang libbpf-dev"
    if find_object():
        return PreflightFinding(
            name, CheckState.OK, "shipped with the package" if shipped_object() else "compiled"
        )
    try:
        compiler = find_compiler()
    except BuildFailed as error:
        return PreflightFinding(name, CheckState.HOLLOW, str(error), fix)
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        return PreflightFinding(name, CheckState.HOLLOW, "libbpf's headers are missing", fix)
    return PreflightFinding(name, CheckState.OK, f"to be compiled by {Path(compiler).name}")


def runtimes(directory: DataDirectory) -> PreflightFinding:
    """Tries each runtime as a node does. `up` reuses results in the cluster's state; `doctor` always
    tries."""
    from alcove.processes.machine import trial

    try:
        tried = (
            trial.try_runtimes(directory.trial)
            if directory.trial
            else trial.try_once(existing(directory.data))
        )
    except trial.Untried as error:
        return PreflightFinding("runtimes", CheckState.HOLLOW, str(error), error.fix)
    return trial.judge(tried)


def cgroups(_directory: DataDirectory) -> PreflightFinding:
    from alcove.agent.cgroups import Cgroups

    groups = Cgroups.of_machine()
    if not groups.mounts:
        return PreflightFinding(
            "cgroups", CheckState.HOLLOW, "not mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup"
        )
    if os.geteuid() == 0 and not any(os.access(mount.path, os.W_OK) for mount in groups.mounts):
        return PreflightFinding(
            "cgroups", CheckState.HOLLOW, "mounted read-only", "remount /sys/fs/cgroup rw"
        )
    return PreflightFinding("cgroups", CheckState.OK, groups.layout.value)


def firewall(_directory: DataDirectory) -> PreflightFinding:
    if shutil.which("nft", path=PATH):
        return PreflightFinding("nftables", CheckState.OK, "installed")
    return PreflightFinding("nftables", CheckState.HOLLOW, "nft is not installed", "apt install nftables")


def forwarding(_directory: DataDirectory) -> PreflightFinding:
    """Another firewall, such as Docker's, may drop forwarded packets of nodes: a drop in any table counts."""
    program = shutil.which("nft", path=PATH)
    if program is None or os.geteuid() != 0:
        return PreflightFinding("egress", CheckState.OK, "not checked: needs nft and root")
    message = subprocess.run([program, "list", "chains"], capture_output=True, text=True, check=False).stdout
    if not (tables := dropping(message)):
        return PreflightFinding("egress", CheckState.OK, "no firewall drops forwarded packets")
    fix = "accept forwarded packets from and to devices named al*"
    return PreflightFinding("egress", CheckState.WARNING, f"{', '.join(tables)} drops forwarded packets", fix)


def dropping(chains: str) -> list[str]:
    """Tables, except clusters', with forward policy drop; `chains` is the output of `nft list chains`."""
    found, table = [], ""
    for line in chains.splitlines():
        if line.startswith("table "):
            table = line.removeprefix("table ").rstrip(" {")
        elif "hook forward" in line and "policy drop" in line and "alcove_" not in table:
            found.append(table)
    return found


def images(_directory: DataDirectory) -> PreflightFinding:
    from alcove.agent.images import builtin
    from alcove.agent.images.model import ToolMissing

    try:
        builtin.find()
    except ToolMissing as error:
        return PreflightFinding(
            "images",
            CheckState.WARNING,
            f"{error}; the built-in image is unavailable",
            "apt install busybox-static",
        )
    missing = [name for name in ("skopeo", "umoci") if not shutil.which(name, path=PATH)]
    if missing:
        message = f"{', '.join(missing)} not installed; only the built-in image is available"
        return PreflightFinding("images", CheckState.WARNING, message, f"apt install {' '.join(missing)}")
    return PreflightFinding("images", CheckState.OK, "skopeo, umoci and the built-in image")


def kubectl(_directory: DataDirectory) -> PreflightFinding:
    if found := shutil.which("kubectl"):
        return PreflightFinding("kubectl", CheckState.OK, found)
    message = "not installed; `alcove kubectl` and the demo need it"
    return PreflightFinding("kubectl", CheckState.WARNING, message, "apt install kubernetes-client")


def resolver(_directory: DataDirectory) -> PreflightFinding:
    """Nodes have their own network namespaces and cannot use a name server on this machine's loopback."""
    servers = nameservers(Path("/etc/resolv.conf"))
    if servers and all(each.startswith("127.") or each == "::1" for each in servers):
        alternatives = nameservers(Path("/run/systemd/resolve/resolv.conf"))
        if not alternatives:
            message = f"only {', '.join(servers)}: pods cannot resolve external names"
            return PreflightFinding(
                "resolver",
                CheckState.WARNING,
                message,
                "add a non-loopback name server to /etc/resolv.conf",
            )
    return PreflightFinding("resolver", CheckState.OK, ", ".join(servers) or "none")


def nameservers(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1]


def state_directory(directory: DataDirectory) -> PreflightFinding:
    state = existing(directory.data)
    fix = "choose another directory with --data"
    if os.statvfs(state).f_flag & os.ST_RDONLY:
        return PreflightFinding("state", CheckState.FAILED, f"{state} is read-only", fix)
    if not os.access(state, os.W_OK):
        return PreflightFinding("state", CheckState.FAILED, f"{state} is not writable", fix)
    return PreflightFinding("state", CheckState.OK, str(directory.data))


def disk(directory: DataDirectory) -> PreflightFinding:
    free = shutil.disk_usage(existing(directory.data)).free
    message = f"{free / 1e9:.1f} GB free in {existing(directory.data)}"
    if free < DISK_BYTES_MIN:
        return PreflightFinding(
            "disk", CheckState.FAILED, message, "free some space, or choose another directory with --data"
        )
    if free < DISK_BYTES_GOOD:
        return PreflightFinding(
            "disk", CheckState.WARNING, message, "free some space: images and logs need it"
        )
    return PreflightFinding("disk", CheckState.OK, message)


def port(directory: DataDirectory) -> PreflightFinding:
    if directory.is_up:
        return PreflightFinding("port", CheckState.OK, f"{directory.port}, used by this cluster")
    if (message := taken(directory.port)) is None:
        return PreflightFinding("port", CheckState.OK, f"{directory.port} is free")
    return PreflightFinding(
        "port",
        CheckState.FAILED,
        f"{directory.port}: {message}",
        "choose another with `alcove up --port PORT`",
    )


def taken(number: int) -> str | None:
    """Why the port cannot be listened on. None if it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            return error.strerror or str(error)
    return None


def existing(path: Path) -> Path:
    """The path, or its nearest existing and accessible parent."""
    while path != path.parent:
        try:
            path.stat()
        except OSError:
            path = path.parent
        else:
            break
    return path


NODE_CHECKS: tuple[Check, ...] = (
    root,
    kernel,
    namespaces,
    bpf,
    programs,
    runtimes,
    cgroups,
    firewall,
)
"""Checks of what nodes need to run pods."""
CHECKS: tuple[Check, ...] = (*NODE_CHECKS, forwarding, images, kubectl, resolver, state_directory, disk, port)
