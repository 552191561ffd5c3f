"""Files that the node creates for a pod's containers: /etc/hosts, hostname, resolv.conf and the termination
log.

Containers may write to them, so they are on a tmpfs of the pod with a limit for bytes and files. What a
container writes there counts as memory of the pod's cgroup; when the tmpfs is full, its writes fail. A tmpfs
needs no measuring and takes no disk space; the kernels that we support need not have quotas.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from alcove.agent import mount_calls, untrusted_files
from alcove.agent.logs import entries
from alcove.agent.mount_calls import MS_NODEV, MS_NOEXEC, MS_NOSUID
from alcove.agent.runtime.config import BindMount
from alcove.api.objects import Object

TERMINATION_LOG = "/dev/termination-log"
SPACE_BYTES_MAX = 4 << 20
"""Bytes of all these files of one pod; a container that writes more gets ENOSPC."""
SPACE_FILES_MAX = 4_096
"""Number of these files of one pod; a pod with more containers than that cannot start them."""
MESSAGE_BYTES_MAX = 4_096
FROM_LOG_BYTES_MAX = 2_048
FROM_LOG_LINES_MAX = 80
NODE_HOSTS = Path("/etc/hosts")
_HOSTNAME_MAX = 63
_HOSTS_HEAD = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
_NODE_HOSTS_HEAD = "# Kubernetes-managed hosts file (host network).\n"
_ALIASES_HEAD = "\n# Entries added by HostAliases.\n"


def hostname_of(pod: Object) -> str:
    """The pod's host name, without a domain unless it is overridden by one that has it."""
    if override := pod["spec"].get("hostnameOverride"):
        return str(override)
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:_HOSTNAME_MAX].rstrip("-.")


def fqdn_of(pod: Object, domain: str) -> str:
    """The pod's fully qualified domain name; empty if it has no subdomain or its host name is overridden."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain or pod["spec"].get("hostnameOverride"):
        return ""
    return f"{hostname_of(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{domain}"


def uts_name(pod: Object, domain: str) -> str:
    """What `hostname` prints in the pod's containers."""
    fqdn = fqdn_of(pod, domain)
    return fqdn if fqdn and pod["spec"].get("setHostnameAsFQDN") else hostname_of(pod)


def hosts(pod: Object, addresses: Sequence[str], domain: str, node_hosts: Path = NODE_HOSTS) -> str:
    """The pod's /etc/hosts, with the kubelet's header and separators: programs look for both. In the node's
    network it has the node's entries."""
    if pod["spec"].get("hostNetwork"):
        text = node_hosts.read_text(errors="replace") if node_hosts.exists() else ""
        return _NODE_HOSTS_HEAD + text + _aliases(pod)
    names = "\t".join(each for each in (fqdn_of(pod, domain), hostname_of(pod)) if each)
    lines = [f"{address}\t{names}\n" for address in addresses]
    return _HOSTS_HEAD + "".join(lines) + _aliases(pod)


def _aliases(pod: Object) -> str:
    aliases = pod["spec"].get("hostAliases") or ()
    lines = ["\t".join((each["ip"], *(each.get("hostnames") or ()))) + "\n" for each in aliases]
    return _ALIASES_HEAD + "".join(lines) if lines else ""


def mount_space(directory: Path) -> None:
    """Mounts the pod's tmpfs at `directory`. Idempotent. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    if not os.path.ismount(directory):
        options = f"mode=711,size={SPACE_BYTES_MAX},nr_inodes={SPACE_FILES_MAX}"
        mount_calls.mount("tmpfs", directory, "tmpfs", MS_NODEV | MS_NOSUID | MS_NOEXEC, options)


def unmount_space(directory: Path) -> None:
    """Unmounts the pod's tmpfs; its files are gone then. Idempotent."""
    mount_calls.unmount_all(directory)


def write(directory: Path, texts: dict[str, str]) -> None:
    """Writes the files that differ, in place: containers have them mounted, so they are never replaced."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    for name, text in texts.items():
        path, content = directory / name, text.encode()
        # The pod may have written gigabytes to the file: no more is read than is compared.
        if untrusted_files.read_head(directory, name, len(content) + 1) != content:
            path.write_bytes(content)
        path.chmod(0o644)


def mounts(directory: Path, existing: Sequence[BindMount]) -> list[BindMount]:
    """Mounts of these files, except where the container has a volume mount at the same path."""
    destinations = {mount.destination for mount in existing}
    node_files = [
        BindMount(str(directory / name), f"/etc/{name}") for name in ("hosts", "resolv.conf", "hostname")
    ]
    return [each for each in node_files if each.destination not in destinations]


def make_message(directory: Path, name: str) -> Path:
    """Creates an empty termination log that any user of the container may write to."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    path = directory / name
    path.touch()
    path.chmod(0o666)
    return path


def termination_message(container: Object, path: Path, log: Path, exit_code: int) -> str:
    head = untrusted_files.read_head(path.parent, path.name, MESSAGE_BYTES_MAX) or b""
    message = head.decode(errors="replace")
    falls_back = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if message or not falls_back or exit_code == 0:
        return message
    return _from_log(log)


def _from_log(log: Path) -> str:
    """The end of the container's output as it wrote it: a last line without a newline gets none."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * FROM_LOG_BYTES_MAX))
            lines = file.read(4 * FROM_LOG_BYTES_MAX).split(b"\n")
    except OSError:
        return ""
    parsed = (entries.parse(line) for line in lines[-FROM_LOG_LINES_MAX - 1 : -1])
    output = b"".join(entry.output for entry in parsed if entry is not None)
    return output[-FROM_LOG_BYTES_MAX:].decode(errors="replace")
