"""What this machine can and cannot do for a cluster, looked at one by one, each with what would mend it.

Each check is a function that looks and returns a Finding; it changes nothing that stays. `CHECKS` is the list.
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
"""bpf_redirect_peer came with it."""
DISK_BYTES_MIN = 64 << 20
DISK_BYTES_GOOD = 2 << 30
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class CheckState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Something will not work, or not as well."""
    NO_TENANTS = "no tenants"
    """Without it nodes run ring0's pods, but no tenant's."""
    HOLLOW = "missing"
    """Without it nodes only pretend to run pods."""
    FAILED = "failed"
    """Without it nothing runs."""


class PreflightFinding(Struct, frozen=True):
    name: str
    state: CheckState
    detail: str
    fix: str = ""


class DataDirectory(Struct, frozen=True):
    """Where the cluster is, or would be."""

    data: Path
    port: int
    is_up: bool
    trial: Path | None = None
    """Where outcomes of runtimes' trials are kept; None: they are not."""


Check = Callable[[DataDirectory], PreflightFinding]


def look(directory: DataDirectory, checks: Sequence[Check] | None = None) -> list[PreflightFinding]:
    return [check(directory) for check in checks or CHECKS]


def lacking(findings: Sequence[PreflightFinding]) -> list[PreflightFinding]:
    """Why nodes here cannot run pods; nothing: they can."""
    return [finding for finding in findings if finding.state in (CheckState.HOLLOW, CheckState.FAILED)]


def without_tenants(findings: Sequence[PreflightFinding]) -> list[PreflightFinding]:
    """Why nodes here cannot run tenants' pods, although they can run ring0's."""
    return [finding for finding in findings if finding.state is CheckState.NO_TENANTS]


def root(_place: DataDirectory) -> PreflightFinding:
    if os.geteuid() == 0:
        return PreflightFinding("root", CheckState.OK, "yes")
    return PreflightFinding(
        "root", CheckState.HOLLOW, "no: pods, networks and eBPF need it", "run it with sudo"
    )


def kernel(_place: DataDirectory) -> PreflightFinding:
    release = platform.release()
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if platform.system() != "Linux" or numbers < KERNEL_MIN:
        wanted = ".".join(map(str, KERNEL_MIN))
        return PreflightFinding(
            "kernel", CheckState.HOLLOW, f"{platform.system()} {release}", f"Linux {wanted} or newer"
        )
    return PreflightFinding("kernel", CheckState.OK, release)


def namespaces(_place: DataDirectory) -> PreflightFinding:
    name = "namespaces"
    if os.geteuid() != 0:
        return PreflightFinding(name, CheckState.HOLLOW, "cannot be made without root", "run it with sudo")
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
    return PreflightFinding(name, CheckState.OK, "network namespaces can be made")


def bpf(_place: DataDirectory) -> PreflightFinding:
    """A map is made and closed again: what counts is that the kernel lets us."""
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
            f"the kernel refuses: {os.strerror(-descriptor)}",
            "CAP_BPF, CONFIG_BPF_SYSCALL",
        )
    os.close(descriptor)
    return PreflightFinding("eBPF", CheckState.OK, "maps can be made")


def programs(_place: DataDirectory) -> PreflightFinding:
    """The data plane's own: compiled before, or a compiler to do it with."""
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
    """Each is tried as a node does it. `up` keeps what was proven with the cluster's state; `doctor` always tries."""
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


def cgroups(_place: DataDirectory) -> PreflightFinding:
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


def firewall(_place: DataDirectory) -> PreflightFinding:
    if shutil.which("nft", path=PATH):
        return PreflightFinding("nftables", CheckState.OK, "installed")
    return PreflightFinding("nftables", CheckState.HOLLOW, "nft is not installed", "apt install nftables")


def forwarding(_place: DataDirectory) -> PreflightFinding:
    """Other firewalls may keep nodes' packets from the world, as Docker's does: a drop anywhere counts."""
    program = shutil.which("nft", path=PATH)
    if program is None or os.geteuid() != 0:
        return PreflightFinding("way out", CheckState.OK, "not looked at")
    message = subprocess.run([program, "list", "chains"], capture_output=True, text=True, check=False).stdout
    if not (tables := dropping(message)):
        return PreflightFinding("way out", CheckState.OK, "no firewall of this machine is in it")
    fix = "let packets through that come from or go to links named al*"
    return PreflightFinding(
        "way out", CheckState.WARNING, f"{', '.join(tables)} drops what is forwarded", fix
    )


def dropping(chains: str) -> list[str]:
    """Tables, other than clusters' own, whose policy is to forward nothing; `chains` as nft lists them."""
    found, table = [], ""
    for line in chains.splitlines():
        if line.startswith("table "):
            table = line.removeprefix("table ").rstrip(" {")
        elif "hook forward" in line and "policy drop" in line and "alcove_" not in table:
            found.append(table)
    return found


def images(_place: DataDirectory) -> PreflightFinding:
    from alcove.agent.images import builtin
    from alcove.agent.images.model import ToolMissing

    try:
        builtin.find()
    except ToolMissing as error:
        return PreflightFinding(
            "images", CheckState.WARNING, f"{error}: no built-in image", "apt install busybox-static"
        )
    missing = [name for name in ("skopeo", "umoci") if not shutil.which(name, path=PATH)]
    if missing:
        message = f"{', '.join(missing)} not installed: only the built-in image"
        return PreflightFinding("images", CheckState.WARNING, message, f"apt install {' '.join(missing)}")
    return PreflightFinding("images", CheckState.OK, "skopeo, umoci, the built-in image")


def kubectl(_place: DataDirectory) -> PreflightFinding:
    if found := shutil.which("kubectl"):
        return PreflightFinding("kubectl", CheckState.OK, found)
    message = "not installed: `alcove kubectl` and the demo need it"
    return PreflightFinding("kubectl", CheckState.WARNING, message, "apt install kubernetes-client")


def resolver(_place: DataDirectory) -> PreflightFinding:
    """Nodes are namespaces: this machine's loopback is not theirs."""
    servers = nameservers(Path("/etc/resolv.conf"))
    if servers and all(each.startswith("127.") or each == "::1" for each in servers):
        better = nameservers(Path("/run/systemd/resolve/resolv.conf"))
        if not better:
            message = f"only {', '.join(servers)}: names outside the cluster do not resolve in pods"
            return PreflightFinding(
                "resolver",
                CheckState.WARNING,
                message,
                "name a server in /etc/resolv.conf that is no loopback",
            )
    return PreflightFinding("resolver", CheckState.OK, ", ".join(servers) or "none")


def nameservers(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1]


def state_folder(directory: DataDirectory) -> PreflightFinding:
    folder = existing(directory.data)
    fix = "name another folder with --data"
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return PreflightFinding("state", CheckState.FAILED, f"{folder} is read-only", fix)
    if not os.access(folder, os.W_OK):
        return PreflightFinding("state", CheckState.FAILED, f"{folder} cannot be written", fix)
    return PreflightFinding("state", CheckState.OK, str(directory.data))


def disk(directory: DataDirectory) -> PreflightFinding:
    free = shutil.disk_usage(existing(directory.data)).free
    message = f"{free / 1e9:.1f} GB free in {existing(directory.data)}"
    if free < DISK_BYTES_MIN:
        return PreflightFinding(
            "disk", CheckState.FAILED, message, "free some space, or name another folder with --data"
        )
    if free < DISK_BYTES_GOOD:
        return PreflightFinding("disk", CheckState.WARNING, message, "images and logs need room")
    return PreflightFinding("disk", CheckState.OK, message)


def port(directory: DataDirectory) -> PreflightFinding:
    if directory.is_up:
        return PreflightFinding("port", CheckState.OK, f"{directory.port}, this cluster's")
    if (message := taken(directory.port)) is None:
        return PreflightFinding("port", CheckState.OK, f"{directory.port} is free")
    return PreflightFinding(
        "port", CheckState.FAILED, f"{directory.port}: {message}", "`alcove up --port P` takes another"
    )


def taken(number: int) -> str | None:
    """Why the port cannot be listened on; None: it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", number))
        except OSError as error:
            return error.strerror or str(error)
    return None


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above that is there and may be seen."""
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
"""What nodes need to run pods."""
CHECKS: tuple[Check, ...] = (*NODE_CHECKS, forwarding, images, kubectl, resolver, state_folder, disk, port)
