"""The netlink requests of the data plane: links, addresses, routes, rules, and programs at a link's ingress.

Pure: each function returns a request, which `Netlink` sends. `read_*` send a request and decode the response.
"""

import errno
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address

from msgspec import Struct

from alcove.dataplane.address import Address, Prefix, pack_mac
from alcove.dataplane.netlink import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Netlink,
    NetlinkRequest,
    attribute,
    attribute_text,
    attribute_u32,
    attributes,
    nested,
)

AF_INET, AF_INET6 = 2, 10
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE, RTM_NEWNEIGH = 24, 25, 26, 28
RT_TABLE_MAIN, RTPROT_STATIC, RT_SCOPE_LINK, RTN_UNICAST = 254, 4, 253, 1
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTFILTER, RTM_DELTFILTER, RTM_GETTFILTER = 44, 45, 46
IFF_UP = 1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_LINKINFO = 1, 3, 4, 5, 10, 18
IFLA_QDISC, IFLA_NET_NS_FD = 6, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFLA_VXLAN_PORT, IFLA_VXLAN_LEARNING, IFLA_VXLAN_COLLECT_METADATA = 15, 7, 25
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS, IFA_F_NODAD = 1, 2, 8, 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_TABLE = 1, 4, 5, 15
RTM_NEWRULE, FRA_SRC, FRA_PRIORITY, FRA_TABLE, FR_ACT_TO_TBL = 32, 2, 6, 15, 1
NDA_DST, NDA_LLADDR, NUD_PERMANENT = 1, 2, 0x80
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_BPF_FD, TCA_BPF_NAME, TCA_BPF_FLAGS, TCA_BPF_ID = 6, 7, 8, 11
CLSACT_HANDLE, CLSACT_PARENT = 0xFFFF0000, 0xFFFFFFF1
CLSACT_INGRESS, CLSACT_EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
ETH_P_ALL = 0x0300
TC_ROOT = 0xFFFFFFFF
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST, _ETHERNET = 1, 4, 6, 1
FILTER_PRIORITY = 1
SOURCE_RULE_PRIORITY = 32000
"""Before the rule of the main table."""
SOLE = 1
"""The handle of a program that is alone at its link. Programs that share a link have different handles."""
_NO_QDISC = (errno.EINVAL, errno.ENOENT, errno.ENODEV)

_LINK = struct.Struct("=BxHiII")
ADDRESS = struct.Struct("=BBBBI")
ROUTE = struct.Struct("=BBBBBBBBI")
"""The header of routes, and of rules."""
_NEIGHBOR = struct.Struct("=BxxxiHBB")
_TC = struct.Struct("=BxxxiIII")
_RATE = struct.Struct("=BBHhHI")


class Link(Struct, frozen=True):
    index: int
    name: str
    kind: str
    mac: bytes
    mtu: int
    up: bool
    master: int
    peer: int
    qdisc: str


def veth(name: str, mac: str, peer_name: str, peer_mac: str, peer_namespace: int, mtu: int) -> NetlinkRequest:
    """Creates a veth pair, both down: `name` in this namespace, its peer in the namespace of the
    descriptor."""
    peer = _LINK.pack(0, 0, 0, 0, 0) + attribute_text(IFLA_IFNAME, peer_name)
    peer += attribute(IFLA_ADDRESS, pack_mac(peer_mac)) + attribute_u32(IFLA_MTU, mtu)
    peer += attribute_u32(IFLA_NET_NS_FD, peer_namespace)
    data = nested(IFLA_INFO_DATA, attribute(VETH_INFO_PEER, peer))
    body = _LINK.pack(0, 0, 0, 0, 0) + attribute_text(IFLA_IFNAME, name)
    body += attribute(IFLA_ADDRESS, pack_mac(mac)) + attribute_u32(IFLA_MTU, mtu)
    body += nested(IFLA_LINKINFO, attribute_text(IFLA_INFO_KIND, "veth"), data)
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make veth {name}")


def vxlan(name: str, mac: str, port: int) -> NetlinkRequest:
    """Creates a VXLAN device in external mode: the tunnel of each packet is in its metadata."""
    data = nested(
        IFLA_INFO_DATA,
        attribute(IFLA_VXLAN_COLLECT_METADATA, b"\1"),
        attribute(IFLA_VXLAN_LEARNING, b"\0"),
        attribute(IFLA_VXLAN_PORT, port.to_bytes(2, "big")),
    )
    body = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP) + attribute_text(IFLA_IFNAME, name)
    body += attribute(IFLA_ADDRESS, pack_mac(mac))
    body += nested(IFLA_LINKINFO, attribute_text(IFLA_INFO_KIND, "vxlan"), data)
    return NetlinkRequest(
        RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make VXLAN device {name}", (errno.EEXIST,)
    )


def bridge(name: str) -> NetlinkRequest:
    body = _LINK.pack(0, 0, 0, IFF_UP, IFF_UP) + attribute_text(IFLA_IFNAME, name)
    body += nested(IFLA_LINKINFO, attribute_text(IFLA_INFO_KIND, "bridge"))
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"make bridge {name}")


def set_link(
    index: int, *, up: bool = True, master: int | None = None, mtu: int | None = None
) -> NetlinkRequest:
    body = _LINK.pack(0, 0, index, IFF_UP if up else 0, IFF_UP)
    if master is not None:
        body += attribute_u32(IFLA_MASTER, master)
    if mtu is not None:
        body += attribute_u32(IFLA_MTU, mtu)
    return NetlinkRequest(RTM_NEWLINK, 0, body, f"set link {index}")


def delete_link(index: int) -> NetlinkRequest:
    return NetlinkRequest(
        RTM_DELLINK, 0, _LINK.pack(0, 0, index, 0, 0), f"delete link {index}", (errno.ENODEV,)
    )


def add_address(index: int, address: Address, prefix_length: int) -> NetlinkRequest:
    family = AF_INET if address.version == 4 else AF_INET6
    body = ADDRESS.pack(family, prefix_length, 0, 0, index)
    body += attribute(IFA_LOCAL, address.packed) + attribute(IFA_ADDRESS, address.packed)
    if family == AF_INET6:
        # No duplicate address detection: the data plane prevents duplicates.
        body += attribute_u32(IFA_FLAGS, IFA_F_NODAD)
    return NetlinkRequest(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, body, f"add address {address}")


def delete_address(index: int, address: Address, prefix_length: int) -> NetlinkRequest:
    family = AF_INET if address.version == 4 else AF_INET6
    body = ADDRESS.pack(family, prefix_length, 0, 0, index) + attribute(IFA_LOCAL, address.packed)
    return NetlinkRequest(RTM_DELADDR, 0, body, f"delete address {address}", (errno.EADDRNOTAVAIL,))


def add_route(
    index: int, target: Prefix | None, via: Address | None, family: int, table: int = RT_TABLE_MAIN
) -> NetlinkRequest:
    """Adds a route to `target` (None: default route) through `via` (None: on-link)."""
    body = _route(index, target, via, family, table)
    return NetlinkRequest(
        RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, body, f"add route to {target or 'default'}"
    )


def delete_route(index: int, target: Prefix | None, via: Address | None, family: int) -> NetlinkRequest:
    body = _route(index, target, via, family)
    return NetlinkRequest(RTM_DELROUTE, 0, body, f"delete route to {target or 'default'}", (errno.ESRCH,))


def add_source_rule(source: Address, table: int) -> NetlinkRequest:
    """Routes packets from the address by the table. Idempotent."""
    family = AF_INET if source.version == 4 else AF_INET6
    body = ROUTE.pack(family, 0, source.max_prefixlen, 0, 0, 0, 0, FR_ACT_TO_TBL, 0)
    body += attribute(FRA_SRC, source.packed) + attribute_u32(FRA_TABLE, table)
    body += attribute_u32(FRA_PRIORITY, SOURCE_RULE_PRIORITY)
    description = f"route packets from {source} by table {table}"
    return NetlinkRequest(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body, description, (errno.EEXIST,))


def _route(
    index: int, target: Prefix | None, via: Address | None, family: int, table: int = RT_TABLE_MAIN
) -> bytes:
    bits = target.prefixlen if target else 0
    scope = 0 if via else RT_SCOPE_LINK
    body = ROUTE.pack(family, bits, 0, 0, 0, RTPROT_STATIC, scope, RTN_UNICAST, 0)
    body += attribute_u32(RTA_TABLE, table)  # The header has room for tables up to 255 only.
    if target:
        body += attribute(RTA_DST, target.network_address.packed)
    if via:
        body += attribute(RTA_GATEWAY, via.packed)
    return body + attribute_u32(RTA_OIF, index)


def add_neighbor(index: int, address: Address, mac: str) -> NetlinkRequest:
    family = AF_INET if address.version == 4 else AF_INET6
    body = _NEIGHBOR.pack(family, index, NUD_PERMANENT, 0, 0)
    body += attribute(NDA_DST, address.packed) + attribute(NDA_LLADDR, pack_mac(mac))
    return NetlinkRequest(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, body, f"add neighbour {address}")


def clsact(index: int) -> NetlinkRequest:
    body = _TC.pack(0, index, CLSACT_HANDLE, CLSACT_PARENT, 0) + attribute_text(TCA_KIND, "clsact")
    return NetlinkRequest(
        RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body, f"make clsact at link {index}", (errno.EEXIST,)
    )


def token_bucket(index: int, bytes_per_second: int, burst_bytes: int) -> NetlinkRequest:
    """Limits the link's egress rate; queues up to one second of traffic."""
    rate = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(bytes_per_second, 0xFFFFFFFF))
    limit = min(max(bytes_per_second, 4 * burst_bytes), 0x7FFFFFFF)
    parameters = rate + bytes(_RATE.size) + struct.pack("=III", limit, 0, 0)
    options = attribute(TCA_TBF_PARMS, parameters) + attribute_u32(TCA_TBF_BURST, burst_bytes)
    if bytes_per_second > 0xFFFFFFFF:
        options += attribute(TCA_TBF_RATE64, bytes_per_second.to_bytes(8, "little"))
    body = (
        _TC.pack(0, index, 1 << 16, TC_ROOT, 0)
        + attribute_text(TCA_KIND, "tbf")
        + nested(TCA_OPTIONS, options)
    )
    return NetlinkRequest(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, f"limit the rate of link {index}")


def remove_clsact(index: int) -> NetlinkRequest:
    """Also removes every program at the link."""
    body = _TC.pack(0, index, CLSACT_HANDLE, CLSACT_PARENT, 0)
    return NetlinkRequest(RTM_DELQDISC, 0, body, f"remove clsact of link {index}", _NO_QDISC)


def remove_root_qdisc(index: int) -> NetlinkRequest:
    body = _TC.pack(0, index, 0, TC_ROOT, 0)
    return NetlinkRequest(RTM_DELQDISC, 0, body, f"remove the qdisc of link {index}", _NO_QDISC)


def attach(index: int, program: int, name: str, handle: int = SOLE) -> NetlinkRequest:
    """Attaches the program to the link's ingress; one with the same handle is replaced atomically."""
    body = _TC.pack(0, index, handle, CLSACT_INGRESS, FILTER_PRIORITY << 16 | ETH_P_ALL)
    body += attribute_text(TCA_KIND, "bpf")
    options = attribute_u32(TCA_BPF_FD, program) + attribute_text(TCA_BPF_NAME, name)
    body += nested(TCA_OPTIONS, options, attribute_u32(TCA_BPF_FLAGS, 1))
    return NetlinkRequest(
        RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_REPLACE, body, f"attach {name} to link {index}"
    )


def detach(index: int, handle: int = SOLE) -> NetlinkRequest:
    """Detaches only the program with this handle from the link's ingress."""
    body = _TC.pack(0, index, handle, CLSACT_INGRESS, FILTER_PRIORITY << 16 | ETH_P_ALL)
    body += attribute_text(TCA_KIND, "bpf")
    return NetlinkRequest(RTM_DELTFILTER, 0, body, f"detach from link {index}", _NO_QDISC)


def _read_link(body: bytes) -> Link:
    _family, _kind, index, flags, _change = _LINK.unpack_from(body)
    values = attributes(body[16:])
    info = attributes(values.get(IFLA_LINKINFO, b""))
    return Link(
        index=index,
        name=values.get(IFLA_IFNAME, b"").rstrip(b"\0").decode(),
        kind=info.get(IFLA_INFO_KIND, b"").rstrip(b"\0").decode(),
        mac=values.get(IFLA_ADDRESS, b""),
        mtu=int.from_bytes(values.get(IFLA_MTU, b""), "little"),
        up=bool(flags & IFF_UP),
        master=int.from_bytes(values.get(IFLA_MASTER, b""), "little"),
        peer=int.from_bytes(values.get(IFLA_LINK, b""), "little"),
        qdisc=values.get(IFLA_QDISC, b"").rstrip(b"\0").decode(),
    )


def read_links(netlink: Netlink) -> Iterator[Link]:
    request = NetlinkRequest(RTM_GETLINK, 0, _LINK.pack(0, 0, 0, 0, 0), "list links")
    for _kind, body in netlink.dump(request):
        yield _read_link(body)


def read_link(netlink: Netlink, name: str) -> Link | None:
    body = _LINK.pack(0, 0, 0, 0, 0) + attribute_text(IFLA_IFNAME, name)
    response = netlink.ask(NetlinkRequest(RTM_GETLINK, 0, body, f"find link {name}"))
    return _read_link(response) if response is not None else None


def read_attached(netlink: Netlink, index: int, handle: int = SOLE) -> int:
    """The id of the program with this handle at the link's ingress; 0 if there is none."""
    program_id = 0
    for filter_handle, body in _read_filters(netlink, index, CLSACT_INGRESS):
        options = attributes(attributes(body).get(TCA_OPTIONS, b""))
        if filter_handle == handle and TCA_BPF_ID in options:
            program_id = int.from_bytes(options[TCA_BPF_ID], "little")
    return program_id


def is_filtered(netlink: Netlink, index: int, except_handle: int = 0) -> bool:
    """Whether the link has any filter except the one with the handle `except_handle`."""
    handles: set[int] = set()
    for parent in (CLSACT_INGRESS, CLSACT_EGRESS):
        handles |= {handle for handle, _body in _read_filters(netlink, index, parent)}
    return bool(handles - {0, except_handle})


def read_root_handle(netlink: Netlink, index: int) -> int:
    """The handle of the link's root qdisc; 0 for the kernel's default qdisc."""
    request = NetlinkRequest(RTM_GETQDISC, 0, _TC.pack(0, index, 0, 0, 0), f"list qdiscs of link {index}")
    root_handle = 0
    for _kind, response in netlink.dump(request):
        _family, link, handle, parent, _info = _TC.unpack_from(response)
        if link == index and parent == TC_ROOT:
            root_handle = handle
    return root_handle


def _read_filters(netlink: Netlink, index: int, parent: int) -> Iterator[tuple[int, bytes]]:
    """Handle and attributes of each filter; entries of chains have handle 0."""
    request = NetlinkRequest(
        RTM_GETTFILTER, 0, _TC.pack(0, index, 0, parent, 0), f"list filters of link {index}"
    )
    for _kind, response in netlink.dump(request):
        yield _TC.unpack_from(response)[2], response[20:]


def read_next_hop(netlink: Netlink, target: IPv4Address) -> IPv4Address | None:
    """The next hop to `target`, which is `target` itself if it is on-link; None if there is no route."""
    body = ROUTE.pack(AF_INET, 32, 0, 0, 0, 0, 0, 0, 0) + attribute(RTA_DST, target.packed)
    unreachable = (errno.ENETUNREACH, errno.EHOSTUNREACH)
    response = netlink.ask(NetlinkRequest(RTM_GETROUTE, 0, body, f"find route to {target}", unreachable))
    if response is None:
        return None
    via = attributes(response[12:]).get(RTA_GATEWAY)
    return IPv4Address(via) if via else target
