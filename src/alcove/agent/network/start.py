"""A node's network from what its agent is told at the start. To be called in the node's network namespace."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, IPv6Interface, ip_interface
from pathlib import Path

from pyroute2 import IPRoute

from alcove.agent.network.apiserver_proxy import Address
from alcove.agent.network.node_network import NodeNetwork, NodeNetworkConfig
from alcove.client.keys import PlaneId
from alcove.client.planes import Planes
from alcove.dataplane.instance import BPF_ROOT
from alcove.dataplane.model import DataplaneSettings, Interface
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
) -> NodeNetwork:
    """Takes up the data plane of that instance, or begins one. Raises DataPlaneError."""
    found = _beside(underlay)
    settings = DataplaneSettings(instance, IPv4Address(address), underlay, node6=global6(found))
    config = NodeNetworkConfig(
        node=node,
        address=IPv4Address(address),
        underlay=tuple(dict.fromkeys(each.network for each in found)),
        folder=folder,
        resolvers=resolvers(RESOLV_CONF),
    )
    return NodeNetwork(DataPlane(settings, bpf_root=bpf_root), planes, config, api_server)


def _beside(device: str) -> list[Interface]:
    """In a thread: the library that asks runs an event loop of its own, and here one runs already."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(interfaces, device).result()


def interfaces(device: str) -> list[Interface]:
    """The addresses of the device, with the ranges that they are of."""
    with IPRoute() as route:
        [index, *_] = route.link_lookup(ifname=device) or [0]
        found = [each for each in route.get_addr(index=index) if index]
    return [ip_interface(f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}") for each in found]


def global6(found: Iterable[Interface]) -> IPv6Address | None:
    """The first address that others than neighbours can reach by IPv6; None: there is none."""
    return next(
        (each.ip for each in found if isinstance(each, IPv6Interface) and not each.is_link_local), None
    )


def resolvers(path: Path) -> tuple[Resolver, ...]:
    """Those that the node itself uses."""
    if not path.exists():
        return ()
    return tuple(Resolver(address) for address in resolvconf.parse(path.read_text()).nameservers)
