"""Files that the node creates for a pod's containers: /etc/hosts, hostname, resolv.conf and the termination
log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from alcove.agent.runtime.config import BindMount
from alcove.api.objects import Object

TERMINATION_LOG = "/dev/termination-log"
MESSAGE_BYTES_MAX = 4_096
FROM_LOG_BYTES_MAX = 2_048
FROM_LOG_LINES_MAX = 80
_HOSTNAME_MAX = 63
_HOSTS_HEAD = """\
# Written by the node agent for this pod.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hostname_of(pod: Object) -> str:
    """The pod's host name, without a domain."""
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:_HOSTNAME_MAX].rstrip("-.")


def fqdn_of(pod: Object, domain: str) -> str:
    """The pod's fully qualified domain name; empty if it has no subdomain."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return ""
    return f"{hostname_of(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{domain}"


def uts_name(pod: Object, domain: str) -> str:
    """What `hostname` prints in the pod's containers."""
    fqdn = fqdn_of(pod, domain)
    return fqdn if fqdn and pod["spec"].get("setHostnameAsFQDN") else hostname_of(pod)


def hosts(pod: Object, addresses: Sequence[str], domain: str) -> str:
    names = [each for each in (fqdn_of(pod, domain), hostname_of(pod)) if each]
    lines = [f"{address}\t{' '.join(names)}\n" for address in addresses]
    for alias in pod["spec"].get("hostAliases") or ():
        lines.append(f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n")
    return _HOSTS_HEAD + "".join(lines)


def write(directory: Path, texts: dict[str, str]) -> None:
    """Writes the files that differ, in place: containers have them mounted, so they are never replaced."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o711)
    for name, text in texts.items():
        path, content = directory / name, text.encode()
        if not _has_content(path, content):
            path.write_bytes(content)
        path.chmod(0o644)


def _has_content(path: Path, content: bytes) -> bool:
    """Whether the file has exactly that content. The pod may write to the file, so the read is bounded."""
    try:
        with path.open("rb") as file:
            return file.read(len(content) + 1) == content
    except FileNotFoundError:
        return False


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
    message = _head(path, MESSAGE_BYTES_MAX)
    falls_back = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
    if message or not falls_back or exit_code == 0:
        return message
    return _from_log(log)


def _head(path: Path, bytes_max: int) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, bytes_max).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _from_log(log: Path) -> str:
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * FROM_LOG_BYTES_MAX))
            lines = file.read().splitlines(keepends=True)
    except OSError:
        return ""
    output = b"".join(b"".join(line.split(b" ", 3)[3:]) for line in lines[-FROM_LOG_LINES_MAX:])
    return output[-FROM_LOG_BYTES_MAX:].decode(errors="replace")
