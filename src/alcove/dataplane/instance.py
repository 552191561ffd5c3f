"""What an instance's things are called, and how all of them are taken out of the kernel.

Several instances may share a namespace and an underlay device. Each finds its own by these names alone.
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
    """The name itself, if it can be one: a part of link names, which are short."""
    if not _NAME.fullmatch(instance):
        raise ValueError(f"an instance's name has 1 to 4 letters and digits: {instance!r}")
    return instance


def handle_of(instance: str) -> int:
    """Of its program at a device that other instances use, too."""
    return int.from_bytes(instance.encode().ljust(4, b"\0"), "big")


def port_links(instance: str) -> re.Pattern[str]:
    """Names of ports' and gateways' links; nothing of an instance whose name begins like this one matches."""
    return re.compile(rf"{instance}(p[0-9a-f]{{10}}|g[0-9a-f]{{1,8}})")


def instance_links(netlink: Netlink, instance: str) -> dict[str, int]:
    """Indexes of ports' and gateways' links."""
    pattern = port_links(instance)
    return {link.name: link.index for link in links.read_links(netlink) if pattern.fullmatch(link.name)}


def remove(instance: str, underlay: str, bpf_root: Path = BPF_ROOT) -> None:
    """Everything of the instance, in the calling thread's namespace. It needs neither programs nor a compiler,
    and may find anything missing; what others have at the underlay device stays."""
    checked(instance)
    netlink = Netlink()
    try:
        _leave_underlay(netlink, instance, underlay)
        doomed = list(instance_links(netlink, instance).values())
        for name in (f"{instance}x", f"{instance}v"):
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
