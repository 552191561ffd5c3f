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


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Something will not work, or not as well."""
    NO_TENANTS = "no tenants"
    """Without it nodes run ring0's pods, but no tenant's."""
    HOLLOW = "missing"
    """Without it nodes only pretend to run pods."""
    FAILED = "failed"
    """Without it nothing runs."""


class Finding(Struct, frozen=True):
    name: str
    state: State
    detail: str
    fix: str = ""


class Place(Struct, frozen=True):
    """Where the cluster is, or would be."""

    data: Path
    port: int
    is_up: bool
    trial: Path | None = None
    """Where outcomes of runtimes' trials are kept; None: they are not."""


Check = Callable[[Place], Finding]


def look(place: Place, checks: Sequence[Check] | None = None) -> list[Finding]:
    return [check(place) for check in checks or CHECKS]


def lacking(findings: Sequence[Finding]) -> list[Finding]:
    """Why nodes here cannot run pods; nothing: they can."""
    return [finding for finding in findings if finding.state in (State.HOLLOW, State.FAILED)]


def without_tenants(findings: Sequence[Finding]) -> list[Finding]:
    """Why nodes here cannot run tenants' pods, although they can run ring0's."""
    return [finding for finding in findings if finding.state is State.NO_TENANTS]


def root(_place: Place) -> Finding:
    if os.geteuid() == 0:
        return Finding("root", State.OK, "yes")
    return Finding("root", State.HOLLOW, "no: pods, networks and eBPF need it", "run it with sudo")


def kernel(_place: Place) -> Finding:
    release = platform.release()
    numbers = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if platform.system() != "Linux" or numbers < KERNEL_MIN:
        wanted = ".".join(map(str, KERNEL_MIN))
        return Finding("kernel", State.HOLLOW, f"{platform.system()} {release}", f"Linux {wanted} or newer")
    return Finding("kernel", State.OK, release)


def namespaces(_place: Place) -> Finding:
    name = "namespaces"
    if os.geteuid() != 0:
        return Finding(name, State.HOLLOW, "cannot be made without root", "run it with sudo")
    from alcove.dataplane import namespaces as kernel_namespaces
    from alcove.dataplane.errors import DataPlaneError

    probe = f"alcove-doctor-{os.getpid()}"
    try:
        os.close(kernel_namespaces.make(probe))
    except (DataPlaneError, OSError) as error:
        return Finding(name, State.HOLLOW, str(error), "a kernel with CONFIG_NET_NS, and CAP_SYS_ADMIN")
    finally:
        kernel_namespaces.remove(probe)
    return Finding(name, State.OK, "network namespaces can be made")


def bpf(_place: Place) -> Finding:
    """A map is made and closed again: what counts is that the kernel lets us."""
    from alcove.dataplane.errors import Unsupported

    try:
        from alcove.dataplane.bpf import library

        lib = library()
    except Unsupported as error:
        return Finding("eBPF", State.HOLLOW, str(error), "apt install libbpf1")
    descriptor = lib.bpf_map_create(1, b"alcove_doctor", 4, 4, 1, None)
    if descriptor < 0:
        return Finding(
            "eBPF",
            State.HOLLOW,
            f"the kernel refuses: {os.strerror(-descriptor)}",
            "CAP_BPF, CONFIG_BPF_SYSCALL",
        )
    os.close(descriptor)
    return Finding("eBPF", State.OK, "maps can be made")


def programs(_place: Place) -> Finding:
    """The data plane's own: compiled before, or a compiler to do it with."""
    from alcove.dataplane.build import find_compiler, find_object, shipped_object
    from alcove.dataplane.errors import BuildFailed

    name, fix = "eBPF programs", "apt install clang libbpf-dev"
    if find_object():
        return Finding(name, State.OK, "shipped with the package" if shipped_object() else "compiled")
    try:
        compiler = find_compiler()
    except BuildFailed as error:
        return Finding(name, State.HOLLOW, str(error), fix)
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        return Finding(name, State.HOLLOW, "libbpf's headers are missing", fix)
    return Finding(name, State.OK, f"to be compiled by {Path(compiler).name}")


def runtimes(place: Place) -> Finding:
    """Each is tried as a node does it. `up` keeps what was proven with the cluster's state; `doctor` always tries."""
    from alcove.processes.machine import trial

    try:
        tried = trial.try_runtimes(place.trial) if place.trial else trial.try_once(existing(place.data))
    except trial.Untried as error:
        return Finding("runtimes", State.HOLLOW, str(error), error.fix)
    return trial.judge(tried)


def cgroups(_place: Place) -> Finding:
    from alcove.agent.cgroups import Cgroups

    groups = Cgroups.of_machine()
    if not groups.mounts:
        return Finding("cgroups", State.HOLLOW, "not mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    if os.geteuid() == 0 and not any(os.access(mount.path, os.W_OK) for mount in groups.mounts):
        return Finding("cgroups", State.HOLLOW, "mounted read-only", "remount /sys/fs/cgroup rw")
    return Finding("cgroups", State.OK, groups.layout.value)


def firewall(_place: Place) -> Finding:
    if shutil.which("nft", path=PATH):
        return Finding("nftables", State.OK, "installed")
    return Finding("nftables", State.HOLLOW, "nft is not installed", "apt install nftables")


def forwarding(_place: Place) -> Finding:
    """Other firewalls may keep nodes' packets from the world, as Docker's does: a drop anywhere counts."""
    program = shutil.which("nft", path=PATH)
    if program is None or os.geteuid() != 0:
        return Finding("way out", State.OK, "not looked at")
    told = subprocess.run([program, "list", "chains"], capture_output=True, text=True, check=False).stdout
    if not (tables := dropping(told)):
        return Finding("way out", State.OK, "no firewall of this machine is in it")
    fix = "let packets through that come from or go to links named al*"
    return Finding("way out", State.WARNING, f"{', '.join(tables)} drops what is forwarded", fix)


def dropping(chains: str) -> list[str]:
    """Tables, other than clusters' own, whose policy is to forward nothing; `chains` as nft lists them."""
    found, table = [], ""
    for line in chains.splitlines():
        if line.startswith("table "):
            table = line.removeprefix("table ").rstrip(" {")
        elif "hook forward" in line and "policy drop" in line and "alcove_" not in table:
            found.append(table)
    return found


def images(_place: Place) -> Finding:
    from alcove.agent.images import builtin
    from alcove.agent.images.model import ToolMissing

    try:
        builtin.find()
    except ToolMissing as error:
        return Finding("images", State.WARNING, f"{error}: no built-in image", "apt install busybox-static")
    missing = [name for name in ("skopeo", "umoci") if not shutil.which(name, path=PATH)]
    if missing:
        told = f"{', '.join(missing)} not installed: only the built-in image"
        return Finding("images", State.WARNING, told, f"apt install {' '.join(missing)}")
    return Finding("images", State.OK, "skopeo, umoci, the built-in image")


def kubectl(_place: Place) -> Finding:
    if found := shutil.which("kubectl"):
        return Finding("kubectl", State.OK, found)
    told = "not installed: `alcove kubectl` and the demo need it"
    return Finding("kubectl", State.WARNING, told, "apt install kubernetes-client")


def resolver(_place: Place) -> Finding:
    """Nodes are namespaces: this machine's loopback is not theirs."""
    servers = nameservers(Path("/etc/resolv.conf"))
    if servers and all(each.startswith("127.") or each == "::1" for each in servers):
        better = nameservers(Path("/run/systemd/resolve/resolv.conf"))
        if not better:
            told = f"only {', '.join(servers)}: names outside the cluster do not resolve in pods"
            return Finding(
                "resolver", State.WARNING, told, "name a server in /etc/resolv.conf that is no loopback"
            )
    return Finding("resolver", State.OK, ", ".join(servers) or "none")


def nameservers(path: Path) -> list[str]:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    return [line.split()[1] for line in lines if line.startswith("nameserver") and len(line.split()) > 1]


def state_folder(place: Place) -> Finding:
    folder = existing(place.data)
    fix = "name another folder with --data"
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return Finding("state", State.FAILED, f"{folder} is read-only", fix)
    if not os.access(folder, os.W_OK):
        return Finding("state", State.FAILED, f"{folder} cannot be written", fix)
    return Finding("state", State.OK, str(place.data))


def disk(place: Place) -> Finding:
    free = shutil.disk_usage(existing(place.data)).free
    told = f"{free / 1e9:.1f} GB free in {existing(place.data)}"
    if free < DISK_BYTES_MIN:
        return Finding("disk", State.FAILED, told, "free some space, or name another folder with --data")
    if free < DISK_BYTES_GOOD:
        return Finding("disk", State.WARNING, told, "images and logs need room")
    return Finding("disk", State.OK, told)


def port(place: Place) -> Finding:
    if place.is_up:
        return Finding("port", State.OK, f"{place.port}, this cluster's")
    if (told := taken(place.port)) is None:
        return Finding("port", State.OK, f"{place.port} is free")
    return Finding("port", State.FAILED, f"{place.port}: {told}", "`alcove up --port P` takes another")


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
