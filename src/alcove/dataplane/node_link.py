"""The link by which processes on the node itself reach the addresses of one network: a veth between the node's
namespace and the network's gateway, and the node's routes to the network's prefixes through it.

The gateway translates their source address to the one that only it has in the network, so pods on any node answer
to this node. Nothing passes the other way but replies. Meant for ring0's network: networks of tenants overlap.
"""

import errno
from collections.abc import Iterable
from contextlib import closing
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from alcove.dataplane import links
from alcove.dataplane.address import Prefix
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.links import AF_INET, AF_INET6
from alcove.dataplane.linkstate import Route, align
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink

NODE_MAC, GATEWAY_MAC = "06:00:03:00:00:01", "06:00:03:00:00:02"
INSIDE = "node"
"""The link's name in the gateway."""
NODE_SIDE: tuple[IPv4Interface | IPv6Interface, ...] = (
    ip_interface("169.254.128.0/31"),
    ip_interface("fd00:a1c0:e::/127"),
)
GATEWAY_SIDE = tuple(ip_interface((each.ip + 1, each.network.prefixlen)) for each in NODE_SIDE)


def link_name(instance: str) -> str:
    return f"{instance}n"


def ensure(
    netlink: Netlink,
    instance: str,
    namespace: int,
    prefixes: Iterable[Prefix],
    forbidden: Iterable[Prefix],
    mtu: int,
    *,
    kernel6: bool,
) -> None:
    """Makes the link to the gateway's namespace and the routes to `prefixes`, except to those that overlap a
    `forbidden` one: the node's own network stays as it is. Raises DataPlaneError."""
    name, sides = link_name(instance), len(NODE_SIDE) if kernel6 else 1
    with inside(namespace):
        own = Netlink()
    with closing(own):
        if links.read_link(own, INSIDE) is None:
            # That of an earlier gateway, whose namespace the kernel has not destroyed yet.
            remove(netlink, instance)
            netlink.do(links.veth(name, NODE_MAC, INSIDE, GATEWAY_MAC, namespace, mtu))
        align(own, _index(own, INSIDE), GATEWAY_SIDE[:sides], ())
    avoided = tuple(forbidden)
    routes = [
        Route(AF_INET if prefix.version == 4 else AF_INET6, prefix, side.ip)
        for prefix in prefixes
        for side in GATEWAY_SIDE[:sides]
        if side.version == prefix.version and not any(_overlap(prefix, other) for other in avoided)
    ]
    align(netlink, _index(netlink, name), NODE_SIDE[:sides], routes)


def remove(netlink: Netlink, instance: str) -> None:
    """Removes the link with its routes. Idempotent."""
    link = links.read_link(netlink, link_name(instance))
    if link is not None:
        netlink.do(links.delete_link(link.index))


def _index(netlink: Netlink, name: str) -> int:
    link = links.read_link(netlink, name)
    if link is None:
        raise KernelRefused(f"find {name}", errno.ENODEV)
    return link.index


def _overlap(one: Prefix, other: Prefix) -> bool:
    return one.version == other.version and one.overlaps(other)
