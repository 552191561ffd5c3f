"""Shares the underlay's capacity out between the traffic classes, where the capacity is known.

Each class is sure of a share, and what one leaves the others use, the higher class first. Packets name their
class themselves: the programs set their priority (`desired.PRIORITY`). The host's own are as Expedited.
"""

import subprocess

from alcove.dataplane import links
from alcove.dataplane.errors import DataPlaneError
from alcove.dataplane.model import TrafficClass
from alcove.dataplane.netlink import Netlink

SHARES = {TrafficClass.PREMIUM: 0.6, TrafficClass.EXPEDITED: 0.3, TrafficClass.BEST_EFFORT: 0.1}


def commands(device: str, bytes_per_second: int) -> list[str]:
    """For `tc -batch`."""
    told = [
        f"qdisc replace dev {device} root handle 1: htb default 20",
        f"class replace dev {device} parent 1: classid 1:1 htb rate {bytes_per_second}bps",
    ]
    for one, share in SHARES.items():
        rate = max(1, int(bytes_per_second * share))
        told.append(
            f"class replace dev {device} parent 1:1 classid 1:{one + 1}0 htb"
            f" rate {rate}bps ceil {bytes_per_second}bps prio {one.value} quantum 60000"
        )
    return told


def shape(netlink: Netlink, device: links.Link, bytes_per_second: int) -> None:
    """In the calling thread's namespace. Without a capacity the device is left, or put back, as it was."""
    if bytes_per_second:
        told = "\n".join(commands(device.name, bytes_per_second)) + "\n"
        done = subprocess.run(["tc", "-batch", "-"], input=told, text=True, capture_output=True, check=False)
        if done.returncode:
            raise DataPlaneError(f"cannot shape {device.name}: {done.stderr.strip()}")
    elif device.qdisc == "htb":
        netlink.do(links.remove_root_qdisc(device.index))
