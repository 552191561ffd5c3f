"""A node's network from what its agent is told at the start. To be called in the node's network namespace."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, ip_interface
from pathlib import Path

from pyroute2 import IPRoute

from alcove.agent.network.network import Network, Place
from alcove.agent.network.proxy import Address
from alcove.client.keys import PlaneId
from alcove.client.planes import Planes
from alcove.dataplane.address import Prefix
from alcove.dataplane.instance import BPF_ROOT
from alcove.dataplane.model import Settings
from alcove.dataplane.plane import Plane
from alcove.dns import resolvconf
from alcove.dns.upstream import Resolver

RESOLV_CONF = Path("/etc/resolv.conf")


def start(
    planes: Planes,
    *,
    node: str,
    address: str,
    underlay: str,
    folder: Path,
    instance: str,
    api_server: Callable[[PlaneId], Address],
    bpf_root: Path = BPF_ROOT,
) -> Network:
    """Takes up the data plane of that instance, or begins one. Raises DataPlaneError."""
    plane = Plane(Settings(instance, IPv4Address(address), underlay), bpf_root=bpf_root)
    place = Place(
        node=node,
        address=IPv4Address(address),
        underlay=_beside(underlay),
        folder=folder,
        resolvers=resolvers(RESOLV_CONF),
    )
    return Network(plane, planes, place, api_server)


def _beside(device: str) -> tuple[Prefix, ...]:
    """In a thread: the library that asks runs an event loop of its own, and here one runs already."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(prefixes, device).result()


def prefixes(device: str) -> tuple[Prefix, ...]:
    """The ranges that the device is in."""
    with IPRoute() as route:
        [index, *_] = route.link_lookup(ifname=device) or [0]
        found = [each for each in route.get_addr(index=index) if index]
    texts = (f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}" for each in found)
    return tuple(dict.fromkeys(ip_interface(text).network for text in texts))


def resolvers(path: Path) -> tuple[Resolver, ...]:
    """Those that the node itself uses."""
    if not path.exists():
        return ()
    return tuple(Resolver(address) for address in resolvconf.parse(path.read_text()).nameservers)
