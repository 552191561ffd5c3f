"""Creates the node's network from the agent's configuration. Call it in the node's network namespace."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from ipaddress import IPv4Address, IPv6Address, IPv6Interface
from pathlib import Path

from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.map_shares import NetworkNote
from alcove.agent.network.node_network import NodeNetwork, NodeNetworkConfig
from alcove.agent.podkey import PodKey
from alcove.agent.trusted_tenants import is_ring0
from alcove.client.keys import PlaneId
from alcove.client.planes import Planes
from alcove.dataplane import links
from alcove.dataplane.instance import BPF_ROOT
from alcove.dataplane.linkstate import read_addresses
from alcove.dataplane.model import DataplaneSettings, Interface
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dns import resolvconf
from alcove.dns.upstream import Resolver

RESOLV_CONF = Path("/etc/resolv.conf")


def start_network(
    planes: Planes,
    *,
    node: str,
    address: str,
    underlay: str,
    folder: Path,
    instance: str,
    api_server: Callable[[PlaneId], Address],
    bpf_root: Path = BPF_ROOT,
    upstreams: Sequence[str] = (),
    note: NetworkNote = lambda *_: None,
    is_trusted: Callable[[PodKey], bool] = is_ring0,
    routes_ring0: bool = False,
) -> NodeNetwork:
    """Adopts the data plane of that instance, or creates it. `upstreams`: addresses of DNS servers for external
    names, instead of those in resolv.conf; `note` records events; `is_trusted` says whether a pod may have the
    node's network and ports; `routes_ring0`: the node gets routes to ring0's default network. Raises DataPlaneError."""
    addresses = interfaces(underlay)
    settings = DataplaneSettings(instance, IPv4Address(address), underlay, node6=global6(addresses))
    config = NodeNetworkConfig(
        node=node,
        address=IPv4Address(address),
        underlay=tuple(dict.fromkeys(each.network for each in addresses)),
        folder=folder,
        resolvers=resolvers(RESOLV_CONF, upstreams),
        routes_ring0=routes_ring0,
    )
    return NodeNetwork(DataPlane(settings, bpf_root=bpf_root), planes, config, api_server, note, is_trusted)


def interfaces(device: str) -> list[Interface]:
    """The addresses of the device, with their prefixes; empty if there is no such device."""
    with closing(Netlink()) as netlink:
        link = links.read_link(netlink, device)
        return read_addresses(netlink, link.index) if link is not None else []


def global6(addresses: Iterable[Interface]) -> IPv6Address | None:
    """The first IPv6 address that is not link-local; None if there is none."""
    return next(
        (each.ip for each in addresses if isinstance(each, IPv6Interface) and not each.is_link_local), None
    )


def resolvers(path: Path, named: Sequence[str] = ()) -> tuple[Resolver, ...]:
    """The DNS servers that tenants' queries for external names are sent to: those that ring0 has named,
    otherwise the node's nameservers."""
    if named or not path.exists():
        return tuple(Resolver(address) for address in named)
    return tuple(Resolver(address) for address in resolvconf.parse(path.read_text()).nameservers)
