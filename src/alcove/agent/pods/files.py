"""Files that the node makes for a pod's containers: names and addresses, and a place for last words."""

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
# Made by the node for this pod.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def hostname_of(pod: Object) -> str:
    """The pod's own name for itself, without a domain."""
    asked = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(asked)[:_HOSTNAME_MAX].rstrip("-.")


def fqdn_of(pod: Object, domain: str) -> str:
    """Its name with its domain, where it has a subdomain; else empty."""
    subdomain = pod["spec"].get("subdomain")
    if not subdomain:
        return ""
    return f"{hostname_of(pod)}.{subdomain}.{pod['metadata']['namespace']}.svc.{domain}"


def uts_name(pod: Object, domain: str) -> str:
    """What `hostname` says in its containers."""
    fqdn = fqdn_of(pod, domain)
    return fqdn if fqdn and pod["spec"].get("setHostnameAsFQDN") else hostname_of(pod)


def hosts(pod: Object, addresses: Sequence[str], domain: str) -> str:
    names = [each for each in (fqdn_of(pod, domain), hostname_of(pod)) if each]
    lines = [f"{address}\t{' '.join(names)}\n" for address in addresses]
    for alias in pod["spec"].get("hostAliases") or ():
        lines.append(f"{alias['ip']}\t{' '.join(alias.get('hostnames') or ())}\n")
    return _HOSTS_HEAD + "".join(lines)


def write(folder: Path, texts: dict[str, str]) -> None:
    """Each as it should be; what is there already keeps its place, since containers have it mounted."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    for name, text in texts.items():
        path, content = folder / name, text.encode()
        if not _is(path, content):
            path.write_bytes(content)
        path.chmod(0o644)


def _is(path: Path, content: bytes) -> bool:
    """Whether the file holds just that. The pod may write to it: no more is read than there should be."""
    try:
        with path.open("rb") as file:
            return file.read(len(content) + 1) == content
    except FileNotFoundError:
        return False


def mounts(folder: Path, taken: Sequence[BindMount]) -> list[BindMount]:
    """Those files, unless the container has something of its own there."""
    destinations = {mount.destination for mount in taken}
    own = [BindMount(str(folder / name), f"/etc/{name}") for name in ("hosts", "resolv.conf", "hostname")]
    return [each for each in own if each.destination not in destinations]


def make_message(folder: Path, name: str) -> Path:
    """An empty file that any user of the container may write to."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o711)
    path = folder / name
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
    said = b"".join(b"".join(line.split(b" ", 3)[3:]) for line in lines[-FROM_LOG_LINES_MAX:])
    return said[-FROM_LOG_BYTES_MAX:].decode(errors="replace")
