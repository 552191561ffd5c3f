"""A port's link: a veth from the node into the pod's namespace, guarded before it comes up.

The host side is made down, gets its program, and only then comes up: there is no moment in which a
packet of the pod could reach the host's own stack.
"""

import errno
import hashlib
from collections.abc import Callable, Sequence

from alcove.dataplane import links
from alcove.dataplane.address import Address
from alcove.dataplane.apply import Checkpoint
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.links import AF_INET, AF_INET6
from alcove.dataplane.model import Interface, Veth
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink, NetlinkRequest

HOST_MAC = "0a:00:00:00:00:01"
"""Of every host side; nothing is ever addressed to it."""
HELD_BURST_BYTES = 65536
"""Below what the other side lets through at once (`desired.BURST_BYTES_MIN`)."""


TRIES_MAX = 8

Taken = Callable[[int], bool]
"""Whether a link of that index would have the place of another's port (`maps.port_key`)."""


def port_name(instance: str, identity: str) -> str:
    """A link name for a pod, by whatever identifies it (its UID, say). At most 15 characters."""
    digest = hashlib.blake2b(identity.encode(), digest_size=5).hexdigest()
    return f"{instance}p{digest}"


def make_guarded(
    netlink: Netlink,
    name: str,
    inner: tuple[str, str],
    namespace: int,
    mtu: int,
    program: int,
    checkpoint: Checkpoint,
    taken: Taken,
) -> int:
    """The link `name` with its inner side (name, MAC) in the namespace, guarded and up. Its index."""
    checkpoint(f"make {name}")
    index = _make(netlink, links.veth(name, HOST_MAC, inner[0], inner[1], namespace, mtu), name, taken)
    checkpoint(f"guard {name}")
    netlink.do(*guard(index, program), links.set_link(index))
    return index


def _make(netlink: Netlink, request: NetlinkRequest, name: str, taken: Taken) -> int:
    """One whose place is free: the kernel gives another number each time."""
    for _ in range(TRIES_MAX):
        netlink.do(request)
        link = links.read_link(netlink, name)
        if link is None:
            raise KernelRefused(f"find the new link {name}", errno.ENODEV)
        if not taken(link.index):
            return link.index
        netlink.do(links.delete_link(link.index))
    raise KernelRefused(f"find a free place for {name}", errno.EBUSY)


def guard(
    index: int, program: int, name: str = "from_pod", handle: int = links.SOLE
) -> Sequence[NetlinkRequest]:
    return (links.clsact(index), links.attach(index, program, name, handle))


def configure_interface(
    namespace: int, interface: str, addresses: Sequence[Interface], gateways: Sequence[Address], rate: int = 0
) -> None:
    """Addresses and default routes of the inner side, which comes up with them. Safe to repeat.

    A rate limit begins here: held back, TCP finds its pace. The pod could take this away, but not the limit
    at the other side, which drops what comes too fast.
    """
    with inside(namespace):
        netlink = Netlink()
    try:
        link = links.read_link(netlink, interface)
        loopback = links.read_link(netlink, "lo")
        if link is None or loopback is None:
            raise KernelRefused(f"find {interface} in the pod's namespace", errno.ENODEV)
        requests = [links.set_link(loopback.index)]
        requests += [links.add_address(link.index, one.ip, one.network.prefixlen) for one in addresses]
        requests += [links.set_link(link.index)]
        requests += [_default(link.index, gateway) for gateway in gateways]
        if rate:
            requests.append(links.token_bucket(link.index, rate, HELD_BURST_BYTES))
        netlink.do(*requests)
    finally:
        netlink.close()


def _default(index: int, gateway: Address) -> NetlinkRequest:
    family = AF_INET if gateway.version == 4 else AF_INET6
    return links.add_route(index, None, gateway, family)


def make_port(
    netlink: Netlink, veth: Veth, namespace: int, mtu: int, program: int, checkpoint: Checkpoint, taken: Taken
) -> int:
    inner = (veth.pod_interface, veth.mac)
    index = make_guarded(netlink, veth.name, inner, namespace, mtu, program, checkpoint, taken)
    checkpoint(f"equip {veth.name}")
    configure_interface(
        namespace, veth.pod_interface, veth.addresses, veth.gateways, veth.rate_bytes_per_second
    )
    return index
