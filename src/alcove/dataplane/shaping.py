"""Shares the underlay's capacity out between the traffic classes, where the capacity is known.

Each class is sure of a share, and what one leaves the others use, the higher class first. Packets name their
class themselves: the programs set their priority (`desired.PRIORITY`). The host's own are as Expedited.
Instances at one device share its shaper; another's qdisc, which has another handle, is never touched.
"""

import subprocess

from alcove.dataplane import links
from alcove.dataplane.desired import HTB_MAJOR
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import TrafficClass
from alcove.dataplane.netlink import Netlink

SHARES = {TrafficClass.PREMIUM: 0.6, TrafficClass.EXPEDITED: 0.3, TrafficClass.BEST_EFFORT: 0.1}
_ROOT = f"{HTB_MAJOR >> 16:x}:"


def commands(device: str, bytes_per_second: int, *, there: bool) -> list[str]:
    """For `tc -batch`. `there`: our qdisc is, its classes may be others."""
    messages = [] if there else [f"qdisc replace dev {device} root handle {_ROOT} htb default 20"]
    messages.append(
        f"class replace dev {device} parent {_ROOT} classid {_ROOT}1 htb rate {bytes_per_second}bps quantum 60000"
    )
    for one, share in SHARES.items():
        rate = max(1, int(bytes_per_second * share))
        messages.append(
            f"class replace dev {device} parent {_ROOT}1 classid {_ROOT}{one + 1}0 htb"
            f" rate {rate}bps ceil {bytes_per_second}bps prio {one.value} quantum 60000"
        )
    return messages


def shape(netlink: Netlink, device: links.Link, bytes_per_second: int) -> None:
    """In the calling thread's namespace."""
    message = "\n".join(commands(device.name, bytes_per_second, there=is_shaped(netlink, device))) + "\n"
    done = subprocess.run(["tc", "-batch", "-"], input=message, text=True, capture_output=True, check=False)
    if done.returncode:
        raise DataPlaneError(f"cannot shape {device.name}: {done.stderr.strip()}")


def is_shaped(netlink: Netlink, device: links.Link) -> bool:
    return links.read_root_handle(netlink, device.index) == HTB_MAJOR


def unshape(netlink: Netlink, device: links.Link) -> None:
    """The device as the kernel has it, if it was shaped by us."""
    if is_shaped(netlink, device):
        netlink.do(links.remove_root_qdisc(device.index))
