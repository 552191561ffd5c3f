"""Shapes the underlay by traffic class (HTB), if its capacity is known.

Each class has a guaranteed share; unused capacity goes to the others, the higher class first. The BPF
programs set the class in the packets' priority (`desired.PRIORITY`); the host's packets are Expedited.
Instances at one device share its shaper; a qdisc with another handle is never changed.
"""

import subprocess

from alcove.dataplane import links
from alcove.dataplane.desired import HTB_MAJOR
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import TrafficClass
from alcove.dataplane.netlink import Netlink

SHARES = {TrafficClass.PREMIUM: 0.6, TrafficClass.EXPEDITED: 0.3, TrafficClass.BEST_EFFORT: 0.1}
_ROOT = f"{HTB_MAJOR >> 16:x}:"


def commands(device: str, bytes_per_second: int, *, exists: bool) -> list[str]:
    """Commands for `tc -batch`. `exists`: the qdisc exists, and only its classes are updated."""
    lines = [] if exists else [f"qdisc replace dev {device} root handle {_ROOT} htb default 20"]
    lines.append(
        f"class replace dev {device} parent {_ROOT} classid {_ROOT}1 htb rate {bytes_per_second}bps quantum 60000"
    )
    for one, share in SHARES.items():
        rate = max(1, int(bytes_per_second * share))
        lines.append(
            f"class replace dev {device} parent {_ROOT}1 classid {_ROOT}{one + 1}0 htb"
            f" rate {rate}bps ceil {bytes_per_second}bps prio {one.value} quantum 60000"
        )
    return lines


def shape(netlink: Netlink, device: links.Link, bytes_per_second: int) -> None:
    """Shapes the device, in the calling thread's network namespace. Raises DataPlaneError."""
    batch = "\n".join(commands(device.name, bytes_per_second, exists=is_shaped(netlink, device))) + "\n"
    completed = subprocess.run(
        ["tc", "-batch", "-"], input=batch, text=True, capture_output=True, check=False
    )
    if completed.returncode:
        raise DataPlaneError(f"failed to shape {device.name}: {completed.stderr.strip()}")


def is_shaped(netlink: Netlink, device: links.Link) -> bool:
    return links.read_root_handle(netlink, device.index) == HTB_MAJOR


def unshape(netlink: Netlink, device: links.Link) -> None:
    """Restores the device's default qdisc, if it was shaped by `shape`."""
    if is_shaped(netlink, device):
        netlink.do(links.remove_root_qdisc(device.index))
