"""A pod's veth, whose BPF program is attached before it comes up.

The host side is created down, gets its program, and is set up only then, so that no packet of the pod can
ever reach the host's network stack.
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
"""The MAC of every host side; no packet is ever addressed to it."""
QUEUE_BURST_BYTES = 65536
"""Less than the burst of the host side (`desired.BURST_BYTES_MIN`)."""


TRIES_MAX = 8

IsSlotUsed = Callable[[int], bool]
"""Whether the slot of a link index is used by another link (`maps.port_key`)."""


def port_name(instance: str, identity: str) -> str:
    """The link name for a pod, from its identity (e.g. its uid). At most 15 characters."""
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
    is_slot_used: IsSlotUsed,
) -> int:
    """Creates the link `name` with its inner side (name, MAC) in the namespace, attaches the program and sets
    it up. Returns its index. Raises KernelRefused."""
    checkpoint(f"make {name}")
    index = _create_link(
        netlink, links.veth(name, HOST_MAC, inner[0], inner[1], namespace, mtu), name, is_slot_used
    )
    checkpoint(f"guard {name}")
    netlink.do(*guard(index, program), links.set_link(index))
    return index


def _create_link(netlink: Netlink, request: NetlinkRequest, name: str, is_slot_used: IsSlotUsed) -> int:
    """Creates a link whose slot is free; the kernel assigns another index at each try."""
    for _ in range(TRIES_MAX):
        netlink.do(request)
        link = links.read_link(netlink, name)
        if link is None:
            raise KernelRefused(f"find the new link {name}", errno.ENODEV)
        if not is_slot_used(link.index):
            return link.index
        netlink.do(links.delete_link(link.index))
    raise KernelRefused(f"find a free slot for {name}", errno.EBUSY)


def guard(
    index: int, program: int, name: str = "from_pod", handle: int = links.SOLE
) -> Sequence[NetlinkRequest]:
    return (links.clsact(index), links.attach(index, program, name, handle))


def configure_interface(
    namespace: int, interface: str, addresses: Sequence[Interface], gateways: Sequence[Address], rate: int = 0
) -> None:
    """Sets addresses and default routes of the inner side, and sets it up. Idempotent.

    The rate limit is also applied here, by queueing, so that TCP adapts to it. A pod with the capability
    could remove this qdisc, but not the limit of the host side, which drops packets above the rate.
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
        requests += [_default_route(link.index, gateway) for gateway in gateways]
        if rate:
            requests.append(links.token_bucket(link.index, rate, QUEUE_BURST_BYTES))
        netlink.do(*requests)
    finally:
        netlink.close()


def _default_route(index: int, gateway: Address) -> NetlinkRequest:
    family = AF_INET if gateway.version == 4 else AF_INET6
    return links.add_route(index, None, gateway, family)


def make_port(
    netlink: Netlink,
    veth: Veth,
    namespace: int,
    mtu: int,
    program: int,
    checkpoint: Checkpoint,
    is_slot_used: IsSlotUsed,
) -> int:
    inner = (veth.pod_interface, veth.mac)
    index = make_guarded(netlink, veth.name, inner, namespace, mtu, program, checkpoint, is_slot_used)
    checkpoint(f"configure {veth.name}")
    configure_interface(
        namespace, veth.pod_interface, veth.addresses, veth.gateways, veth.rate_bytes_per_second
    )
    return index
