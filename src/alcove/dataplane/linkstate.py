"""A link's addresses and static routes: reads them and sets them to the desired state.

Stale addresses are removed, too: an address left on a gateway's link would be answered there, and the pod
that gets it later could not be reached from its own node.
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
    """A route to `target` (None: default route) through `via` (None: on-link)."""

    family: int
    target: Prefix | None
    via: Address | None = None


def route_to(prefix: Prefix) -> Route:
    return Route(AF_INET if prefix.version == 4 else AF_INET6, prefix)


def default_route(via: Address) -> Route:
    return Route(AF_INET if via.version == 4 else AF_INET6, None, via)


def align(netlink: Netlink, index: int, addresses: Collection[Interface], routes: Collection[Route]) -> None:
    """Gives the link exactly these addresses and static routes, and brings it up. Idempotent.

    Link-local IPv6 addresses and the kernel's routes are not changed. Stale addresses are removed before new
    ones are added: the kernel removes the secondary addresses of a subnet together with its primary one.
    """
    present = [one for one in read_addresses(netlink, index) if one.version == 4 or not one.is_link_local]
    stale = [one for one in present if one not in addresses]
    netlink.do(*(links.delete_address(index, one.ip, one.network.prefixlen) for one in stale))
    netlink.do(*(links.add_address(index, one.ip, one.network.prefixlen) for one in addresses))
    netlink.do(links.set_link(index))
    stale_routes = [one for one in read_routes(netlink, index) if one not in routes]
    netlink.do(*(links.delete_route(index, one.target, one.via, one.family) for one in stale_routes))
    netlink.do(*(links.add_route(index, one.target, one.via, one.family) for one in routes))


def read_addresses(netlink: Netlink, index: int) -> list[Interface]:
    """The link's addresses, with their prefixes."""
    body = links.ADDRESS.pack(0, 0, 0, 0, 0)
    addresses: list[Interface] = []
    for _kind, response in list(netlink.dump(NetlinkRequest(links.RTM_GETADDR, 0, body, "list addresses"))):
        _family, bits, _flags, _scope, link = links.ADDRESS.unpack_from(response)
        values = attributes(response[links.ADDRESS.size :])
        raw = values.get(links.IFA_LOCAL) or values.get(links.IFA_ADDRESS)
        if link == index and raw is not None:
            addresses.append(ip_interface((raw, bits)))
    return addresses


def read_routes(netlink: Netlink, index: int) -> list[Route]:
    """The static routes of the main table through the link, without those of the kernel."""
    body = links.ROUTE.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)
    request = NetlinkRequest(links.RTM_GETROUTE, 0, body, "list routes")
    return list(_routes(list(netlink.dump(request)), index))


def _routes(responses: Collection[tuple[int, bytes]], index: int) -> Iterator[Route]:
    for _kind, response in responses:
        family, bits, _, _, table, protocol, *_ = links.ROUTE.unpack_from(response)
        values = attributes(response[links.ROUTE.size :])
        out = int.from_bytes(values.get(links.RTA_OIF, b""), "little")
        if out != index or table != links.RT_TABLE_MAIN or protocol != links.RTPROT_STATIC:
            continue
        target, via = values.get(links.RTA_DST), values.get(links.RTA_GATEWAY)
        yield Route(
            family,
            ip_network((target, bits)) if target is not None else None,
            ip_address(via) if via is not None else None,
        )
