"""The names of an instance's kernel objects, and their removal.

Several instances may share a namespace and an underlay device. Each one identifies its objects by these names
alone.
"""

import re
from pathlib import Path

from alcove.dataplane import links, namespaces
from alcove.dataplane.loader import remove_pins
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.shaping import unshape

BPF_ROOT = Path("/sys/fs/bpf")
_NAME = re.compile(r"[A-Za-z0-9]{1,4}")


def checked(instance: str) -> str:
    """The validated name, which is a part of link names and must be short. Raises ValueError."""
    if not _NAME.fullmatch(instance):
        raise ValueError(f"invalid instance name {instance!r}: must have 1 to 4 letters and digits")
    return instance


def handle_of(instance: str) -> int:
    """The filter handle of its program at an underlay device that other instances may share."""
    return int.from_bytes(instance.encode().ljust(4, b"\0"), "big")


def port_links(instance: str) -> re.Pattern[str]:
    """Matches the names of veths and gateway links. Never matches those of an instance whose name begins with
    this one."""
    return re.compile(rf"{instance}(p[0-9a-f]{{10}}|g[0-9a-f]{{1,8}})")


def instance_links(netlink: Netlink, instance: str) -> dict[str, int]:
    """The indexes of veths and gateway links, by name."""
    pattern = port_links(instance)
    return {link.name: link.index for link in links.read_links(netlink) if pattern.fullmatch(link.name)}


def remove(instance: str, underlay: str, bpf_root: Path = BPF_ROOT) -> None:
    """Removes everything of the instance, in the calling thread's namespace. Idempotent; needs neither
    programs nor a compiler. Filters of other instances at the underlay device stay."""
    checked(instance)
    netlink = Netlink()
    try:
        _leave_underlay(netlink, instance, underlay)
        doomed = list(instance_links(netlink, instance).values())
        for name in (f"{instance}x", f"{instance}v", f"{instance}n"):
            link = links.read_link(netlink, name)
            if link is not None:
                doomed.append(link.index)
        netlink.do(*(links.delete_link(index) for index in doomed))
    finally:
        netlink.close()
    for name in namespaces.names(f"alcove-{instance}-"):
        namespaces.remove(name)
    remove_pins(bpf_root, instance)


def _leave_underlay(netlink: Netlink, instance: str, underlay: str) -> None:
    device = links.read_link(netlink, underlay)
    if device is None:
        return
    netlink.do(links.detach(device.index, handle_of(instance)))
    if links.is_filtered(netlink, device.index):
        return
    netlink.do(links.remove_clsact(device.index))
    unshape(netlink, device)
