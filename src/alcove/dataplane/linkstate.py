"""A link's addresses and static routes: what they are in the kernel, and making them what they should be.

What is no longer wanted is removed, not only what is missing added: an address that stays behind on a gateway's
link is answered there, and the pod that gets it later cannot be reached from its own node.
"""

from collections.abc import Collection, Iterator
from ipaddress import ip_address, ip_interface, ip_network

from msgspec import Struct

from alcove.dataplane import links
from alcove.dataplane.address import Address, Prefix
from alcove.dataplane.links import AF_INET, AF_INET6
from alcove.dataplane.model import Interface
from alcove.dataplane.netlink import Netlink, NetlinkRequest, attributes


class Route(Struct, frozen=True):
    """To `target` (None: everything) by `via` (None: on the link itself)."""

    family: int
    target: Prefix | None
    via: Address | None = None


def route_to(prefix: Prefix) -> Route:
    return Route(AF_INET if prefix.version == 4 else AF_INET6, prefix)


def default_route(via: Address) -> Route:
    return Route(AF_INET if via.version == 4 else AF_INET6, None, via)


def align(netlink: Netlink, index: int, addresses: Collection[Interface], routes: Collection[Route]) -> None:
    """Give the link exactly these addresses and static routes, and bring it up. Safe to repeat.

    Link-local IPv6 addresses and the kernel's own routes are left alone. Stale addresses go before new ones come:
    the kernel removes the secondary addresses of a subnet together with its primary one.
    """
    stale = [one for one in read_addresses(netlink, index) if one not in addresses]
    netlink.do(*(links.delete_address(index, one.ip, one.network.prefixlen) for one in stale))
    netlink.do(*(links.add_address(index, one.ip, one.network.prefixlen) for one in addresses))
    netlink.do(links.set_link(index))
    gone = [one for one in read_routes(netlink, index) if one not in routes]
    netlink.do(*(links.delete_route(index, one.target, one.via, one.family) for one in gone))
    netlink.do(*(links.add_route(index, one.target, one.via, one.family) for one in routes))


def read_addresses(netlink: Netlink, index: int) -> list[Interface]:
    """The link's addresses, without link-local ones of IPv6."""
    body = links.ADDRESS.pack(0, 0, 0, 0, 0)
    found: list[Interface] = []
    for _kind, answer in list(netlink.dump(NetlinkRequest(links.RTM_GETADDR, 0, body, "list addresses"))):
        _family, bits, _flags, _scope, link = links.ADDRESS.unpack_from(answer)
        told = attributes(answer[links.ADDRESS.size :])
        raw = told.get(links.IFA_LOCAL) or told.get(links.IFA_ADDRESS)
        if link != index or raw is None:
            continue
        address = ip_address(raw)
        if address.version == 4 or not address.is_link_local:
            found.append(ip_interface((raw, bits)))
    return found


def read_routes(netlink: Netlink, index: int) -> list[Route]:
    """Routes of the main table through the link that were put there by us, not by the kernel."""
    body = links.ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)
    request = NetlinkRequest(links.RTM_GETROUTE, 0, body, "list routes")
    return list(_routes(list(netlink.dump(request)), index))


def _routes(answers: Collection[tuple[int, bytes]], index: int) -> Iterator[Route]:
    for _kind, answer in answers:
        family, bits, _, _, table, protocol, *_ = links.ROUTE.unpack_from(answer)
        told = attributes(answer[links.ROUTE.size :])
        out = int.from_bytes(told.get(links.RTA_OIF, b""), "little")
        if out != index or table != links.RT_TABLE_MAIN or protocol != links.RTPROT_STATIC:
            continue
        target, via = told.get(links.RTA_DST), told.get(links.RTA_GATEWAY)
        yield Route(
            family,
            ip_network((target, bits)) if target is not None else None,
            ip_address(via) if via is not None else None,
        )
